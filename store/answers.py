"""Paid answers, kept by job and request, so that no call is made twice. Bodies are compressed here."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import class_row

from store.cleaning import MAX_REQUEST, text, to_json

# Larger ones are handed on and not kept: the table is no place for them.
MAX_KEPT_BYTES = 32_000_000

# Joined to the statement that settles, and not fenced: a late holder's answer is paid for too.
# Written `again`, since nobody knows whether the first time was committed: what is there is there.
KEPT = """
kept AS (
    INSERT INTO answer (job_id, fingerprint, occurrence, service, request, status, headers, body, body_bytes)
    SELECT a.job_id, a.fingerprint, a.occurrence, a.service, a.request, a.status, a.headers::jsonb,
           a.body, a.body_bytes
    FROM unnest(%(answer_job)b::bigint[], %(answer_fingerprint)b::bytea[], %(answer_occurrence)b::smallint[],
                %(answer_service)b::text[], %(answer_request)b::text[], %(answer_status)b::smallint[],
                %(answer_headers)b::text[], %(answer_body)b::bytea[], %(answer_bytes)b::int[])
      AS a(job_id, fingerprint, occurrence, service, request, status, headers, body, body_bytes)
    WHERE NOT (%(again)b AND EXISTS (
        SELECT FROM answer x
        WHERE x.job_id = a.job_id AND x.fingerprint = a.fingerprint AND x.occurrence = a.occurrence)))
"""

OF_JOBS = """
SELECT DISTINCT ON (job_id, fingerprint, occurrence) job_id, fingerprint, occurrence, status, headers, body
FROM answer a WHERE job_id = ANY (%(jobs)s) AND kept_at > clock_timestamp() - interval '1 day' * (
    SELECT l.keep_days FROM job j JOIN list l ON l.id = j.list_id WHERE j.id = a.job_id)
ORDER BY job_id, fingerprint, occurrence, kept_at
"""

# The copy is as old as the answer is: handed on from list to list it does not become younger.
REUSE = """
WITH asker AS MATERIALIZED (
    SELECT j.id, l.service,
           greatest(clock_timestamp() - l.reuse_seconds * interval '1 second', j.fresh_at) AS since
    FROM job j JOIN list l ON l.id = j.list_id WHERE j.id = %(job)s AND l.reuse_seconds > 0),
found AS MATERIALIZED (
    SELECT a.* FROM asker CROSS JOIN LATERAL (
        SELECT * FROM answer
        WHERE service = asker.service AND fingerprint = %(fingerprint)s AND kept_at > asker.since
          AND occurrence = %(occurrence)s AND job_id <> asker.id
        ORDER BY kept_at DESC LIMIT 1) a),
kept AS (
    INSERT INTO answer (job_id, fingerprint, occurrence, service, request, status, headers, body, body_bytes,
                        kept_at, reused_from)
    SELECT %(job)s, fingerprint, occurrence, service, request, status, headers, body, body_bytes,
           kept_at, coalesce(reused_from, job_id) FROM found
    ON CONFLICT DO NOTHING)
SELECT coalesce(reused_from, job_id), status, headers, body,
       extract(epoch FROM clock_timestamp() - kept_at)::float8 FROM found
"""

SEEN = """
SELECT row_number() OVER (ORDER BY kept_at, fingerprint, occurrence)::int AS no, request, status, headers,
       body_bytes, kept_at, reused_from
FROM answer WHERE job_id = %s ORDER BY no
"""

# A number stays an answer's as long as the job's answers do: later ones come after it, but for one that is
# taken over from another job and is older.
BODY = """
SELECT body FROM answer WHERE job_id = %(job)s
ORDER BY kept_at, fingerprint, occurrence OFFSET %(no)s - 1 LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class AnswerSeen:
    """A kept answer without its body. `no` counts a job's answers from 1, oldest first.

    `reused_from`: the job that asked the service; None: this one.
    """

    no: int
    request: str
    status: int
    headers: dict[str, str]
    body_bytes: int
    kept_at: datetime
    reused_from: int | None


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer of the service to the `occurrence`-th time a job asked this question (1, 2, …)."""

    job_id: int
    fingerprint: bytes
    occurrence: int
    service: str
    request: str
    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reused:
    """An answer that the job `from_job` got `age_seconds` ago."""

    from_job: int
    status: int
    headers: dict[str, str]
    body: bytes
    age_seconds: float


def columns(answers: Sequence[KeptAnswer]) -> dict[str, list[Any]]:
    """The parameters of `KEPT`."""
    return {
        "answer_job": [a.job_id for a in answers],
        "answer_fingerprint": [a.fingerprint for a in answers],
        "answer_occurrence": [a.occurrence for a in answers],
        "answer_service": [a.service for a in answers],
        "answer_request": [text(a.request, MAX_REQUEST) for a in answers],
        "answer_status": [a.status for a in answers],
        "answer_headers": [to_json(a.headers) for a in answers],
        "answer_body": [zlib.compress(a.body, 3) for a in answers],
        "answer_bytes": [len(a.body) for a in answers],
    }


OF_REQUEST = """
SELECT status, headers, body FROM answer
WHERE job_id = %s AND fingerprint = %s AND occurrence = %s ORDER BY kept_at LIMIT 1
"""

Stored = dict[tuple[bytes, int], tuple[int, dict[str, str], bytes]]


def of_jobs(conn: psycopg.Connection, jobs: Sequence[int]) -> dict[int, Stored]:
    """What was kept for each of these jobs: (fingerprint, occurrence) -> (status, headers, body).

    What is older than the job's list keeps answers is left out.
    """
    found: dict[int, Stored] = {}
    for job_id, mark, occurrence, status, headers, body in conn.execute(OF_JOBS, {"jobs": list(jobs)}):
        found.setdefault(job_id, {})[bytes(mark), occurrence] = (status, headers, zlib.decompress(body))
    return found


def of_request(
    conn: psycopg.Connection, job: int, fingerprint: bytes, occurrence: int
) -> tuple[int, dict[str, str], bytes] | None:
    """What was kept for one request of a job: (status, headers, body)."""
    row = conn.execute(OF_REQUEST, (job, fingerprint, occurrence)).fetchone()
    return None if row is None else (row[0], row[1], zlib.decompress(row[2]))


def reuse(conn: psycopg.Connection, job: int, fingerprint: bytes, occurrence: int) -> Reused | None:
    """The newest answer of another job of the service, if this job's list takes one so old; kept here too.

    A job that asks anew takes over only what was answered since then.
    """
    asked = {"job": job, "fingerprint": fingerprint, "occurrence": occurrence}
    row = conn.execute(REUSE, asked).fetchone()
    return None if row is None else Reused(row[0], row[1], row[2], zlib.decompress(row[3]), row[4])


def forget(conn: psycopg.Connection, jobs: Sequence[int]) -> int:
    """Drop what was kept for these jobs, so that the service is asked again; returns how many answers."""
    return conn.execute("DELETE FROM answer WHERE job_id = ANY (%s)", (list(jobs),)).rowcount


def see(conn: psycopg.Connection, job_id: int) -> list[AnswerSeen]:
    """What was kept for a job, oldest first."""
    with conn.cursor(row_factory=class_row(AnswerSeen)) as cursor:
        return cursor.execute(SEEN, (job_id,)).fetchall()


def body(conn: psycopg.Connection, job_id: int, no: int, most: int | None = None) -> bytes | None:
    """The body of a job's answer, or its first `most` bytes; None when there is no such answer."""
    row = conn.execute(BODY, {"job": job_id, "no": no}).fetchone() if no > 0 else None
    return zlib.decompressobj().decompress(row[0], most or 0) if row else None
