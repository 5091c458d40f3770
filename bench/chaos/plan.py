"""What goes wrong and when, from a seed alone: the same seed is the same plan."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What can go wrong. The words are what the log of a run says."""

    KILL = "kill -9"
    STOP = "stopped beyond its lease"
    CUT = "network cut"
    DEAF = "network deaf"
    LATE = "database's answers late"
    LOST = "database's answers lost"
    TERMINATE = "sessions terminated"
    RESTART = "database crashed"
    STORM = "429 storm"
    ERRORS = "500s"
    SLOW = "slow bodies"
    CUT_BODIES = "cut bodies"
    GARBAGE = "invalid JSON"
    NO_DOCUMENT = "documents garbled"
    KEY_INVALID = "key became invalid"
    KEY_EXHAUSTED = "account out of quota"


# Happen once: their keys stay out for the rest of the run.
ONCE = (Kind.KEY_INVALID, Kind.KEY_EXHAUSTED)
# How often each comes beside the others.
WEIGHTS = {kind: 1 for kind in Kind if kind not in ONCE} | {
    Kind.KILL: 5,
    Kind.STOP: 2,
    Kind.DEAF: 2,
    Kind.LOST: 2,
}
GAP_SECONDS = (0.4, 1.8)


@dataclass(frozen=True, slots=True)
class Event:
    """`worker` and `seconds` (how long it lasts) matter to the kinds that have one."""

    at_seconds: float
    kind: Kind
    worker: int
    seconds: float


def events(seed: int, workers: int, lease_seconds: float) -> Iterator[Event]:
    """Events without end: first each kind once in some order, then by weight."""
    dice = random.Random(seed)
    first = list(Kind)
    dice.shuffle(first)
    at = 0.0
    while True:
        at += dice.uniform(*GAP_SECONDS)
        kind = first.pop() if first else dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        longest = 2.0 if kind is Kind.STOP else 1.5
        shortest = 1.2 if kind is Kind.STOP else 0.3
        seconds = lease_seconds * dice.uniform(shortest, longest)
        yield Event(at, kind, dice.randrange(workers), seconds)
