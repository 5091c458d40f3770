"""What runs while its list is cancelled, paused or taken up again never ends up where nobody looks for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from store import answers, claims, jobs, lists, tally
from store.answers import KeptAnswer
from store.claims import Claim, Settlement
from store.jobs import NewJob
from store.states import Status
from store.workers import Identity, Pulse

A = Callable[..., int]
AWorker = Callable[..., Identity]
Take = Callable[..., list[Claim]]
Settle = Callable[..., Settlement]
Beat = Callable[..., Pulse]
Connect = Callable[[], psycopg.Connection]


@pytest.fixture
def who(conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker) -> Identity:
    """A worker with a key and a list of three jobs."""
    a_key(conn)
    a_list(conn, 3)
    return a_worker(conn)


def _statuses(conn: psycopg.Connection) -> list[str]:
    return [status for (status,) in conn.execute("SELECT status FROM job ORDER BY id")]


def _back(conn: psycopg.Connection, claim: Claim, how: str, settlement: Settle) -> None:
    if how == "settle":
        assert claims.settle(conn, [settlement(claim, Status.PENDING, cause="shutdown")]) == set()
    else:
        assert claims.release(conn, claim.worker, {claim.id: claim.claim_no}) == 1


@pytest.mark.parametrize("how", ["settle", "release"])
def test_a_job_of_a_cancelled_list_that_goes_back_is_cancelled(
    conn: psycopg.Connection, who: Identity, take: Take, settlement: Settle, how: str
) -> None:
    (claim,) = take(conn, who)
    assert lists.cancel(conn, claim.list_id) == 2
    _back(conn, claim, how, settlement)
    assert _statuses(conn) == ["cancelled"] * 3
    assert conn.execute("SELECT count(*) FROM job WHERE ended_at IS NULL").fetchone() == (0,)
    assert [(c.status, c.n) for c in tally.read(conn, [claim.list_id])] == [("cancelled", 3)]


def test_a_job_lost_with_its_worker_is_cancelled_with_its_list(
    conn: psycopg.Connection, who: Identity, take: Take, a_worker: AWorker, beat: Beat
) -> None:
    (claim,) = take(conn, who)
    lists.cancel(conn, claim.list_id)
    conn.execute("UPDATE worker SET lease_until = 'epoch'")
    assert beat(conn, a_worker(conn)).recovered == 1
    assert _statuses(conn) == ["cancelled"] * 3


def test_what_ends_all_the_same_keeps_its_result_and_what_goes_back_its_paid_answers(
    conn: psycopg.Connection, who: Identity, take: Take, settlement: Settle
) -> None:
    done, back = take(conn, who, 2)
    lists.cancel(conn, done.list_id)
    paid = KeptAnswer(back.id, b"question", 1, "registry", "/a", 200, {}, b"paid")
    claims.settle(conn, [settlement(done), settlement(back, Status.PENDING)], answers=[paid])
    assert _statuses(conn) == ["done", "cancelled", "cancelled"]
    assert answers.of_jobs(conn, [back.id])[back.id] == {(b"question", 1): (200, {}, b"paid")}


def test_a_beat_names_the_jobs_whose_list_was_cancelled(
    conn: psycopg.Connection, who: Identity, take: Take, a_list: A, beat: Beat
) -> None:
    a_list(conn, 3)
    held = take(conn, who, 6)
    cancelled = frozenset(claim.id for claim in held if claim.list_id == held[0].list_id)
    lists.cancel(conn, held[0].list_id)
    pulse = beat(conn, who)
    assert pulse.cancelled == cancelled
    assert set(pulse.held) == {claim.id for claim in held}


def test_cancelling_is_heard_by_whoever_listens(dsn: str, connect: Connect, a_list: A) -> None:
    one, other = connect(), connect()
    list_id = a_list(one, 1)
    other.execute(f"LISTEN {jobs.CHANNEL}")
    lists.cancel(one, list_id)
    said = [told.payload for told in other.notifies(timeout=10.0, stop_after=1)]
    assert said[0] == jobs.STOP_WORD


@pytest.mark.parametrize("how", ["settle", "release"])
def test_a_job_that_goes_back_while_its_list_is_cancelled_does_not_stay_pending(
    dsn: str,
    connect: Connect,
    a_key: A,
    a_list: A,
    a_worker: AWorker,
    take: Take,
    settlement: Settle,
    until: Callable[..., None],
    waits_for_lock: Callable[[psycopg.Connection, int], bool],
    how: str,
) -> None:
    one, other, watcher = connect(), connect(), connect()
    a_key(one)
    a_list(one, 1)
    (claim,) = take(one, a_worker(one))
    with ThreadPoolExecutor(1) as thread:
        with one.transaction():
            _back(one, claim, how, settlement)
            cancelling = thread.submit(lists.cancel, other, claim.list_id)
            until(lambda: waits_for_lock(watcher, other.info.backend_pid))
        assert cancelling.result(10) == 1
    assert _statuses(one) == ["cancelled"]


def test_a_list_resumed_while_a_job_of_it_is_cancelled_has_all_its_jobs(
    dsn: str,
    connect: Connect,
    a_key: A,
    a_list: A,
    a_worker: AWorker,
    take: Take,
    settlement: Settle,
    until: Callable[..., None],
    waits_for_lock: Callable[[psycopg.Connection, int], bool],
) -> None:
    one, other, watcher = connect(), connect(), connect()
    a_key(one)
    a_list(one, 2)
    (claim,) = take(one, a_worker(one))
    lists.cancel(one, claim.list_id)
    with ThreadPoolExecutor(1) as thread:
        with one.transaction():
            _back(one, claim, "settle", settlement)
            resuming = thread.submit(lists.resume, other, claim.list_id)
            until(lambda: waits_for_lock(watcher, other.info.backend_pid))
        assert resuming.result(10)
    assert _statuses(one) == ["pending"] * 2


def test_a_release_with_an_older_claim_changes_nothing(
    conn: psycopg.Connection, who: Identity, take: Take, settlement: Settle
) -> None:
    (first,) = take(conn, who)
    claims.settle(conn, [settlement(first, Status.PENDING, pause_seconds=-60.0)])
    (again,) = take(conn, who)
    assert (again.id, again.claim_no) == (first.id, 2)
    assert claims.release(conn, who.id, {first.id: first.claim_no}) == 0
    assert claims.release(conn, replace(again, worker=first.worker).worker, {again.id: 3}) == 0
    assert claims.release(conn, who.id, {again.id: 2}) == 1


def test_pause_and_resume_take_effect_on_the_next_claim(
    conn: psycopg.Connection, who: Identity, take: Take
) -> None:
    (claim,) = take(conn, who)
    assert lists.pause(conn, claim.list_id)
    assert take(conn, who) == []
    assert lists.resume(conn, claim.list_id)
    assert len(take(conn, who)) == 1


def test_two_imports_into_one_list_in_opposite_order_both_arrive(
    dsn: str, connect: Connect, a_list: A
) -> None:
    """Row by row each would wait for what the other has just added."""
    setup = connect()
    list_id = a_list(setup)
    numbers = range(3000)

    def add(conn: psycopg.Connection, order: Any) -> int:
        with conn.transaction():
            return jobs.enqueue(conn, list_id, [NewJob(f"{n:08}", line=i) for i, n in enumerate(order)])

    with ThreadPoolExecutor(2) as threads:
        for _ in range(3):
            setup.execute("DELETE FROM job")
            orders = (numbers, numbers[::-1])
            added = list(threads.map(add, [connect(), connect()], orders))
            assert sorted(added) == [0, len(numbers)]
