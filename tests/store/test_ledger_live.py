"""The ledger under many askers at once, on the true clock, and what it locks."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg

from store import database, ledger
from store.ledger import Reservation
from store.limits import Limit, parse

A = Callable[..., int]
Connect = Callable[[], psycopg.Connection]

LIMITS = {"five": "5/s", "twelve": "12/2s", "both": "7/s 15/3s"}
RUN_SECONDS = 4.0


def ask_until(deadline: float, url: str, seed: int) -> list[tuple[str, float | None]]:
    """(key, when the service sees the call), as a worker turns permits into its own clock.

    None for a permit that was past its time before it arrived, as happens on a busy machine.
    """
    chance = random.Random(seed)
    jitter = Limit(5, 1).guard_seconds * (1 - ledger.SLACK_SHARE) * 0.99
    seen: list[tuple[str, float | None]] = []
    pause = threading.Event()
    with database.connect(url, "asker") as conn:
        while (asked_at := time.monotonic()) < deadline:
            answer = ledger.reserve(conn, "registry", None, chance.randint(1, 4), 0.2)
            answered_at = time.monotonic()
            if not isinstance(answer, Reservation):
                pause.wait(0.003)
                continue
            for in_seconds in answer.in_seconds:
                earliest = answered_at + in_seconds
                latest = asked_at + in_seconds + answer.slack_seconds
                is_late = int(earliest * 1.7) % 2  # for all askers at once, which crowds calls most
                at = latest + jitter if is_late else earliest
                seen.append((answer.label, at if earliest <= latest else None))
            if not answer.in_seconds:
                pause.wait(min(max(answer.wait_seconds - 0.15, 0.005), 0.1))
    return seen


def test_many_askers_at_once_never_exceed_a_limit(dsn: str, connect: Connect, a_key: A) -> None:
    with connect() as conn:
        for account, texts in LIMITS.items():
            for number in (1, 2):
                a_key(conn, *texts.split(), account=account, label=f"{account} {number}")
    deadline = time.monotonic() + RUN_SECONDS
    with ThreadPoolExecutor(8) as threads:
        runs = list(threads.map(lambda seed: ask_until(deadline, dsn, seed), range(8)))
    permits = defaultdict(list)
    for label, at in (permit for run in runs for permit in run):
        permits[label.split()[0]].append(at)
    for account, texts in LIMITS.items():
        sent = sorted(at for at in permits[account] if at is not None)
        for limit in map(parse, texts.split()):
            later = sent[limit.amount :]
            assert all(b - a >= limit.per_seconds for a, b in zip(sent, later, strict=False)), account
            assert len(permits[account]) > limit.amount


def test_a_reservation_reads_every_limit_as_it_is_after_the_lock(
    dsn: str,
    connect: Connect,
    a_key: A,
    until: Callable[..., None],
    waits_for_lock: Callable[[psycopg.Connection, int], bool],
) -> None:
    one, other, watcher = connect(), connect(), connect()
    a_key(one, "10/m")
    with ThreadPoolExecutor(1) as thread:
        with one.transaction():
            one.execute(
                "UPDATE allowance SET until = ARRAY[%s::float8], used = ARRAY[10]", (time.time() + 60.5,)
            )
            asked = thread.submit(ledger.reserve, other, "registry", None, 1, 0.0)
            until(lambda: waits_for_lock(watcher, other.info.backend_pid))
        answer = asked.result(10)
    assert isinstance(answer, Reservation)
    assert answer.in_seconds == ()
    assert answer.wait_seconds > 55.0


def test_a_reservation_reads_the_clock_after_the_lock(
    dsn: str,
    connect: Connect,
    a_key: A,
    until: Callable[..., None],
    waits_for_lock: Callable[[psycopg.Connection, int], bool],
) -> None:
    """A permit from before the wait would be used up to that much too late."""
    one, other, watcher = connect(), connect(), connect()
    a_key(one, "10/m")
    with ThreadPoolExecutor(1) as thread:
        with one.transaction():
            one.execute("SELECT FROM allowance FOR UPDATE")
            asked = thread.submit(ledger.reserve, other, "registry", None, 1, 0.0)
            until(lambda: waits_for_lock(watcher, other.info.backend_pid))
            unlocked = one.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
        asked.result(10)
    logged = one.execute("SELECT until[1] - per_seconds - guard_seconds FROM allowance").fetchone()
    assert unlocked
    assert logged
    assert logged[0] >= unlocked[0]


def test_two_keys_of_one_account_never_reserve_side_by_side(
    dsn: str, connect: Connect, a_key: A, until: Callable[..., None]
) -> None:
    one = connect()
    for _ in range(2):
        a_key(one, "100/m", account="shared")

    def ask_all(_: int) -> int:
        granted = 0
        with database.connect(dsn, "asker") as conn:
            while True:
                answer = ledger.reserve(conn, "registry", None, 1, 0.0)
                if isinstance(answer, Reservation):
                    granted += len(answer.in_seconds)
                    if not answer.in_seconds:
                        return granted

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(ask_all, range(4))) == 100
    assert one.execute("SELECT (SELECT sum(u) FROM unnest(used) u) FROM allowance").fetchone() == (100,)
