"""What arrived, what was over a limit and what was asked again: the judge's book."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sandbox.keys import Key, fingerprint
from sandbox.limits import Account, Ruling


@dataclass(frozen=True, slots=True)
class Moment:
    """When a request arrived: `at` on the monotonic clock, `epoch` for people. Both in seconds."""

    at: float
    epoch: float


@dataclass(frozen=True, slots=True)
class Standing:
    """What the service tells a key about its tightest limit. `resets_at` is in epoch seconds."""

    amount: int
    remaining: int
    resets_at: float
    window: str


@dataclass(slots=True)
class _Question:
    """One request as the service sees it, whoever asks it."""

    service: str
    request: str
    arrived_at: list[float] = field(default_factory=list)
    answered_at: list[float] = field(default_factory=list)
    repeated: int = 0


@dataclass(slots=True)
class _Tally:
    calls: int = 0
    over_limit: int = 0
    while_blocked: int = 0
    rate_limited: int = 0
    answers: Counter[int] = field(default_factory=Counter)
    over_limit_at: list[tuple[float, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Arrival:
    """An arrival in the book, to be closed by `Counts.answered`. `service` may be `storage`."""

    service: str
    key: Key | None
    ruling: Ruling
    standing: Standing | None
    question: _Question | None


class Counts:
    """Counts every arrival. Safe for threads: one lock, held for some microseconds."""

    def __init__(self, keys: Sequence[Key], sec_block_seconds: float) -> None:
        self._keys = keys
        self._sec_block_seconds = sec_block_seconds
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Forgets everything but the keys."""
        with self._lock:
            self._since = time.monotonic()
            self._by_key = {key.label: _Tally() for key in self._keys}
            self._by_service: dict[str, _Tally] = {}
            self._unknown_keys: Counter[str] = Counter()
            self._questions: dict[str, _Question] = {}
            self._repeated = 0
            self._accounts = {(key.service, key.account): self._account(key) for key in self._keys}

    def arrive(self, moment: Moment, service: str, key: Key | None, request: str, accept: str) -> Arrival:
        """Judges an arrival at a service. `request` is path and sorted query; `key` None: not let in."""
        with self._lock:
            self._service(service).calls += 1
            question = self._ask(moment, service, request, accept)
            if key is None:
                self._unknown_keys[service] += 1
                return Arrival(service, None, Ruling.WITHIN, None, question)
            account = self._accounts[key.service, key.account]
            ruling = account.arrive(moment.at)
            for tally in (self._by_key[key.label], self._service(service)):
                tally.over_limit += ruling is Ruling.OVER_LIMIT
                tally.while_blocked += ruling is Ruling.WHILE_BLOCKED
            self._by_key[key.label].calls += 1
            if ruling is Ruling.OVER_LIMIT:
                longest = max(window.limit.window_seconds for window in account.windows)
                self._by_key[key.label].over_limit_at.append((moment.epoch, longest))
            return Arrival(service, key, ruling, _standing(account, moment), question)

    def arrive_at_storage(self) -> Arrival:
        """Storage takes no key, has no limit and costs nothing: only the number is kept."""
        with self._lock:
            self._service("storage").calls += 1
        return Arrival("storage", None, Ruling.WITHIN, None, None)

    def answered(self, arrival: Arrival, status: int, *, is_rate_limit: bool, is_final: bool) -> None:
        """Closes an arrival. `is_final`: a lasting answer left in full, so that nobody needs to ask again."""
        with self._lock:
            tallies = [self._service(arrival.service)]
            if arrival.key is not None:
                tallies.append(self._by_key[arrival.key.label])
            for tally in tallies:
                tally.answers[status] += 1
                tally.rate_limited += is_rate_limit
            if is_final and arrival.question is not None:
                arrival.question.answered_at.append(time.time())

    def stats(self) -> dict[str, object]:
        """The totals, per key and per service, as `GET /sandbox/stats` shows them."""
        with self._lock:
            tallies = list(self._by_key.values())
            return {
                "seconds": round(time.monotonic() - self._since, 3),
                "calls": sum(tally.calls for tally in tallies),
                "over_limit": sum(tally.over_limit for tally in tallies),
                "while_blocked": sum(tally.while_blocked for tally in tallies),
                "repeated": self._repeated,
                "keys": {key.label: self._key_stats(key) for key in self._keys},
                "requests": {
                    name: _shown(tally) | {"unknown_key": self._unknown_keys[name]}
                    for name, tally in self._by_service.items()
                },
            }

    def repeats(self) -> list[dict[str, object]]:
        """Every request that arrived again after a lasting answer to it had left in full."""
        with self._lock:
            return [
                {
                    "request": question.request,
                    "service": question.service,
                    "answered_at": list(question.answered_at),
                    "arrived_at": list(question.arrived_at),
                }
                for question in self._questions.values()
                if question.repeated
            ]

    def _account(self, key: Key) -> Account:
        block_seconds = self._sec_block_seconds if key.service == "sec_edgar" else 0.0
        return Account(key.account, key.limits, block_seconds)

    def _service(self, name: str) -> _Tally:
        return self._by_service.setdefault(name, _Tally())

    def _ask(self, moment: Moment, service: str, request: str, accept: str) -> _Question:
        name = f"{service} {request} {accept}"
        question = self._questions.setdefault(name, _Question(service, request))
        question.arrived_at.append(moment.epoch)
        if question.answered_at:
            question.repeated += 1
            self._repeated += 1
        return question

    def _key_stats(self, key: Key) -> dict[str, object]:
        windows = self._accounts[key.service, key.account].windows
        return {
            "service": key.service,
            "account": key.account,
            "secret": fingerprint(key.secret),
            **_shown(self._by_key[key.label]),
            "over_limit_at": self._by_key[key.label].over_limit_at,  # (epoch, window) in seconds
            "busiest_window": {str(window.limit): window.busiest for window in windows},
        }


def _shown(tally: _Tally) -> dict[str, object]:
    return {
        "calls": tally.calls,
        "answers": {str(status): count for status, count in sorted(tally.answers.items())},
        "rate_limited": tally.rate_limited,
        "over_limit": tally.over_limit,
        "while_blocked": tally.while_blocked,
    }


def _standing(account: Account, moment: Moment) -> Standing:
    window = account.tightest
    free_in = (window.frees_at or moment.at) - moment.at
    return Standing(
        window.limit.amount, max(0, window.remaining), moment.epoch + free_in, window.limit.window
    )
