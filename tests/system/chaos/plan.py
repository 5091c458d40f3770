"""What will break, when and for how long: made from a seed, so that it can be made again."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

UK, US = "companies_house", "sec_edgar"
QUIET_AT_FIRST_SECONDS = 3.0


class Kind(StrEnum):
    KILL = "kill a worker with -9"
    STOP = "stop a worker for longer than its lease"
    RESTART = "restart the database in immediate mode"
    TERMINATE = "terminate database sessions"
    CUT = "cut the network to the database"
    DEAF = "let the network to the database go deaf"
    FAULT = "let a service fail"
    INVALID = "let a service reject a key"
    EXHAUSTED = "let an account run out of quota"


# How often each comes within a run of 100 blows.
WEIGHTS: Mapping[Kind, int] = {
    Kind.KILL: 34,
    Kind.STOP: 10,
    Kind.RESTART: 4,
    Kind.TERMINATE: 12,
    Kind.CUT: 6,
    Kind.DEAF: 4,
    Kind.FAULT: 30,
}
FAULTS: tuple[Mapping[str, Any], ...] = (
    {"kind": "rate_storm", "service": UK, "count": 20},
    {"kind": "status", "status": 429, "seconds": 1, "service": US, "count": 6},
    {"kind": "status", "status": 500, "count": 15},
    {"kind": "status", "status": 503, "seconds": 1, "count": 10},
    {"kind": "slow", "seconds": 2.5, "count": 8},
    {"kind": "cut", "count": 12},
    {"kind": "garbage", "count": 8},
)


@dataclass(frozen=True, slots=True)
class Blow:
    """One thing that breaks, `at` seconds after the start. `target`: which worker; `seconds`: how long."""

    at: float
    kind: Kind
    target: int = 0
    seconds: float = 0.0
    fault: Mapping[str, Any] | None = None

    def __str__(self) -> str:
        what = {Kind.KILL: f" ({self.target})", Kind.STOP: f" ({self.target}, {self.seconds:.1f} s)"}
        fault = " ".join(f"{value}" for value in (self.fault or {}).values())
        return f"{self.at:6.1f} s  {self.kind}{what.get(self.kind, '')}{': ' + fault if fault else ''}"


def plan(seed: int, seconds: float, workers: int, lease_seconds: float, every_seconds: float) -> list[Blow]:
    """The blows of a run, in order. A third in, a key is rejected; half way, an account is out of quota."""
    dice = random.Random(seed)
    blows = [
        Blow(seconds / 3, Kind.INVALID, fault={"kind": "key_invalid", "key": "uk1"}),
        Blow(seconds / 2, Kind.EXHAUSTED, fault={"kind": "key_exhausted", "key": "uk2"}),
    ]
    at = QUIET_AT_FIRST_SECONDS
    while at < seconds:
        kind = dice.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
        blows.append(_blow(dice, kind, at, workers, lease_seconds))
        at += dice.uniform(0.2, 1.8) * every_seconds
    return sorted(blows, key=lambda blow: blow.at)


def _blow(dice: random.Random, kind: Kind, at: float, workers: int, lease_seconds: float) -> Blow:
    match kind:
        case Kind.STOP:
            return Blow(at, kind, dice.randrange(workers), lease_seconds * dice.uniform(1.2, 2.0))
        case Kind.CUT | Kind.DEAF:
            return Blow(at, kind, seconds=dice.uniform(0.5, lease_seconds * 1.5))
        case Kind.FAULT:
            return Blow(at, kind, fault=dice.choice(FAULTS))
        case _:
            return Blow(at, kind, dice.randrange(workers))
