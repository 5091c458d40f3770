"""Partitions are there before they are needed, and go when nobody wants anything in them any more."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.errors import LockNotAvailable

from store.partitions import ENDS, keep, spans

A = Callable[..., int]
Connect = Callable[[], psycopg.Connection]

MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2040, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(now=MOMENTS, days_ago=st.integers(0, 400), keep_days=st.integers(1, 1000))
def test_spans_follow_one_another_without_a_gap_and_reach_beyond_the_next_one(
    now: datetime, days_ago: int, keep_days: int
) -> None:
    begins = (now - timedelta(days=days_ago)).replace(hour=0, minute=0, second=0, microsecond=0)
    found = list(spans(begins, now, keep_days))
    assert found[0].begins == begins
    assert all(one.ends == following.begins for one, following in pairwise(found))
    longest = timedelta(days=7 if keep_days <= 60 else 31)
    assert all(timedelta(0) < one.ends - one.begins <= longest for one in found)
    assert sum(one.ends > now for one in found) == 2
    for one in found:
        assert one.ends.weekday() == 0 if keep_days <= 60 else one.ends.day == 1


def _answer(conn: psycopg.Connection, job: int, kept_at: datetime) -> None:
    conn.execute(
        """INSERT INTO answer (job_id, fingerprint, occurrence, service, request, status, body, body_bytes,
                               kept_at)
           VALUES (%s, 'q', 1, 'registry', '/', 200, '', 0, %s)""",
        (job, kept_at),
    )


def _names(conn: psycopg.Connection, table: str = "answer") -> list[str]:
    return [name for name, _ in conn.execute(ENDS, (table,)).fetchall()]


def _rows(conn: psycopg.Connection, table: str) -> int:
    row = conn.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row
    return int(row[0])


def test_partitions_are_made_ahead_once_for_answers_and_calls(conn: psycopg.Connection, a_list: A) -> None:
    a_list(conn, 1)
    done = keep(conn)
    assert [words.split("_")[0] for words in done] == ["made answer"] * 2 + ["made call"] * 2
    assert keep(conn) == []
    _answer(conn, 1, datetime.now(UTC))
    assert (_rows(conn, "answer_rest"), _rows(conn, _names(conn)[0])) == (0, 1)
    conn.execute(
        """INSERT INTO call (job_id, claim_no, worker, key_id, request, verdict, waited_ms, took_ms,
                             body_bytes, sent_at)
           VALUES (1, 1, gen_random_uuid(), 1, '/', 'usable', 0, 0, 0, now())"""
    )
    assert (_rows(conn, "call_rest"), _rows(conn, _names(conn, "call")[0])) == (0, 1)


def test_what_came_before_its_partition_is_moved_into_it(conn: psycopg.Connection, a_list: A) -> None:
    now = datetime.now(UTC)
    a_list(conn, 1, created_at=now - timedelta(days=50))
    for days in (0, 3, 40):
        _answer(conn, days, now - timedelta(days=days))
    keep(conn)
    assert (_rows(conn, "answer_rest"), _rows(conn, "answer")) == (0, 3)


def test_a_partition_goes_when_no_list_wants_it_any_more(conn: psycopg.Connection, a_list: A) -> None:
    now = datetime.now(UTC)
    old = a_list(conn, 1, keep_days=50, created_at=now - timedelta(days=300))
    new = a_list(conn, keep_days=1)
    for days in (0, 45, 70, 100, 200):
        _answer(conn, days, now - timedelta(days=days))
    keep(conn)
    assert {row[0] for row in conn.execute("SELECT job_id FROM answer")} == {0, 45}
    conn.execute("UPDATE list SET keep_days = 1 WHERE id = %s", (old,))
    assert any(words.startswith("dropped answer_") for words in keep(conn))
    assert {row[0] for row in conn.execute("SELECT job_id FROM answer")} == {0}
    conn.execute("UPDATE list SET created_at = %s WHERE id = %s", (now - timedelta(days=300), new))
    assert keep(conn) == []


def test_a_list_that_keeps_long_holds_only_what_may_be_its_own(conn: psycopg.Connection, a_list: A) -> None:
    """It was made after the partition had ended: nothing in there is its, unless it took answers over."""
    now = datetime.now(UTC)
    a_list(conn, 1, keep_days=10, created_at=now - timedelta(days=300))
    later = a_list(conn, 1, keep_days=1000, reuse_seconds=100 * 86400)
    _answer(conn, 1, now - timedelta(days=90))
    keep(conn)
    assert _rows(conn, "answer") == 1
    conn.execute("UPDATE list SET reuse_seconds = 0 WHERE id = %s", (later,))
    keep(conn)
    assert _rows(conn, "answer") == 0


@pytest.mark.parametrize("how", ["make", "drop"])
def test_upkeep_gives_way_to_a_writer_and_keeps_no_other_waiting(
    dsn: str, connect: Connect, a_list: A, how: str
) -> None:
    writer, other, upkeep = connect(), connect(), connect()
    long_ago = datetime.now(UTC) - timedelta(days=90)
    a_list(writer, 1, created_at=long_ago)
    if how == "drop":
        _answer(writer, 1, long_ago)
        keep(upkeep)
        writer.execute("UPDATE list SET keep_days = 1")
    with writer.transaction():
        _answer(writer, 2, datetime.now(UTC))
        with ThreadPoolExecutor(1) as thread:
            keeping = thread.submit(keep, upkeep)
            other.execute("SET statement_timeout = '5s'")
            while not keeping.done():
                _answer(other, 3, datetime.now(UTC))
            with pytest.raises(LockNotAvailable):
                keeping.result(10)
    assert keep(upkeep)


def test_of_many_who_keep_house_at_once_one_does_it(dsn: str, connect: Connect, a_list: A) -> None:
    conns = [connect() for _ in range(4)]
    a_list(conns[0], 1)
    start = threading.Barrier(4)

    def at_once(conn: psycopg.Connection) -> list[str]:
        start.wait(10)
        return keep(conn)

    with ThreadPoolExecutor(4) as threads:
        done = [words for found in threads.map(at_once, conns) for words in found]
    keep(conns[0])
    assert len(done) == len(set(done))
    assert (len(_names(conns[0])), len(_names(conns[0], "call"))) == (2, 2)
