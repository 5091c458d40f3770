"""A paid answer is kept whoever holds the job, and is found again by whoever asks the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from store import answers, claims, jobs
from store.answers import KeptAnswer
from store.calls import Call
from store.claims import Claim, Settlement
from store.states import Status
from store.workers import Identity, Pulse

A = Callable[..., int]


@pytest.fixture
def claim(
    conn: psycopg.Connection,
    a_key: A,
    a_list: A,
    a_worker: Callable[..., Identity],
    take: Callable[..., list[Claim]],
) -> Claim:
    a_key(conn)
    a_list(conn, 2)
    return take(conn, a_worker(conn))[0]


def answer(job: int, body: bytes = b"{}", **more: Any) -> KeptAnswer:
    usual: dict[str, Any] = {
        "fingerprint": b"\x00\xff question",
        "occurrence": 1,
        "service": "registry",
        "request": "GET /company/1",
        "status": 200,
        "headers": {"etag": '"a"'},
    }
    return KeptAnswer(job, body=body, **(usual | more))


def call(claim: Claim, **more: Any) -> Call:
    usual: dict[str, Any] = {
        "key_id": 1,
        "request": "GET /company/1",
        "verdict": "usable",
        "status": 200,
        "message": None,
        "waited_ms": 3,
        "took_ms": 40,
        "late": False,
        "body_bytes": 2,
        "sent_at": 100.0,
    }
    return Call(claim.id, claim.claim_no, claim.worker, **(usual | more))


def test_an_answer_is_kept_with_the_settlement_and_replayed(
    conn: psycopg.Connection, claim: Claim, settlement: Callable[..., Settlement]
) -> None:
    body = bytes(range(256)) * 4000
    claims.settle(
        conn, [settlement(claim)], answers=[answer(claim.id, body), answer(claim.id, b"", occurrence=2)]
    )
    assert answers.of_jobs(conn, [claim.id, claim.id + 1]) == {
        claim.id: {
            (b"\x00\xff question", 1): (200, {"etag": '"a"'}, body),
            (b"\x00\xff question", 2): (200, {"etag": '"a"'}, b""),
        }
    }
    sizes = conn.execute("SELECT body_bytes, length(body) < body_bytes FROM answer WHERE occurrence = 1")
    assert sizes.fetchone() == (len(body), True)


def test_an_answer_is_kept_though_the_fence_refuses_the_settlement(
    conn: psycopg.Connection, claim: Claim, settlement: Callable[..., Settlement]
) -> None:
    late = replace(claim, worker=uuid4())
    lost = claims.settle(conn, [settlement(late)], answers=[answer(claim.id)], calls=[call(late)], now=101.0)
    assert lost == {claim.id}
    assert len(answers.of_jobs(conn, [claim.id])[claim.id]) == 1
    assert conn.execute("SELECT count(*) FROM call").fetchone() == (1,)


def test_answers_are_kept_without_a_settlement(conn: psycopg.Connection, claim: Claim) -> None:
    assert claims.settle(conn, [], answers=[answer(claim.id)]) == set()
    assert claim.id in answers.of_jobs(conn, [claim.id])


def test_of_two_answers_to_one_question_the_first_is_replayed(conn: psycopg.Connection, claim: Claim) -> None:
    """Its holder may have used it already; a late holder's answer is kept too, and told apart by its time."""
    for body in (b"first", b"second"):
        claims.settle(conn, [], answers=[answer(claim.id, body)])
    ((_, _, body),) = answers.of_jobs(conn, [claim.id])[claim.id].values()
    assert body == b"first"


def test_answers_outlive_loss_retry_and_claim(
    conn: psycopg.Connection,
    claim: Claim,
    a_worker: Callable[..., Identity],
    beat: Callable[..., Pulse],
    settlement: Callable[..., Settlement],
    take: Callable[..., list[Claim]],
) -> None:
    claims.settle(conn, [], answers=[answer(claim.id)])
    conn.execute("UPDATE worker SET lease_until = now()")
    who = a_worker(conn)
    assert beat(conn, who).recovered == 1
    conn.execute("UPDATE job SET run_at = now() - interval '1 hour' WHERE id = %s", (claim.id,))
    (again,) = take(conn, who)
    assert again.id == claim.id
    claims.settle(conn, [settlement(again, Status.FAILED)])
    assert jobs.retry(conn, again.list_id) == 1
    assert claim.id in answers.of_jobs(conn, [claim.id])


def test_forgotten_answers_are_asked_for_again(conn: psycopg.Connection, claim: Claim) -> None:
    claims.settle(conn, [], answers=[answer(claim.id), answer(claim.id, occurrence=2), answer(claim.id + 1)])
    assert answers.forget(conn, [claim.id]) == 2
    assert answers.forget(conn, [claim.id]) == 0
    assert set(answers.of_jobs(conn, [claim.id, claim.id + 1])) == {claim.id + 1}


def test_a_batch_that_is_refused_keeps_no_answer_either(
    conn: psycopg.Connection, claim: Claim, settlement: Callable[..., Settlement]
) -> None:
    with pytest.raises(psycopg.DataError), conn.transaction():
        claims.settle(conn, [settlement(claim, result="{")], answers=[answer(claim.id)], calls=[call(claim)])
    assert answers.of_jobs(conn, [claim.id]) == {}
    assert conn.execute("SELECT count(*) FROM call").fetchone() == (0,)


def test_a_call_is_logged_with_the_time_it_was_sent(conn: psycopg.Connection, claim: Claim) -> None:
    claims.settle(conn, [], calls=[call(claim, status=None, message="reset", late=True)], now=130.0)
    with conn.cursor(row_factory=dict_row) as cursor:
        (row,) = cursor.execute(
            "SELECT *, extract(epoch FROM clock_timestamp() - sent_at)::float8 AS ago FROM call"
        ).fetchall()
    assert 30.0 <= row.pop("ago") < 31.0
    assert (row["job_id"], row["claim_no"], row["worker"]) == (claim.id, claim.claim_no, claim.worker)
    assert (row["verdict"], row["status"], row["message"], row["late"]) == ("usable", None, "reset", True)
    assert (row["waited_ms"], row["took_ms"], row["body_bytes"]) == (3, 40, 2)


def test_what_a_service_sends_in_headers_and_words_breaks_no_write(
    conn: psycopg.Connection, claim: Claim
) -> None:
    bad = "a\x00b\ud800"
    claims.settle(
        conn,
        [],
        answers=[answer(claim.id, headers={"x-odd": bad}, request=f"GET /{bad}")],
        calls=[call(claim, message=bad * 5000, request=f"GET /{bad}")],
        now=101.0,
    )
    assert conn.execute("SELECT request, headers FROM answer").fetchall() == [("GET /ab?", {"x-odd": "ab?"})]
    row = conn.execute("SELECT request, length(message) FROM call").fetchone()
    assert row
    assert row[0] == "GET /ab?"
    assert row[1] <= 2000
