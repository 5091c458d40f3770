"""A list is refreshed when its time has come: once, wholly, and only when it has ended."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from store import claims, jobs, lists, schedules, tally
from store.claims import Claim, Settlement
from store.states import Status
from store.workers import Identity

A = Callable[..., int]
Connect = Callable[[], psycopg.Connection]
Ended = Callable[..., int]
DAYS = {"day": (1, 1), "week": (7, 7), "month": (28, 31), "quarter": (89, 92), "year": (365, 366)}


@pytest.fixture
def ended(
    a_key: A,
    a_list: A,
    a_worker: Callable[..., Identity],
    take: Callable[..., list[Claim]],
    settlement: Callable[..., Settlement],
) -> Ended:
    """`ended(conn, n, name=…)`: a finished list of so many companies, the first of them failed."""

    def make(conn: psycopg.Connection, n: int = 3, **more: str) -> int:
        a_key(conn)
        list_id = a_list(conn, n, **more)
        held = take(conn, a_worker(conn), n)
        ends = [
            settlement(claim, Status.DONE if place else Status.FAILED) for place, claim in enumerate(held)
        ]
        assert claims.settle(conn, ends) == set()
        assert lists.finish(conn) == [list_id]
        return list_id

    return make


def is_due(conn: psycopg.Connection, list_id: int, since: str = "1 hour") -> None:
    conn.execute("UPDATE list SET refresh_at = now() - %s::interval WHERE id = %s", (since, list_id))


def statuses(conn: psycopg.Connection, list_id: int) -> dict[str, int]:
    rows = conn.execute("SELECT status, count(*) FROM job WHERE list_id = %s GROUP BY 1", (list_id,))
    return {row[0]: row[1] for row in rows}


def seen(conn: psycopg.Connection, list_id: int) -> lists.ListSeen:
    one = lists.one(conn, list_id)
    assert one
    return one


@pytest.mark.parametrize("every", schedules.EVERY)
def test_a_schedule_begins_one_period_from_now_and_said_again_stays(
    conn: psycopg.Connection, a_list: A, every: str
) -> None:
    list_id = a_list(conn, 1)
    assert schedules.schedule(conn, list_id, every)
    first = seen(conn, list_id)
    assert first.refresh_at
    least, most = DAYS[every]
    assert timedelta(days=least - 1) < first.refresh_at - datetime.now(UTC) < timedelta(days=most + 1)
    assert schedules.schedule(conn, list_id, every)
    assert seen(conn, list_id) == first
    assert schedules.schedule(conn, list_id, None)
    assert (seen(conn, list_id).refresh_every, seen(conn, list_id).refresh_at) == (None, None)
    assert not schedules.schedule(conn, list_id + 1, every)


def test_a_list_that_starts_later_is_refreshed_a_period_after_that(
    conn: psycopg.Connection, a_list: A
) -> None:
    list_id = a_list(conn, 1)
    conn.execute("UPDATE list SET start_at = '2999-01-31T06:00Z'")
    conn.execute("SET LOCAL TIME ZONE 'America/New_York'")
    schedules.schedule(conn, list_id, "month")
    assert seen(conn, list_id).refresh_at == datetime(2999, 2, 28, 6, tzinfo=UTC)


def test_a_due_list_runs_again_from_the_first_job_to_the_last(conn: psycopg.Connection, ended: Ended) -> None:
    list_id = ended(conn, 3, name="UK")
    schedules.schedule(conn, list_id, "week")
    assert list(schedules.keep(conn)) == []
    is_due(conn, list_id)
    assert list(schedules.keep(conn)) == ["refresh of “UK”: 3 jobs sent back"]
    one = seen(conn, list_id)
    assert (statuses(conn, list_id), one.state) == ({"pending": 3}, "active")
    assert one.refresh_at
    assert timedelta(days=6) < one.refresh_at - datetime.now(UTC) < timedelta(days=7)
    assert conn.execute("SELECT refresh_since FROM list").fetchall() == [(None,)]
    assert list(schedules.keep(conn)) == []


def test_times_that_nobody_saw_are_one_refresh_and_a_due_time_that_is_past_goes(
    conn: psycopg.Connection, ended: Ended
) -> None:
    list_id = ended(conn, 1)
    schedules.schedule(conn, list_id, "day")
    conn.execute("UPDATE list SET due_by = now() - interval '5 days'")
    is_due(conn, list_id, "1000 days 1 hour")
    assert len(list(schedules.keep(conn))) == 1
    one = seen(conn, list_id)
    assert one.due_by is None
    assert one.refresh_at
    assert timedelta(hours=22) < one.refresh_at - datetime.now(UTC) < timedelta(hours=24)


@pytest.mark.parametrize("state", ["active", "paused", "cancelled"])
def test_only_a_list_that_has_ended_is_begun(conn: psycopg.Connection, ended: Ended, state: str) -> None:
    list_id = ended(conn, 2)
    schedules.schedule(conn, list_id, "day")
    is_due(conn, list_id)
    at = "now()" if state == "cancelled" else "NULL"
    conn.execute(f"UPDATE list SET state = '{state}', finished_at = {at}")
    assert list(schedules.keep(conn)) == []
    assert statuses(conn, list_id) == {"done": 1, "failed": 1}


def test_a_refresh_that_was_cut_off_is_gone_on_with_and_asks_no_job_twice(
    connect: Connect,
    ended: Ended,
    a_worker: Callable[..., Identity],
    take: Callable[..., list[Claim]],
    settlement: Callable[..., Settlement],
) -> None:
    conn = connect()
    list_id = ended(conn, 4)
    schedules.schedule(conn, list_id, "day")
    is_due(conn, list_id)
    conn.execute(schedules.BEGIN)  # and its worker is killed after a block of two
    ((since,),) = conn.execute("SELECT refresh_since FROM list").fetchall()
    block = jobs.REFRESH.replace("LIMIT 5000", "LIMIT 2")
    conn.execute(block, {"list_id": list_id, "before": since, "after": 0})
    (claim,) = take(conn, a_worker(conn), 1)
    claims.settle(conn, [settlement(claim)])
    assert statuses(conn, list_id) == {"pending": 1, "done": 3}
    (said,) = schedules.keep(conn)
    assert said.endswith(": 2 jobs sent back")
    assert statuses(conn, list_id) == {"pending": 3, "done": 1}, "what has run anew is not sent back again"
    assert list(schedules.keep(conn)) == []
    assert tally.check(conn) == []


def test_a_block_that_somebody_else_holds_keeps_the_refresh_open(connect: Connect, ended: Ended) -> None:
    one, other = connect(), connect()
    list_id = ended(one, 2)
    schedules.schedule(one, list_id, "day")
    is_due(one, list_id)
    with other.transaction(force_rollback=True):
        other.execute("SELECT FROM job WHERE status = 'done' FOR UPDATE")
        (said,) = schedules.keep(one)
        assert said.endswith(": 1 job sent back, more are to follow")
    (said,) = schedules.keep(one)
    assert said.endswith(": 1 job sent back")
    assert statuses(one, list_id) == {"pending": 2}


def test_many_that_look_at_once_begin_a_list_once(connect: Connect, ended: Ended) -> None:
    first = connect()
    list_ids = [ended(first, 5), ended(first, 5)]
    for list_id in list_ids:
        schedules.schedule(first, list_id, "quarter")
        is_due(first, list_id)
    with ThreadPoolExecutor(4) as threads:
        said = list(threads.map(lambda conn: list(schedules.keep(conn)), [connect() for _ in range(4)]))
    sent = [int(line.split(": ")[1].split()[0]) for lines in said for line in lines]
    assert sum(sent) == 10
    for list_id in list_ids:
        assert statuses(first, list_id) == {"pending": 5}
        at = seen(first, list_id).refresh_at
        assert at
        assert at - datetime.now(UTC) > timedelta(days=80)
    assert tally.check(first) == []


def test_a_list_that_is_cancelled_meanwhile_is_let_be(conn: psycopg.Connection, ended: Ended) -> None:
    list_id = ended(conn, 2)
    schedules.schedule(conn, list_id, "day")
    is_due(conn, list_id)
    conn.execute(schedules.BEGIN)
    conn.execute("UPDATE list SET state = 'cancelled'")
    assert list(schedules.keep(conn)) == []
    assert statuses(conn, list_id) == {"done": 1, "failed": 1}
    assert conn.execute("SELECT refresh_since FROM list").fetchall() == [(None,)]
