"""Faults that are set from outside: which requests they meet, how often, and what they do to the answer."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sandbox.answers import Answer

KINDS = ("status", "slow", "cut", "garbage", "rate_storm", "key_invalid", "key_exhausted")
SERVICES = ("companies_house", "sec_edgar", "storage")
_FIELDS = {"match", "service", "key", "kind", "status", "seconds", "count", "share"}
_STATUSES = range(400, 600)
_GARBAGE_BYTES = 200


class BadFault(ValueError):
    """The rule cannot be used; the text says why."""


@dataclass(slots=True)
class Fault:
    """One rule. `count` None: it stays; `share` 1: it meets every request that matches."""

    match: re.Pattern[str]
    kind: str
    service: str | None = None
    key: str | None = None
    status: int = 503
    seconds: float = 2.0
    count: int | None = None
    share: float = 1.0
    is_planted: bool = False
    chance: random.Random = field(default_factory=random.Random)

    def meets(self, service: str, path: str, label: str | None) -> bool:
        return (
            self.count != 0
            and self.service in {None, service}
            and self.key in {None, label}
            and self.match.search(path) is not None
            and (self.share >= 1 or self.chance.random() < self.share)
        )

    def shown(self) -> dict[str, object]:
        """As it was posted, with the count that is left."""
        names = ("service", "key", "status", "seconds", "count", "share")
        return {"match": self.match.pattern, "kind": self.kind} | {n: getattr(self, n) for n in names}


class Faults:
    """The rules in force. Safe for threads. `planted` rules belong to the sample and stay for ever."""

    def __init__(self, seed: int, planted: Iterable[Fault] = ()) -> None:
        self._lock = threading.Lock()
        self._seed = seed
        self._sample = tuple(planted)
        self._planted = [replace(fault) for fault in self._sample]
        self._posted: list[Fault] = []

    def add(self, rules: object) -> None:
        """Adds one rule or a list of them, all or none. Raises `BadFault`."""
        entries = rules if isinstance(rules, list) else [rules]
        with self._lock:
            first = len(self._posted)
            self._posted += [self._fault(entry, first + place) for place, entry in enumerate(entries)]

    def clear(self) -> None:
        with self._lock:
            self._posted.clear()

    def arm_planted(self) -> None:
        """The troubles of the sample begin anew."""
        with self._lock:
            self._planted = [replace(fault) for fault in self._sample]

    def shown(self) -> list[dict[str, object]]:
        with self._lock:
            return [fault.shown() for fault in self._posted if fault.count != 0]

    def pick(self, service: str, path: str, label: str | None) -> Fault | None:
        """The first rule that meets the request; its count goes down by one."""
        with self._lock:
            for fault in (*self._posted, *self._planted):
                if fault.meets(service, path, label):
                    if fault.count is not None:
                        fault.count -= 1
                    return replace(fault)
        return None

    def _fault(self, entry: object, place: int) -> Fault:
        if not isinstance(entry, dict) or not {"match", "kind"} <= entry.keys() <= _FIELDS:
            raise BadFault(f"a rule is an object with match, kind and some of {sorted(_FIELDS)}")
        _check(entry)
        try:
            pattern = re.compile(entry["match"])
        except (re.error, TypeError) as error:
            raise BadFault(f"match {entry['match']!r} is no regular expression: {error}") from error
        chance = random.Random(f"{self._seed}:fault:{place}")  # noqa: S311 - a dice, not a secret
        return Fault(**{**entry, "match": pattern, "chance": chance})


def _check(entry: Mapping[str, Any]) -> None:
    if entry["kind"] not in KINDS:
        raise BadFault(f"kind {entry['kind']!r} is none of {', '.join(KINDS)}")
    if entry.get("service") not in {None, *SERVICES}:
        raise BadFault(f"service {entry['service']!r} is none of {', '.join(SERVICES)}")
    if entry.get("status", 503) not in _STATUSES:
        raise BadFault(f"status {entry['status']!r} is no error status")
    for name in ("seconds", "count", "share"):
        value = entry.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float) or value < 0):
            raise BadFault(f"{name} {value!r} is no number from 0 on")


def spoil(answer: Answer, fault: Fault) -> Answer:
    """The answer as a fault of the kinds slow, cut and garbage leaves it."""
    match fault.kind:
        case "slow":
            return replace(answer, drip_seconds=fault.seconds)
        case "cut":
            return replace(answer, is_cut=True, is_spoiled=True)
        case _:
            return replace(answer, status=200, body=_garbled(answer, fault.chance), is_spoiled=True)


def _garbled(answer: Answer, chance: random.Random) -> bytes:
    """JSON that breaks off; in place of a document none at all: nothing, or bytes without a tag."""
    if "json" in answer.content_type:
        return answer.body[: min(_GARBAGE_BYTES, len(answer.body) // 2)] + b'{"<'
    return chance.choice((b"", b"\x89" + chance.randbytes(_GARBAGE_BYTES) + b"\0"))
