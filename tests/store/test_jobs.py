"""The queue as people move it."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from store import claims, job_details, jobs, lists, tally
from store.claims import Claim, Settlement
from store.jobs import NewJob
from store.states import Status
from store.workers import Identity

A = Callable[..., int]
AWorker = Callable[..., Identity]
Connect = Callable[[], psycopg.Connection]
Take = Callable[..., list[Claim]]
Settle = Callable[..., Settlement]


@pytest.fixture
def fail(
    a_key: A, a_worker: AWorker, take: Take, settlement: Settle
) -> Callable[[psycopg.Connection, list[str]], list[int]]:
    """`fail(conn, causes)`: claims a job for each cause and lets it fail for it; returns their ids."""

    def make(conn: psycopg.Connection, causes: list[str]) -> list[int]:
        a_key(conn)
        held = take(conn, a_worker(conn), len(causes))
        ends = [settlement(c, Status.FAILED, cause=cause) for c, cause in zip(held, causes, strict=True)]
        assert claims.settle(conn, ends) == set()
        return [claim.id for claim in held]

    return make


def statuses(conn: psycopg.Connection) -> list[str]:
    return [row[0] for row in conn.execute("SELECT status FROM job ORDER BY id")]


def state_of(conn: psycopg.Connection, list_id: int) -> str:
    row = conn.execute("SELECT state FROM list WHERE id = %s", (list_id,)).fetchone()
    assert row
    return str(row[0])


def test_companies_join_a_list_once(conn: psycopg.Connection, a_list: A) -> None:
    list_id, other = a_list(conn), a_list(conn)
    twice = [NewJob("00000001", line=1), NewJob("00000002", line=2), NewJob("00000001", "again", line=3)]
    with conn.transaction():
        assert jobs.enqueue(conn, list_id, twice) == 2
    with conn.transaction():
        assert jobs.enqueue(conn, list_id, [NewJob("00000002", line=9), NewJob("00000003", line=10)]) == 1
    with conn.transaction():
        assert jobs.enqueue(conn, other, twice) == 2
    found = conn.execute("SELECT company, name, line FROM job WHERE list_id = %s ORDER BY id", (list_id,))
    assert found.fetchall() == [("00000001", None, 1), ("00000002", None, 2), ("00000003", None, 10)]


def test_nothing_to_enqueue_is_no_move(conn: psycopg.Connection, a_list: A) -> None:
    with conn.transaction():
        assert jobs.enqueue(conn, a_list(conn), []) == 0
    assert tally.read(conn) == []


def test_what_a_file_holds_breaks_no_enqueue(conn: psycopg.Connection, a_list: A) -> None:
    odd = NewJob("00000001", "a\x00\tb\\N\n\ud800" + "x" * 5000, {"no\x00te": "\\.\r\n\ud800"}, 1)
    with conn.transaction():
        assert jobs.enqueue(conn, a_list(conn), [odd, NewJob("\\N", line=2)]) == 2
    name, extra = conn.execute("SELECT name, extra FROM job WHERE line = 1").fetchall()[0]
    assert name.startswith("a\tb\\N\n?xxx")
    assert len(name) == 5007  # nothing is cut silently: see services.company_lists
    assert extra == {"note": "\\.\r\n?"}
    assert conn.execute("SELECT company FROM job WHERE line = 2").fetchone() == ("\\N",)


def test_a_finished_list_is_active_again_when_companies_join(conn: psycopg.Connection, a_list: A) -> None:
    list_id = a_list(conn, 1, state="paused")
    conn.execute("UPDATE list SET state = 'finished', finished_at = now()")
    with conn.transaction():
        jobs.enqueue(conn, list_id, [NewJob("00000001")])
    assert state_of(conn, list_id) == "finished"  # nobody new
    with conn.transaction():
        jobs.enqueue(conn, list_id, [NewJob("00000002")])
    assert state_of(conn, list_id) == "active"
    assert conn.execute("SELECT finished_at FROM list").fetchone() == (None,)


@pytest.mark.parametrize("state", ["paused", "cancelled"])
def test_a_list_that_a_person_stopped_stays_so_when_companies_join(
    conn: psycopg.Connection, a_list: A, state: str
) -> None:
    list_id = a_list(conn, 1)
    assert lists.pause(conn, list_id) if state == "paused" else lists.cancel(conn, list_id)
    with conn.transaction():
        jobs.enqueue(conn, list_id, [NewJob("00000002")])
    assert state_of(conn, list_id) == state


def test_new_work_is_heard(dsn: str, connect: Connect, a_list: A) -> None:
    one, other = connect(), connect()
    other.execute(f"LISTEN {jobs.CHANNEL}")
    with one.transaction():
        a_list(one, 1)
        assert list(other.notifies(timeout=0.0)) == []
    assert [n.channel for n in other.notifies(timeout=5.0, stop_after=1)] == [jobs.CHANNEL]


def test_failed_jobs_are_sent_back_all_or_by_cause(
    conn: psycopg.Connection, a_list: A, fail: Callable[[psycopg.Connection, list[str]], list[int]]
) -> None:
    list_id = a_list(conn, 6)
    other = a_list(conn, 1)
    conn.execute("UPDATE list SET priority = 1 WHERE id = %s", (list_id,))
    failed = fail(conn, ["not_found", "parse_error", "not_found", "bad_request"])
    conn.execute("UPDATE job SET losses = 2, faults = 3")
    assert jobs.retry(conn, other) == 0
    assert jobs.retry(conn, list_id, "not_found") == 2
    assert statuses(conn)[:4] == ["pending", "failed", "pending", "failed"]
    assert jobs.retry(conn, list_id) == 2
    assert jobs.retry(conn, list_id) == 0
    assert statuses(conn) == ["pending"] * 7
    job = job_details.see(conn, failed[0])
    assert job
    assert (job.attempts, job.losses, job.faults, job.ended_at) == (0, 0, 0, None)
    assert {(count.list_id, count.status, count.cause, count.n) for count in tally.read(conn)} == {
        (list_id, "pending", "", 6),
        (other, "pending", "", 1),
    }


def test_a_retry_makes_a_finished_list_active_again(
    conn: psycopg.Connection, a_list: A, fail: Callable[[psycopg.Connection, list[str]], list[int]]
) -> None:
    list_id = a_list(conn, 1)
    fail(conn, ["not_found"])
    assert lists.finish(conn) == [list_id]
    assert jobs.retry(conn, list_id, "parse_error") == 0
    assert state_of(conn, list_id) == "finished"
    assert jobs.retry(conn, list_id) == 1
    assert state_of(conn, list_id) == "active"


def test_a_retry_ends_though_its_jobs_fail_again_at_once(
    conn: psycopg.Connection, a_list: A, fail: Callable[[psycopg.Connection, list[str]], list[int]]
) -> None:
    """Workers may be faster than the person's statement: each job is sent back once."""
    list_id = a_list(conn, 3)
    fail(conn, ["not_found"] * 3)
    conn.execute("""
        CREATE FUNCTION fail_again() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            NEW.status = 'failed'; NEW.ended_at = now(); NEW.claim_no = OLD.claim_no + 1;
            RETURN NEW;
        END $$""")
    conn.execute(
        "CREATE TRIGGER fail_again BEFORE UPDATE ON job FOR EACH ROW"
        " WHEN (OLD.status = 'failed' AND OLD.claim_no < 9) EXECUTE FUNCTION fail_again()"
    )
    assert jobs.retry(conn, list_id) == 3


def test_large_lists_move_in_blocks(conn: psycopg.Connection, a_list: A) -> None:
    list_id = a_list(conn, 10_001)
    assert jobs.cancel(conn, list_id) == 10_001
    assert jobs.cancel(conn, list_id) == 0
    assert jobs.revive(conn, list_id) == 10_001
    conn.execute("UPDATE job SET status = 'failed', cause = 'x', ended_at = now()")
    assert jobs.retry(conn, list_id) == 10_001
    assert tally.read(conn, [list_id])


def test_cancel_takes_pending_jobs_only_and_revive_brings_them_back(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take, settlement: Settle
) -> None:
    a_key(conn)
    list_id = a_list(conn, 3)
    first, second = take(conn, a_worker(conn), 2)
    claims.settle(conn, [settlement(first)])
    assert jobs.cancel(conn, list_id) == 1
    assert statuses(conn) == ["done", "in_progress", "cancelled"]
    assert claims.settle(conn, [settlement(second)]) == set()
    assert jobs.revive(conn, list_id) == 1
    assert statuses(conn) == ["done", "done", "pending"]
