"""Lists are made once, stopped and taken up again, and finish when nothing of them is left."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from store import claims, database, jobs, lists, tally
from store.claims import Claim, Settlement
from store.jobs import NewJob
from store.lists import NameTaken, NewList
from store.states import Status
from store.workers import Identity

A = Callable[..., int]
AWorker = Callable[..., Identity]
Connect = Callable[[], psycopg.Connection]
Take = Callable[..., list[Claim]]
Settle = Callable[..., Settlement]


def state_of(conn: psycopg.Connection, list_id: int) -> tuple[str, bool]:
    """Its state, and whether it says when it ended."""
    (row,) = conn.execute(
        "SELECT state, finished_at IS NOT NULL FROM list WHERE id = %s", (list_id,)
    ).fetchall()
    return row[0], row[1]


def test_a_list_is_made_once(conn: psycopg.Connection) -> None:
    new = NewList("Q1", "registry", ["name", "total"], ["name"], {"form": "10-K"}, priority=3)
    assert lists.create(conn, new) == lists.create(conn, new)
    (seen,) = lists.see(conn, "Q1")
    assert (seen.service, seen.fields, seen.required) == ("registry", ["name", "total"], ["name"])
    assert (seen.options, seen.priority, seen.state, seen.rejects) == ({"form": "10-K"}, 3, "active", 0)
    assert lists.see(conn, "Q2") == []
    assert lists.see(conn) == [seen]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (NewList("Q1", "elsewhere", ["name"]), "service"),
        (NewList("Q1", "registry", ["total"]), "fields"),
        (NewList("Q1", "registry", ["name"], options={"form": "20-F"}), "options"),
        (NewList("Q1", "registry", ["name"], ["name"]), "required fields"),
        (NewList("Q1", "registry", ["name"], types={"name": "text"}), "types of fields"),
    ],
    ids=["service", "fields", "options", "required", "types"],
)
def test_a_name_is_taken_by_a_list_that_asks_for_something_else(
    conn: psycopg.Connection, other: NewList, what: str
) -> None:
    lists.create(conn, NewList("Q1", "registry", ["name"]))
    with pytest.raises(NameTaken, match=f"There is a list “Q1” already, of other {what}"):
        lists.create(conn, other)


def test_fields_are_chosen_until_the_list_has_begun(conn: psycopg.Connection, a_list: A) -> None:
    list_id = a_list(conn, 2)
    chosen = (["total"], {"total": "money GBP"}, ["total"])
    assert not lists.choose(conn, list_id, *chosen), "it is active"
    lists.pause(conn, list_id)
    assert lists.choose(conn, list_id, *chosen)
    one = lists.one(conn, list_id)
    assert one
    assert (one.fields, one.types, one.required) == chosen
    conn.execute("UPDATE job SET claim_no = 1 WHERE list_id = %s AND line = 1", (list_id,))
    assert not lists.choose(conn, list_id, ["name"], {}, [])


def test_a_required_field_is_one_of_the_lists(conn: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.CheckViolation), conn.transaction():
        lists.create(conn, NewList("Q1", "registry", ["name"], ["total"]))


def test_a_list_finishes_when_nothing_of_it_is_left_to_run(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take, settlement: Settle
) -> None:
    a_key(conn)
    list_id, empty = a_list(conn, 2), a_list(conn)
    assert lists.finish(conn) == []
    one, two = take(conn, a_worker(conn), 2)
    assert lists.finish(conn) == []
    claims.settle(conn, [settlement(one), settlement(two, Status.PENDING, pause_seconds=3600.0)])
    assert lists.finish(conn) == []
    conn.execute("UPDATE job SET run_at = now() WHERE status = 'pending'")
    claims.settle(conn, [settlement(claim, Status.FAILED) for claim in take(conn, a_worker(conn))])
    assert lists.finish(conn) == [list_id]
    assert lists.finish(conn) == []
    assert state_of(conn, list_id) == ("finished", True)
    assert state_of(conn, empty) == ("active", False)


@pytest.mark.parametrize("stop", [lists.pause, lists.cancel], ids=["paused", "cancelled"])
def test_a_list_that_a_person_stopped_is_not_finished(
    conn: psycopg.Connection, a_list: A, stop: Callable[[psycopg.Connection, int], object]
) -> None:
    list_id = a_list(conn, 1)
    stop(conn, list_id)
    conn.execute("UPDATE job SET status = 'failed', cause = 'x', ended_at = now()")
    assert lists.finish(conn) == []


def test_pause_and_resume(conn: psycopg.Connection, a_list: A) -> None:
    list_id = a_list(conn, 2)
    assert not lists.resume(conn, list_id)
    assert lists.pause(conn, list_id)
    assert not lists.pause(conn, list_id)
    assert state_of(conn, list_id) == ("paused", False)
    assert lists.resume(conn, list_id)
    assert state_of(conn, list_id) == ("active", False)


def test_cancel_takes_the_jobs_off_and_resume_brings_them_back(conn: psycopg.Connection, a_list: A) -> None:
    list_id, other = a_list(conn, 3), a_list(conn, 1)
    assert lists.cancel(conn, list_id) == 3
    assert lists.cancel(conn, list_id) is None
    assert state_of(conn, list_id) == ("cancelled", True)
    counts = {(count.list_id, count.status): count.n for count in tally.read(conn)}
    assert counts == {(list_id, "cancelled"): 3, (other, "pending"): 1}
    assert lists.resume(conn, list_id)
    assert state_of(conn, list_id) == ("active", False)
    assert {(count.list_id, count.status, count.n) for count in tally.read(conn)} == {
        (list_id, "pending", 3),
        (other, "pending", 1),
    }


def test_a_finished_list_is_neither_paused_nor_cancelled(conn: psycopg.Connection, a_list: A) -> None:
    list_id = a_list(conn, 1)
    conn.execute("UPDATE job SET status = 'failed', cause = 'x', ended_at = now()")
    lists.finish(conn)
    assert not lists.pause(conn, list_id)
    assert lists.cancel(conn, list_id) is None
    assert not lists.resume(conn, list_id)


def test_a_list_taken_up_again_is_never_active_without_its_jobs(
    dsn: str, connect: Connect, a_list: A
) -> None:
    """Else whoever beats at that moment would finish it, and its jobs would wait for ever."""
    one = connect()
    list_id = a_list(one, 5)
    lists.cancel(one, list_id)
    one.execute("""
        CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            IF NOT EXISTS (SELECT FROM job WHERE list_id = NEW.id AND status = 'pending') THEN
                RAISE 'active without jobs';
            END IF;
            RETURN NEW;
        END $$""")
    one.execute(
        "CREATE TRIGGER refuse BEFORE UPDATE ON list FOR EACH ROW WHEN (NEW.state = 'active')"
        " EXECUTE FUNCTION refuse()"
    )
    assert lists.resume(one, list_id)


def test_a_list_resumed_is_heard_once_it_is_active(dsn: str, connect: Connect, a_list: A) -> None:
    one, other = connect(), connect()
    list_id = a_list(one, 1)
    lists.pause(one, list_id)
    one.execute("""
        CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN NOTIFY active; RETURN NEW; END $$""")
    one.execute(
        "CREATE TRIGGER tell AFTER UPDATE ON list FOR EACH ROW WHEN (NEW.state = 'active')"
        " EXECUTE FUNCTION tell()"
    )
    other.execute(f"LISTEN {jobs.CHANNEL}")
    other.execute("LISTEN active")
    lists.resume(one, list_id)
    one.execute("NOTIFY active, 'the end'")
    heard = []
    for told in other.notifies(timeout=10.0):
        heard.append((told.channel, told.payload))
        if told.payload == "the end":
            break
    assert heard[-3:] == [("active", ""), (jobs.CHANNEL, ""), ("active", "the end")]


@pytest.mark.parametrize("first", ["enqueue", "finish"])
def test_a_list_never_finishes_with_a_company_that_joins_meanwhile(
    dsn: str,
    connect: Connect,
    a_list: A,
    until: Callable[..., None],
    waits_for_lock: Callable[[psycopg.Connection, int], bool],
    first: str,
) -> None:
    one, other, watcher = connect(), connect(), connect()
    list_id = a_list(one, 1)
    one.execute("UPDATE job SET status = 'failed', cause = 'x', ended_at = now()")

    def join(conn: psycopg.Connection) -> int:
        with conn.transaction():
            return jobs.enqueue(conn, list_id, [NewJob("late")])

    with ThreadPoolExecutor(1) as thread:
        if first == "enqueue":
            with one.transaction():
                assert join(one) == 1
                assert thread.submit(lists.finish, other).result(10) == []
        else:
            with one.transaction():
                assert lists.finish(one) == [list_id]
                joining = thread.submit(join, other)
                until(lambda: waits_for_lock(watcher, other.info.backend_pid))
            assert joining.result(10) == 1
    assert state_of(one, list_id) == ("active", False)


def test_finish_looks_again_at_the_lists_it_has_locked(
    conn: psycopg.Connection, a_list: A, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A company may have joined between the look and the lock: as if the look had missed it."""
    a_list(conn, 1)
    monkeypatch.setattr(lists, "ENDED", "SELECT id FROM list FOR UPDATE SKIP LOCKED")
    assert lists.finish(conn) == []


def test_finish_and_enqueue_in_a_race_leave_no_job_behind(dsn: str, connect: Connect, a_list: A) -> None:
    setup = connect()
    list_id = a_list(setup, 1)
    ended = "UPDATE job SET status = 'failed', cause = 'x', ended_at = now() WHERE status = 'pending'"
    setup.execute(ended)

    def join(number: int) -> None:
        with database.connect(dsn, "test") as conn, conn.transaction():
            jobs.enqueue(conn, list_id, [NewJob(f"late {number}")])

    with ThreadPoolExecutor(2) as threads, database.connect(dsn, "test") as finisher:
        for number in range(40):
            joining = threads.submit(join, number)
            lists.finish(finisher)
            joining.result(10)
            lists.finish(finisher)
            assert state_of(setup, list_id) == ("active", False), number
            setup.execute(ended)
