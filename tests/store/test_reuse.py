"""An answer may serve another list when that takes one of its age, and never makes itself younger."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from store import answers, claims, jobs
from store.answers import KeptAnswer, Reused
from store.claims import Claim, Settlement
from store.workers import Identity

A = Callable[..., int]
Take = Callable[..., list[Claim]]

MARK = b"question"


@pytest.fixture
def asked(conn: psycopg.Connection, a_list: A) -> int:
    """A job of one list that got an answer an hour ago; returns its id."""
    a_list(conn, 1)
    return _answered(conn, _job(conn), "1 hour")


def _job(conn: psycopg.Connection) -> int:
    row = conn.execute("SELECT max(id) FROM job").fetchone()
    assert row
    return int(row[0])


def _answered(conn: psycopg.Connection, job: int, ago: str, body: bytes = b"paid") -> int:
    claims.settle(conn, [], answers=[KeptAnswer(job, MARK, 1, "registry", "/a", 200, {"etag": "x"}, body)])
    conn.execute("UPDATE answer SET kept_at = now() - %s::interval WHERE job_id = %s", (ago, job))
    return job


@pytest.fixture
def other(conn: psycopg.Connection, asked: int, a_list: A) -> int:
    """A job of a list that takes answers of up to two hours."""
    a_list(conn, 1, reuse_seconds=7200)
    return _job(conn)


def test_a_young_answer_of_another_job_is_taken_over_and_kept(
    conn: psycopg.Connection, asked: int, other: int
) -> None:
    found = answers.reuse(conn, other, MARK, 1)
    assert found
    assert (found.from_job, found.status, found.headers, found.body) == (asked, 200, {"etag": "x"}, b"paid")
    assert 3590 < found.age_seconds < 3660
    assert answers.of_jobs(conn, [other])[other] == {(MARK, 1): (200, {"etag": "x"}, b"paid")}
    assert [one.reused_from for one in answers.see(conn, other)] == [asked]
    assert answers.reuse(conn, other, MARK, 1) is not None
    assert len(answers.see(conn, other)) == 1


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE list SET reuse_seconds = 1800",
        "UPDATE list SET reuse_seconds = 0",
        "UPDATE answer SET service = 'elsewhere'",
        "UPDATE answer SET fingerprint = 'another'",
        "UPDATE answer SET occurrence = 2",
        "UPDATE job SET fresh_at = now() - interval '30 minutes'",
    ],
)
def test_no_other_is(conn: psycopg.Connection, other: int, change: str) -> None:
    conn.execute(change)
    assert answers.reuse(conn, other, MARK, 1) is None


def test_an_answer_that_is_handed_on_stays_as_old_as_it_is_and_says_who_asked(
    conn: psycopg.Connection, asked: int, other: int, a_list: A
) -> None:
    answers.reuse(conn, other, MARK, 1)
    conn.execute("DELETE FROM answer WHERE job_id = %s", (asked,))
    a_list(conn, 1, reuse_seconds=3601)
    third = _job(conn)
    found = answers.reuse(conn, third, MARK, 1)
    assert isinstance(found, Reused)
    assert found.from_job == asked
    conn.execute("UPDATE list SET reuse_seconds = 3599")
    conn.execute("DELETE FROM answer WHERE job_id = %s", (third,))
    assert answers.reuse(conn, third, MARK, 1) is None


def test_the_newest_answer_is_taken(conn: psycopg.Connection, asked: int, other: int, a_list: A) -> None:
    a_list(conn, 1)
    newest = _answered(conn, _job(conn), "10 minutes", b"newer")
    found = answers.reuse(conn, other, MARK, 1)
    assert found
    assert (found.from_job, found.body) == (newest, b"newer")


def _ended(conn: psycopg.Connection, job: int) -> None:
    conn.execute(
        "UPDATE job SET status = 'failed', cause = 'parse_error', ended_at = now() WHERE id = %s", (job,)
    )


@pytest.mark.parametrize("how", ["one job", "the failed ones of a list", "a whole list"])
def test_who_asks_anew_takes_over_nothing_from_before(
    conn: psycopg.Connection, asked: int, other: int, how: str
) -> None:
    answers.reuse(conn, other, MARK, 1)
    _ended(conn, other)
    ((list_id,),) = conn.execute("SELECT list_id FROM job WHERE id = %s", (other,)).fetchall()
    match how:
        case "one job":
            assert jobs.ask_again(conn, other)
        case "a whole list":
            assert jobs.refresh(conn, list_id) == 1
        case _:
            assert jobs.retry(conn, list_id, fresh=True) == 1
    assert answers.see(conn, other) == []
    assert answers.reuse(conn, other, MARK, 1) is None
    assert len(answers.see(conn, asked)) == 1


def test_a_plain_retry_keeps_what_was_kept(conn: psycopg.Connection, asked: int, other: int) -> None:
    answers.reuse(conn, other, MARK, 1)
    _ended(conn, other)
    assert jobs.retry_one(conn, other)
    assert len(answers.see(conn, other)) == 1


def test_a_claim_says_whether_its_list_reuses(
    conn: psycopg.Connection, other: int, a_key: A, a_worker: Callable[..., Identity], take: Take
) -> None:
    a_key(conn)
    claimed = take(conn, a_worker(conn), 2)
    assert {claim.id: claim.reuses for claim in claimed} == {other: True, other - 1: False}


def test_an_answer_older_than_its_list_keeps_them_is_not_replayed(
    conn: psycopg.Connection, asked: int
) -> None:
    assert asked in answers.of_jobs(conn, [asked])
    conn.execute("UPDATE answer SET kept_at = now() - interval '3 days'")
    conn.execute("UPDATE list SET keep_days = 2")
    assert answers.of_jobs(conn, [asked]) == {}


def test_what_is_written_again_is_there_once(
    conn: psycopg.Connection, a_list: A, settlement: Callable[..., Settlement]
) -> None:
    a_list(conn, 2)
    job = _job(conn)
    first = KeptAnswer(job, MARK, 1, "registry", "/a", 200, {}, b"first")
    second = KeptAnswer(job, MARK, 2, "registry", "/a", 200, {}, b"second")
    claims.settle(conn, [], answers=[first])
    claims.settle(conn, [], answers=[first, second], again=True)
    assert conn.execute("SELECT occurrence FROM answer ORDER BY occurrence").fetchall() == [(1,), (2,)]
