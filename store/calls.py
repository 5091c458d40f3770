"""The log of calls: every request that left a worker under a key, with what it meant and how long it took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from store.cleaning import MAX_MESSAGE, MAX_REQUEST, text

REUSED = "reused"

# Written `again`, since nobody knows whether the first time was committed: what is there is there.
LOGGED = """
logged AS (
    INSERT INTO call (job_id, claim_no, worker, key_id, request, verdict, status, message, waited_ms, took_ms,
                      late, body_bytes, no, sent_at)
    SELECT c.job_id, c.claim_no, c.worker, c.key_id, c.request, c.verdict, c.status, c.message, c.waited_ms,
           c.took_ms, c.late, c.body_bytes, c.no, clock_timestamp() - c.ago_seconds * interval '1 second'
    FROM unnest(
        %(call_job)b::bigint[], %(call_claim_no)b::int[], %(call_worker)b::uuid[], %(call_key)b::int[],
        %(call_request)b::text[], %(call_verdict)b::text[], %(call_status)b::smallint[],
        %(call_message)b::text[], %(call_waited_ms)b::int[], %(call_took_ms)b::int[],
        %(call_late)b::boolean[], %(call_bytes)b::int[], %(call_no)b::int[], %(call_ago)b::float8[])
      AS c(job_id, claim_no, worker, key_id, request, verdict, status, message, waited_ms, took_ms, late,
           body_bytes, no, ago_seconds)
    WHERE NOT (%(again)b AND EXISTS (
        SELECT FROM call x WHERE x.job_id = c.job_id AND x.worker = c.worker AND x.no = c.no)))
"""

# Reads a row per call: ask it every quarter of a minute, not with every look at the dashboard.
LAST_HOUR = """
SELECT k.id AS key_id, c.* FROM key k CROSS JOIN LATERAL (
    SELECT count(*) AS calls, count(*) FILTER (WHERE verdict = 'key_rests') AS rate_limited,
           avg(took_ms) FILTER (WHERE sent_at > now() - interval '5 minutes')::float8 AS took_ms
    FROM call WHERE key_id = k.id AND sent_at > now() - interval '1 hour') c
"""


SEEN = """
SELECT c.id, c.job_id, c.claim_no, c.worker, w.name AS worker_name, c.key_id, k.label AS key, c.request,
       c.verdict, c.status, c.message, c.waited_ms, c.took_ms, c.late, c.body_bytes, c.sent_at
FROM call c LEFT JOIN key k ON k.id = c.key_id LEFT JOIN worker w ON w.id = c.worker
"""

OF_JOB = f"{SEEN} WHERE c.job_id = %(job)s ORDER BY c.claim_no DESC, c.sent_at DESC, c.id DESC LIMIT %(most)s"

# Errors are looked for among the newest calls only: of a healthy key they may be years ago.
OF_KEY = f"""
WITH newest AS MATERIALIZED (
    SELECT * FROM call WHERE key_id = %(key)s ORDER BY sent_at DESC LIMIT %(among)s)
{SEEN.replace("FROM call c", "FROM newest c")}
WHERE NOT %(errors)s OR c.verdict <> 'usable' ORDER BY c.sent_at DESC, c.id DESC LIMIT %(most)s
"""
AMONG = 1000


@dataclass(frozen=True, slots=True)
class CallSeen:
    """A call as people see it. `key` and `worker_name` are None when these are gone.

    `key_id` is None for what was not sent: another job's answer was used.
    """

    id: int
    job_id: int
    claim_no: int
    worker: UUID
    worker_name: str | None
    key_id: int | None
    key: str | None
    request: str
    verdict: str
    status: int | None
    message: str | None
    waited_ms: int
    took_ms: int
    late: bool
    body_bytes: int
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class KeyCalls:
    """The calls of a key in the last hour; `took_ms`: how long one takes, by the last five minutes."""

    key_id: int
    calls: int
    rate_limited: int
    took_ms: float | None


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it was sent. `sent_at` is on the worker's monotonic clock; `request` holds no secret.

    `late`: it left after its permit's time, because the process was stopped in between. `key_id` is None when
    another job's answer was used instead, and the verdict is `REUSED`. `no` tells a process's calls apart.
    """

    job_id: int
    claim_no: int
    worker: UUID
    key_id: int | None
    request: str
    verdict: str
    status: int | None
    message: str | None
    waited_ms: int
    took_ms: int
    late: bool
    body_bytes: int
    sent_at: float
    no: int = field(default_factory=count(1).__next__)


def columns(calls: Sequence[Call], now: float) -> dict[str, list[Any]]:
    """The parameters of `LOGGED`; `now` on the clock of `Call.sent_at`."""
    return {
        "call_job": [c.job_id for c in calls],
        "call_claim_no": [c.claim_no for c in calls],
        "call_worker": [c.worker for c in calls],
        "call_key": [c.key_id for c in calls],
        "call_request": [text(c.request, MAX_REQUEST) for c in calls],
        "call_verdict": [c.verdict for c in calls],
        "call_status": [c.status for c in calls],
        "call_message": [text(c.message, MAX_MESSAGE) if c.message else None for c in calls],
        "call_waited_ms": [c.waited_ms for c in calls],
        "call_took_ms": [c.took_ms for c in calls],
        "call_late": [c.late for c in calls],
        "call_bytes": [c.body_bytes for c in calls],
        "call_no": [c.no for c in calls],
        "call_ago": [now - c.sent_at for c in calls],
    }


def last_hour(conn: psycopg.Connection) -> dict[int, KeyCalls]:
    """What each key was used for in the last hour, by its id."""
    with conn.cursor(row_factory=class_row(KeyCalls)) as cursor:
        return {one.key_id: one for one in cursor.execute(LAST_HOUR)}


def of_job(conn: psycopg.Connection, job_id: int, most: int) -> list[CallSeen]:
    """The newest calls of a job, in the order they were sent."""
    with conn.cursor(row_factory=class_row(CallSeen)) as cursor:
        return cursor.execute(OF_JOB, {"job": job_id, "most": most}).fetchall()[::-1]


def of_key(conn: psycopg.Connection, key_id: int, most: int, *, errors: bool) -> list[CallSeen]:
    """The newest calls under a key, newest first; with `errors` those of its last 1,000 that were no use."""
    asked = {"key": key_id, "most": most, "errors": errors, "among": AMONG if errors else most}
    with conn.cursor(row_factory=class_row(CallSeen)) as cursor:
        return cursor.execute(OF_KEY, asked).fetchall()
