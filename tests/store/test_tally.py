"""Counts equal the table, whoever moves and whoever folds."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import psycopg
import pytest

from store import claims, database, jobs, tally
from store.claims import Claim, Settlement
from store.states import Outcome, Status
from store.tally import Count
from store.workers import Identity

A = Callable[..., int]
AWorker = Callable[..., Identity]
Connect = Callable[[], psycopg.Connection]
Take = Callable[..., list[Claim]]
Settle = Callable[..., Settlement]


def fold_all(conn: psycopg.Connection) -> int:
    total = 0
    while folded := tally.fold(conn):
        total += folded
    return total


def test_counts_are_by_list_status_outcome_and_cause(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take, settlement: Settle
) -> None:
    a_key(conn)
    list_id, other = a_list(conn, 6, priority=1), a_list(conn, 2)
    held = take(conn, a_worker(conn), 5)
    claims.settle(
        conn,
        [
            settlement(held[0]),
            settlement(held[1], outcome=Outcome.EMPTY, cause="no_facts"),
            settlement(held[2], Status.FAILED, cause="parse_error"),
            settlement(held[3], Status.PENDING, cause="rate_limited"),
        ],
    )
    expected = [
        Count(list_id, "done", "complete", "", 1),
        Count(list_id, "done", "empty", "no_facts", 1),
        Count(list_id, "failed", "", "parse_error", 1),
        Count(list_id, "in_progress", "", "", 1),
        Count(list_id, "pending", "", "", 2),
    ]
    assert tally.read(conn, [list_id]) == expected
    assert tally.read(conn) == [*expected, Count(other, "pending", "", "", 2)]
    assert tally.read(conn, []) == []
    assert fold_all(conn) > 0
    assert fold_all(conn) == 0
    assert tally.read(conn, [list_id]) == expected
    assert conn.execute("SELECT count(*) FROM tally_delta").fetchone() == (0,)


def test_ended_jobs_are_counted_by_the_minute(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take, settlement: Settle
) -> None:
    a_key(conn)
    list_id = a_list(conn, 6)
    held = take(conn, a_worker(conn), 4)
    claims.settle(conn, [settlement(claim) for claim in held[:2]])
    claims.settle(conn, [settlement(held[2], Status.FAILED), settlement(held[3], Status.PENDING)])
    assert tally.per_minute(conn, 5) == []
    fold_all(conn)
    jobs.retry(conn, list_id)  # what was counted then stays
    fold_all(conn)
    (minute,) = tally.per_minute(conn, 5)
    assert (minute.done, minute.failed) == (2, 1)
    assert (minute.minute.second, minute.minute.microsecond) == (0, 0)
    conn.execute("UPDATE tally_minute SET minute = minute - interval '10 minutes'")
    assert tally.per_minute(conn, 5) == []
    (minute,) = tally.per_minute(conn, 15)
    assert minute.done == 2


def test_a_deleted_list_leaves_no_counts(conn: psycopg.Connection, a_list: A) -> None:
    gone, there = a_list(conn, 3), a_list(conn, 2)
    fold_all(conn)
    jobs.cancel(conn, gone)
    conn.execute("DELETE FROM list WHERE id = %s", (gone,))
    fold_all(conn)
    assert tally.read(conn) == [Count(there, "pending", "", "", 2)]


def test_a_drift_is_found_and_corrected(dsn: str, connect: Connect, a_list: A) -> None:
    conn = connect()
    list_id, other = a_list(conn, 5), a_list(conn, 2)
    fold_all(conn)
    assert tally.check(conn) == []
    conn.execute("UPDATE tally SET n = n + 4 WHERE list_id = %s", (list_id,))
    conn.execute("DELETE FROM tally WHERE list_id = %s", (other,))
    conn.execute("INSERT INTO tally VALUES (%s, 'failed', '', 'ghost', 1)", (list_id,))
    assert tally.check(conn) == [
        Count(list_id, "failed", "", "ghost", -1),
        Count(list_id, "pending", "", "", -4),
        Count(other, "pending", "", "", 2),
    ]
    assert tally.check(conn) == []
    assert tally.read(conn) == [Count(list_id, "pending", "", "", 5), Count(other, "pending", "", "", 2)]
    fold_all(conn)
    assert tally.check(conn) == []


def test_counts_and_table_are_compared_in_one_snapshot(
    dsn: str, connect: Connect, a_list: A, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = connect(), connect()
    list_id = a_list(one, 3)
    read = tally.read

    def read_and_let_somebody_move(conn: psycopg.Connection) -> list[Count]:
        counts = read(conn)
        assert jobs.cancel(other, list_id) == 3
        return counts

    monkeypatch.setattr(tally, "read", read_and_let_somebody_move)
    assert tally.check(one) == []


def test_a_correction_is_no_job_that_ended(dsn: str, connect: Connect, a_list: A) -> None:
    conn = connect()
    a_list(conn, 1)
    conn.execute("UPDATE job SET status = 'failed', cause = 'x', ended_at = now()")
    assert len(tally.check(conn)) == 2
    fold_all(conn)
    assert conn.execute("SELECT count(*) FROM tally_minute").fetchone() == (0,)


def test_a_folder_never_waits_for_another(dsn: str, connect: Connect, a_list: A) -> None:
    one, other = connect(), connect()
    other.execute("SET lock_timeout = '2s'")
    a_list(one, 1)
    with one.transaction():
        assert tally.fold(one) == 1
        assert tally.fold(other) == 0


def test_counts_agree_with_the_table_in_every_look_while_movers_and_folders_run(
    dsn: str, connect: Connect, a_key: A, a_list: A, a_worker: AWorker, take: Take, settlement: Settle
) -> None:
    setup = connect()
    a_key(setup)
    list_id = a_list(setup, 60)
    identities = [a_worker(setup) for _ in range(2)]
    stop = Event()

    def move(who: Identity) -> None:
        with database.connect(dsn, "mover") as conn:
            while not stop.is_set():
                held = take(conn, who, 7)
                ends = [Status.DONE, Status.FAILED, Status.PENDING, Status.FAILED, Status.PENDING]
                claims.settle(conn, [settlement(claim, ends[claim.id % 5]) for claim in held])
                jobs.retry(conn, list_id)

    def fold() -> None:
        with database.connect(dsn, "folder") as conn:
            while not stop.is_set():
                tally.fold(conn)

    with ThreadPoolExecutor(4) as threads:
        running = [
            *(threads.submit(move, who) for who in identities),
            *(threads.submit(fold) for _ in range(2)),
        ]
        try:
            looks = [tally.check(setup) for _ in range(60)]
        finally:
            stop.set()
        for thread in running:
            thread.result(10)
    assert looks == [[]] * 60
    assert tally.check(setup) == []
