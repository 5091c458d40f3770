"""Traffic on clocks that the test turns: workers, slow calls, jitter, crashes, limits of every kind.

The statements are the true ones. The service counts strictly, over sliding windows, what reaches it.
"""

from __future__ import annotations

import heapq
import math
import random
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from store import database, ledger
from store.ledger import Reservation
from store.limits import Kind, Limit, parse
from store.workers import Identity

A = Callable[..., int]
AWorker = Callable[..., Identity]

BLOCK, AHEAD_SECONDS = 16, 0.2
_number = count()


@dataclass(order=True)
class Event:
    """Something that happens `at`; of what happens at once, in the order it was planned."""

    at: float
    no: int
    do: Callable[[], None] = field(compare=False)


@dataclass
class Call:
    """A call as the service sees it: when it comes, when its answer has gone, what it costs."""

    account: int
    at: float
    ended: float
    tokens: int


@dataclass
class Asker:
    """A worker: slots that want to call all the time, and its asker."""

    id: UUID
    line: list[int]
    calling: Counter[int] = field(default_factory=Counter)
    sent: list[Call] = field(default_factory=list)
    is_asking: bool = False
    is_dead: bool = False


class Traffic:
    """Runs workers against the ledger of `service` and notes what the service sees."""

    def __init__(
        self,
        conn: psycopg.Connection,
        clock: Any,
        service: str,
        start_worker: Callable[[], UUID],
        seed: int,
        *,
        latency: float,
        tokens: int = 0,
        jitter: float = 0.0,
        lateness: float = 1.0,
    ) -> None:
        self.calls: list[Call] = []
        self._conn, self._clock, self._service = conn, clock, service
        self._start_worker = start_worker
        self._chance = random.Random(seed)
        self._latency, self._tokens, self._jitter = latency, tokens, jitter
        self._lateness = lateness  # how much of the slack is used, at most
        self._events: list[Event] = []
        self._behind = 0.0
        self._no = count()
        self._askers: list[Asker] = []
        self._now: float = clock.at

    def add_worker(self, slots: int) -> None:
        asker = Asker(self._start_worker(), [self._cost() for _ in range(slots)])
        self._askers.append(asker)
        self._wake(asker, self._now)

    def crash_at(self, at: float, slots: int) -> None:
        """A worker dies with what it has reserved and what is under way; a new one comes a second later."""

        def crash() -> None:
            alive = [asker for asker in self._askers if not asker.is_dead]
            if not alive:
                return
            dead = self._chance.choice(alive)
            dead.is_dead = True
            for call in dead.sent:  # its connections are closed
                call.ended = max(call.at, min(call.ended, at))
            self._conn.execute("UPDATE worker SET state = 'lost', ended_at = now() WHERE id = %s", (dead.id,))
            self._plan(at + 1.0, lambda: self.add_worker(slots))

        self._plan(at, crash)

    def step_back_at(self, at: float, seconds: float) -> None:
        """The database's clock does, and stays behind; the service's does not."""

        def step() -> None:
            self._behind += seconds

        self._plan(at, step)

    def run_until(self, end: float) -> None:
        while self._events and self._events[0].at < end:
            event = heapq.heappop(self._events)
            self._now = event.at
            self._clock.set(event.at - self._behind)
            event.do()
        self._clock.set(end - self._behind)

    def _plan(self, at: float, do: Callable[[], None]) -> None:
        heapq.heappush(self._events, Event(at, next(self._no), do))

    def _cost(self) -> int:
        return self._chance.randint(1, self._tokens) if self._tokens else 0

    def _wake(self, asker: Asker, at: float) -> None:
        if not asker.is_asking and not asker.is_dead:
            asker.is_asking = True
            self._plan(at, lambda: self._ask(asker))

    def _ask(self, asker: Asker) -> None:
        asker.is_asking = False
        if asker.is_dead or not asker.line:
            return
        now, asking = self._now, asker.line[:BLOCK]
        answer = ledger.reserve(
            self._conn,
            self._service,
            None,
            len(asking),
            AHEAD_SECONDS,
            tokens=asking,
            worker=asker.id,
            calling={account: calls for account, calls in asker.calling.items() if calls},
        )
        assert isinstance(answer, Reservation)
        for in_seconds, tokens in zip(answer.in_seconds, asking, strict=False):
            asker.line.remove(tokens)
            self._send(asker, answer, now + in_seconds, tokens)
        pause = 0.002 if answer.in_seconds else max(answer.wait_seconds - 0.1, 0.002)
        if pause < math.inf:
            self._wake(asker, now + min(pause, 1.0))
        elif not asker.calling.total():  # else it asks again when a call of its own has ended
            self._wake(asker, now + 0.25)

    def _send(self, asker: Asker, answer: Reservation, at: float, tokens: int) -> None:
        asker.calling[answer.account_id] += 1
        latest = self._lateness * answer.slack_seconds
        sent = at + self._chance.choice([0.0, 1.0, self._chance.random()]) * latest
        seen = sent + self._chance.choice([0.0, 1.0, self._chance.random()]) * self._jitter
        call = Call(answer.account_id, seen, seen, tokens)

        def send() -> None:
            if not asker.is_dead:
                call.ended = call.at + self._latency * self._chance.uniform(0.5, 1.5)
                self.calls.append(call)
                asker.sent.append(call)
                self._plan(call.ended, end)

        def end() -> None:
            if asker.is_dead:
                return
            asker.calling[call.account] -= 1
            asker.line.append(self._cost())
            self._wake(asker, self._now)

        self._plan(sent, send)


def over(calls: Sequence[Call], limit: Limit) -> int:
    """How many calls are above the limit as the service counts them."""
    calls = sorted(calls, key=lambda call: call.at)
    weights = [call.tokens if limit.kind is Kind.TOKENS else 1 for call in calls]
    if limit.kind is Kind.AT_ONCE:
        return sum(level > limit.amount for level in _levels(calls))
    if limit.zone is not None:
        days = Counter[Any]()
        for call, weight in zip(calls, weights, strict=True):
            days[_day(call.at, limit)] += weight
        return sum(max(0, total - limit.amount) for total in days.values())
    sums, times = [0], [call.at for call in calls]
    for weight in weights:
        sums.append(sums[-1] + weight)
    windows = (
        sums[last + 1] - sums[bisect_left(times, at - limit.per_seconds + 1e-6)]
        for last, at in enumerate(times)
    )
    return sum(total > limit.amount for total in windows)


def _levels(calls: Sequence[Call]) -> Iterator[int]:
    changes = sorted([(call.at, 1) for call in calls] + [(call.ended, -1) for call in calls])
    level = 0
    for _, change in changes:
        level += change
        yield level


def _day(at: float, limit: Limit) -> Any:
    assert limit.zone
    assert limit.from_minute is not None
    return datetime.fromtimestamp(at - limit.from_minute * 60, ZoneInfo(limit.zone)).date()


def jitter_of(limits: Sequence[Limit]) -> float:
    """What the guard leaves for the way, after the slack."""
    return min(limit.guard_seconds for limit in limits) * (1 - ledger.SLACK_SHARE) * 0.99


@pytest.fixture
def conn(empty_dsn: str) -> Iterator[psycopg.Connection]:
    """One that commits: what a transaction has written over and over is slow to find in it."""
    with database.connect(empty_dsn, "test") as conn:
        conn.execute("SET synchronous_commit = off")
        yield conn


@pytest.fixture
def traffic(conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker) -> Callable[..., Traffic]:
    """`traffic(texts, seed, accounts=…, keys=…, **how)`: of a new service with accounts of these limits."""

    def make(texts: Sequence[str], seed: int, *, accounts: int = 1, keys: int = 1, **how: Any) -> Traffic:
        service = f"service {next(_number)}"
        for number in range(accounts * keys):
            a_key(conn, *texts, service=service, account=f"account {number % accounts}")
        register = lambda: a_worker(conn, lease_seconds=1e6).id  # noqa: E731
        how.setdefault("jitter", jitter_of([parse(text) for text in texts]))
        return Traffic(conn, clock, service, register, seed, **how)

    return make


ROLLING = [
    *("3/s", "10/s", "40/2s", "150/2s", "20/10s", "120/10s", "5/s spread", "60/m spread"),
    *("500 tokens/10s", "60 tokens/2s", "90 tokens/s spread", "2 at once", "7 at once"),
]
DAYS = [
    "25/day from 00:00 UTC",
    "40/day from 00:00 America/New_York",
    "2000 tokens/day from 06:30 Europe/Kyiv",
]
TOKENS = 40


def seconds_for(texts: Sequence[str]) -> float:
    """Several windows of slow limits; of fast ones no more calls than are needed."""
    limits = [limit for limit in map(parse, texts) if limit.kind is not Kind.AT_ONCE]
    rates = [
        limit.amount / limit.per_seconds / (TOKENS / 2 if limit.kind is Kind.TOKENS else 1)
        for limit in limits
    ]
    return min(30.0, max(6.0, 120 / min(rates))) if rates else 6.0


PROPERTY = settings(
    max_examples=15,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to make a run smaller takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@PROPERTY
@given(
    texts=st.lists(st.sampled_from(ROLLING + DAYS), min_size=1, max_size=4, unique=True),
    workers=st.integers(1, 6),
    accounts=st.integers(1, 2),
    keys=st.integers(1, 2),
    latency=st.sampled_from([0.02, 0.2, 2.0]),
    crashes=st.lists(st.floats(0.0, 1.0), max_size=3),
    seed=st.integers(0, 2**32),
)
def test_no_limit_of_any_kind_is_exceeded_as_the_service_counts(
    traffic: Callable[..., Traffic],
    clock: Any,
    texts: list[str],
    workers: int,
    accounts: int,
    keys: int,
    latency: float,
    crashes: list[float],
    seed: int,
) -> None:
    # Over a midnight of one of the days.
    zone = ZoneInfo(["UTC", "America/New_York"][seed % 2])
    clock.set(datetime(2027, 3, 14, 23, 59, 56, tzinfo=zone).timestamp())
    start, seconds = clock.at, seconds_for(texts)
    run = traffic(texts, seed, accounts=accounts, keys=keys, latency=latency, tokens=TOKENS)
    for _ in range(workers):
        run.add_worker(slots=8)
    for share in crashes:
        run.crash_at(start + share * seconds, slots=8)
    run.run_until(start + seconds)
    assert over_by_account(run, texts) == dict.fromkeys(texts, 0)


@PROPERTY
@given(
    texts=st.lists(st.sampled_from(ROLLING), min_size=1, max_size=3, unique=True),
    workers=st.integers(1, 4),
    steps=st.lists(
        st.tuples(st.floats(0.0, 1.0), st.sampled_from([0.05, 1.0, 3.0, 30.0, 3600.0])),
        min_size=1,
        max_size=3,
    ),
    seed=st.integers(0, 2**32),
)
def test_no_limit_is_exceeded_when_the_clock_of_the_database_steps_back(
    traffic: Callable[..., Traffic],
    clock: Any,
    texts: list[str],
    workers: int,
    steps: list[tuple[float, float]],
    seed: int,
) -> None:
    """Days are left out: whose clock is wrong does not know which day it is."""
    start, seconds = clock.at, seconds_for(texts)
    run = traffic(texts, seed, latency=0.2, tokens=TOKENS)
    for _ in range(workers):
        run.add_worker(slots=8)
    for share, step_seconds in steps:
        run.step_back_at(start + share * seconds, step_seconds)
    run.run_until(start + seconds)
    assert over_by_account(run, texts) == dict.fromkeys(texts, 0)


def over_by_account(run: Traffic, texts: Sequence[str]) -> dict[str, int]:
    """Of each limit how many calls were above it, at all accounts together."""
    by_account = defaultdict(list)
    for call in run.calls:
        by_account[call.account].append(call)
    assert by_account
    return {text: sum(over(calls, parse(text)) for calls in by_account.values()) for text in texts}


@pytest.mark.parametrize(
    ("text", "breaks"),
    [
        ("10/s", "UPDATE allowance SET guard_seconds = 0"),
        ("90 tokens/s", "UPDATE allowance SET guard_seconds = 0"),
        ("3 at once", "UPDATE allowance SET amount = 4"),
        ("20/day from 00:00 UTC", "UPDATE allowance SET guard_seconds = 0"),
    ],
)
def test_the_count_would_see_it(
    traffic: Callable[..., Traffic], conn: psycopg.Connection, clock: Any, text: str, breaks: str
) -> None:
    clock.set(datetime(2027, 3, 14, 23, 59, 59, tzinfo=ZoneInfo("UTC")).timestamp())
    run = traffic([text], 1, latency=2.0, tokens=40)
    conn.execute(breaks)
    for _ in range(3):
        run.add_worker(slots=8)
    run.run_until(clock.at + 8.0)
    assert over(run.calls, parse(text)) > 0


@pytest.mark.parametrize(
    ("texts", "seconds", "least", "workers", "accounts"),
    [
        (["300/m"], 180, 0.97, 3, 2),
        (["60/m"], 180, 0.97, 1, 4),
        (["60/m"], 180, 0.97, 8, 1),
        (["600/5m"], 900, 0.97, 2, 1),
        (["300/m spread"], 120, 0.97, 2, 1),
        (["2000 tokens/m"], 120, 0.97, 2, 1),
        (["600 tokens/m spread"], 120, 0.97, 2, 1),
        (["30/s", "600/m"], 120, 0.97, 2, 1),
        (["7 at once", "60/m", "900 tokens/m"], 180, 0.97, 3, 1),
        (["5/s"], 30, 0.93, 3, 2),
        (["5/s"], 30, 0.93, 8, 1),
        (["20/s"], 20, 0.93, 3, 2),
        (["90 tokens/s"], 30, 0.93, 3, 1),
        (["10/s spread"], 30, 0.93, 2, 1),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, list) else str(value),
)
def test_with_work_waiting_a_limit_is_used(
    traffic: Callable[..., Traffic],
    clock: Any,
    texts: list[str],
    seconds: int,
    least: float,
    workers: int,
    accounts: int,
) -> None:
    """Over several windows, in calls of 0.2 s with jitter on the way, whoever is more: workers or keys."""
    run = traffic(texts, 7, accounts=accounts, latency=0.2, tokens=9)
    start = clock.at
    for _ in range(workers):
        run.add_worker(slots=16)
    run.run_until(start + seconds)
    assert used(run, texts, seconds) >= least * accounts


def used(run: Traffic, texts: Sequence[str], seconds: float) -> float:
    """The part of one account's tightest limit that was used, as a number of accounts."""
    tokens = sum(call.tokens for call in run.calls)
    counted = {Kind.CALLS: len(run.calls), Kind.TOKENS: tokens}
    limits = [limit for limit in map(parse, texts) if limit.kind is not Kind.AT_ONCE]
    return max(counted[limit.kind] * limit.per_seconds / limit.amount / seconds for limit in limits)


def test_a_day_is_used_to_its_last_call(traffic: Callable[..., Traffic], clock: Any) -> None:
    clock.set(datetime(2027, 3, 14, 23, 59, 30, tzinfo=ZoneInfo("UTC")).timestamp())
    run = traffic(["200/day from 00:00 UTC"], 7, latency=0.2)
    run.add_worker(slots=16)
    run.run_until(clock.at + 60.0)
    assert len(run.calls) == 400


def test_crashes_cost_little_of_a_limit(traffic: Callable[..., Traffic], clock: Any) -> None:
    """Of each minute's 300 those are lost that a worker had in hand when it was killed: a block at most."""
    run = traffic(["300/m"], 7, latency=0.2)
    start = clock.at
    for _ in range(3):
        run.add_worker(slots=16)
    for minute in range(3):
        run.crash_at(start + 61 * minute + 0.3, slots=16)
    run.run_until(start + 180.0)
    assert len(run.calls) >= 900 * 0.97


@pytest.mark.parametrize(
    ("text", "workers", "latency", "least"),
    [
        ("5 at once", 3, 20.0, 0.97),
        ("2 at once", 2, 0.5, 0.97),
        ("7 at once", 4, 2.0, 0.97),
        ("2 at once", 5, 2.0, 0.85),  # they take turns
    ],
)
def test_slots_are_used_with_work_waiting_and_shared(
    traffic: Callable[..., Traffic], clock: Any, text: str, workers: int, latency: float, least: float
) -> None:
    run = traffic([text], 7, latency=latency, jitter=0.002, lateness=0.0)
    start, seconds, amount = clock.at, latency * 30, parse(text).amount
    for _ in range(workers):
        run.add_worker(slots=8)
    run.run_until(start + seconds)
    assert over(run.calls, parse(text)) == 0
    assert sum(min(call.ended, clock.at) - call.at for call in run.calls) >= least * amount * seconds
    each = [len([call for call in asker.sent if call.at > start + 6.0]) for asker in run._askers]
    assert min(each) >= 0.5 * sum(each) / max(workers, amount)
