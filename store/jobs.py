"""The queue as people move it: companies join a list, are sent back, taken off, waited for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg

from store import answers
from store.cleaning import text, to_json
from store.states import Status
from store.tally import COUNTED

CHANNEL = "sluice_due"
WAKE = f"NOTIFY {CHANNEL}"
# Said when running jobs are to stop: workers look at once at what they hold.
STOP_WORD = "stop"
STOP = f"NOTIFY {CHANNEL}, '{STOP_WORD}'"
# Who adds to a list waits for whoever does so already: rows that both add, in two orders, would have each
# wait for the other.
ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtext('sluice enqueue'), %s)"

# Touches the row of an active list too, so that `store.lists.finish` and this one wait for each other.
REOPEN = """
    UPDATE list SET state = 'active', finished_at = NULL
    WHERE id = %(list_id)s AND state IN ('active', 'finished')"""

ENQUEUE = f"""
WITH added AS (
    INSERT INTO job (list_id, company, name, extra, line)
    SELECT %(list_id)s, company, name, extra, line FROM incoming ORDER BY line
    ON CONFLICT (list_id, company) DO NOTHING
    RETURNING list_id),
moved AS (
    SELECT list_id, NULL AS was, NULL AS was_outcome, NULL AS was_cause,
           'pending' AS status, NULL AS outcome, NULL AS cause FROM added),
reopened AS ({REOPEN} AND EXISTS (SELECT FROM added)),
{COUNTED}
SELECT count(*) FROM added
"""

RETRY = f"""
WITH chosen AS MATERIALIZED (
    SELECT id, outcome AS was_outcome, cause AS was_cause FROM job
    WHERE list_id = %(list_id)s AND status = 'failed' AND (%(cause)s::text IS NULL OR cause = %(cause)s)
      AND id > %(after)s  -- a job that fails again meanwhile is not sent back again
    ORDER BY id LIMIT 5000 FOR UPDATE SKIP LOCKED),
moved AS (
    UPDATE job j SET status = 'pending', run_at = clock_timestamp(), ended_at = NULL,
        attempts = 0, losses = 0, faults = 0,
        fresh_at = CASE WHEN %(fresh)s THEN clock_timestamp() ELSE fresh_at END
    FROM chosen c WHERE j.id = c.id
    RETURNING j.list_id, 'failed' AS was, c.was_outcome, c.was_cause,
              j.status, NULL AS outcome, NULL AS cause),
forgotten AS (DELETE FROM answer WHERE %(fresh)s AND job_id = ANY (ARRAY(SELECT id FROM chosen))),
reopened AS ({REOPEN} AND EXISTS (SELECT FROM moved)),
{COUNTED}
SELECT count(*), max(id) FROM chosen
"""


# A job that ends again meanwhile is not sent back again.
REFRESH = f"""
WITH chosen AS MATERIALIZED (
    SELECT id, status AS was, outcome AS was_outcome, cause AS was_cause FROM job
    WHERE list_id = %(list_id)s AND status IN ('done', 'failed') AND id > %(after)s
      AND (%(before)s::timestamptz IS NULL OR ended_at < %(before)s)
    ORDER BY id LIMIT 5000 FOR UPDATE SKIP LOCKED),
moved AS (
    UPDATE job j SET status = 'pending', run_at = clock_timestamp(), ended_at = NULL, outcome = NULL,
        result = NULL, attempts = 0, losses = 0, faults = 0, fresh_at = clock_timestamp()
    FROM chosen c WHERE j.id = c.id
    RETURNING j.list_id, c.was, c.was_outcome, c.was_cause,
              j.status, NULL AS outcome, NULL AS cause),
forgotten AS (DELETE FROM answer WHERE job_id = ANY (ARRAY(SELECT id FROM chosen))),
reopened AS ({REOPEN} AND EXISTS (SELECT FROM moved)),
{COUNTED}
SELECT count(*), max(id) FROM chosen
"""

# One job, its counters anew; of a done one the result goes, since a pending job holds none.
BACK_IF = f"""
WITH chosen AS MATERIALIZED (
    SELECT id, status AS was, outcome AS was_outcome, cause AS was_cause FROM job
    WHERE id = %(job)s AND status = ANY (%(before)s) FOR UPDATE),
moved AS (
    UPDATE job j SET status = 'pending', run_at = clock_timestamp(), ended_at = NULL, outcome = NULL,
        result = NULL, attempts = 0, losses = 0, faults = 0,
        fresh_at = CASE WHEN %(fresh)s THEN clock_timestamp() ELSE fresh_at END
    FROM chosen c WHERE j.id = c.id
    RETURNING j.list_id, c.was, c.was_outcome, c.was_cause,
              j.status, NULL AS outcome, NULL AS cause),
reopened AS (
    UPDATE list SET state = 'active', finished_at = NULL
    WHERE id = (SELECT list_id FROM moved) AND state IN ('active', 'finished')),
{COUNTED}
SELECT count(*) FROM moved
"""


def _between(before: Status, after: Status, ended_at: str) -> str:
    return f"""
WITH chosen AS MATERIALIZED (
    SELECT id FROM job WHERE list_id = %(list_id)s AND status = '{before}' AND id > %(after)s
    ORDER BY id LIMIT 5000 FOR UPDATE SKIP LOCKED),
moved AS (
    UPDATE job j SET status = '{after}', ended_at = {ended_at} FROM chosen c WHERE j.id = c.id
    RETURNING j.list_id, '{before}' AS was, NULL AS was_outcome, NULL AS was_cause,
              j.status, NULL AS outcome, NULL AS cause),
{COUNTED}
SELECT count(*), max(id) FROM chosen
"""


CANCEL = _between(Status.PENDING, Status.CANCELLED, "clock_timestamp()")
REVIVE = _between(Status.CANCELLED, Status.PENDING, "NULL")


@dataclass(frozen=True, slots=True)
class NewJob:
    """A company to add to a list; `line` is its line in the uploaded file."""

    company: str
    name: str | None = None
    extra: dict[str, str] | None = None
    line: int | None = None


def enqueue(conn: psycopg.Connection, list_id: int, jobs: Iterable[NewJob]) -> int:
    """Add companies to a list; returns how many were new. Call inside a transaction."""
    conn.execute(
        "CREATE TEMPORARY TABLE incoming (company text, name text, extra jsonb, line int) ON COMMIT DROP"
    )
    with conn.cursor().copy("COPY incoming FROM STDIN") as copy:
        for job in jobs:
            name = None if job.name is None else text(job.name)
            copy.write_row((job.company, name, to_json(job.extra or {}), job.line))
    conn.execute(ONE_AT_A_TIME, (list_id,))
    (added,) = conn.execute(ENQUEUE, {"list_id": list_id}).fetchall()[0]
    conn.execute("DROP TABLE incoming")
    conn.execute(WAKE)
    return int(added)


def retry(conn: psycopg.Connection, list_id: int, cause: str | None = None, *, fresh: bool = False) -> int:
    """Send failed jobs of a list back, all or those with one cause; returns how many.

    Kept answers are used again; `fresh`: they are dropped, and the service is asked for everything anew.
    """
    return _repeat(conn, RETRY, {"list_id": list_id, "cause": cause, "fresh": fresh})


def refresh(conn: psycopg.Connection, list_id: int, ended_before: datetime | None = None) -> int:
    """Send ended jobs of a list back and ask the service anew; returns how many.

    All of them, or those that ended before a time. Their results and kept answers go; cancelled jobs stay
    cancelled.
    """
    return _repeat(conn, REFRESH, {"list_id": list_id, "before": ended_before})


def retry_one(conn: psycopg.Connection, job_id: int) -> bool:
    """Send one failed job back; kept answers are used again. False: it has not failed."""
    return _back(conn, job_id, [Status.FAILED], fresh=False)


def ask_again(conn: psycopg.Connection, job_id: int) -> bool:
    """Send one ended job back and drop its kept answers, so that the service is asked for everything again.

    False: it is neither done nor failed; nothing is dropped.
    """
    with conn.transaction():
        if not _back(conn, job_id, [Status.DONE, Status.FAILED], fresh=True):
            return False
        answers.forget(conn, [job_id])
    return True


def _back(conn: psycopg.Connection, job_id: int, before: Sequence[Status], *, fresh: bool) -> bool:
    ((moved,),) = conn.execute(BACK_IF, {"job": job_id, "before": list(before), "fresh": fresh}).fetchall()
    conn.execute(WAKE)
    return bool(moved)


def cancel(conn: psycopg.Connection, list_id: int) -> int:
    """Take the pending jobs of a list off the queue; returns how many.

    Running ones follow as they go back.
    """
    return _repeat(conn, CANCEL, {"list_id": list_id})


def revive(conn: psycopg.Connection, list_id: int) -> int:
    """Put the cancelled jobs of a list back on the queue; returns how many."""
    return _repeat(conn, REVIVE, {"list_id": list_id})


def _repeat(conn: psycopg.Connection, statement: str, params: dict[str, Any]) -> int:
    total = after = 0
    while moved := conn.execute(statement, {**params, "after": after}).fetchone():
        count, last = moved
        if count == 0:
            break
        total, after = total + count, last
    conn.execute(WAKE)
    return total


OLDEST_DUE = """
SELECT min(first.run_at) FROM list l CROSS JOIN LATERAL (
    SELECT run_at FROM job WHERE list_id = l.id AND status = 'pending' ORDER BY run_at, id LIMIT 1) first
WHERE l.state = 'active' AND l.key_id IS NULL
"""

FIRST_DUE = "SELECT run_at FROM job WHERE list_id = %s AND status = 'pending' ORDER BY run_at, id LIMIT 1"


def oldest_due(conn: psycopg.Connection) -> datetime | None:
    """Since when the pending job of an active list that has waited longest could run, or will be able to."""
    row = conn.execute(OLDEST_DUE).fetchone()
    return row[0] if row else None


def first_due(conn: psycopg.Connection, list_id: int) -> datetime | None:
    """From when on the first pending job of the list may run. None: none is pending."""
    row = conn.execute(FIRST_DUE, (list_id,)).fetchone()
    return row[0] if row else None
