"""Takes the snapshot: some ten short statements in one read-only transaction, none that grows with the jobs.

Counts come from the rollups, calls from the last 200 of each key, waiting times from the head of an index.
"""

from __future__ import annotations

import shutil
import time
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from monitor.seen import (
    BEFORE_SECONDS,
    RECENT_SECONDS,
    CauseFacts,
    ChannelFacts,
    DatabaseFacts,
    KeyFacts,
    ListFacts,
    OwnFacts,
    ServiceFacts,
    Snapshot,
    Transaction,
)
from store import pulse, workers
from store.allowances import IN_USE

T = TypeVar("T")

LISTS = """
WITH ends AS MATERIALIZED (  -- folded and appended ends of the last minutes
    SELECT list_id, minute AS at, status, n FROM tally_minute
    WHERE minute > now() - %(span)s * interval '1 second'
    UNION ALL
    SELECT list_id, at, status, n FROM tally_delta
    WHERE n > 0 AND status IN ('done', 'failed') AND at > now() - %(span)s * interval '1 second'),
counts AS (
    SELECT list_id, sum(n) FILTER (WHERE status = 'pending') AS pending,
           sum(n) FILTER (WHERE status = 'in_progress') AS in_progress,
           sum(n) FILTER (WHERE status = 'done') AS done,
           sum(n) FILTER (WHERE status = 'failed') AS failed
    FROM (SELECT list_id, status, n FROM tally UNION ALL SELECT list_id, status, n FROM tally_delta) t
    GROUP BY 1),
rates AS (
    SELECT list_id, max(at) AS last_end_at,
           sum(n) FILTER (WHERE status = 'done' AND is_recent) AS done_recent,
           sum(n) FILTER (WHERE status = 'failed' AND is_recent) AS failed_recent,
           sum(n) FILTER (WHERE status = 'done' AND NOT is_recent) AS done_before,
           sum(n) FILTER (WHERE status = 'failed' AND NOT is_recent) AS failed_before
    FROM (SELECT *, at > now() - %(recent)s * interval '1 second' AS is_recent FROM ends) e GROUP BY 1)
SELECT l.id, l.name, l.service, l.state, l.priority, l.start_at, l.due_by, l.finished_at,
       (SELECT j.run_at FROM job j WHERE j.list_id = l.id AND j.status = 'pending' AND l.state = 'active'
        ORDER BY j.run_at, j.id LIMIT 1) AS oldest_due_at,
       coalesce(c.pending, 0)::bigint AS pending,
       coalesce(c.in_progress, 0)::bigint AS in_progress,
       coalesce(c.done, 0)::bigint AS done,
       coalesce(c.failed, 0)::bigint AS failed,
       coalesce(r.done_recent, 0)::bigint AS done_recent,
       coalesce(r.failed_recent, 0)::bigint AS failed_recent,
       coalesce(r.done_before, 0)::bigint AS done_before,
       coalesce(r.failed_before, 0)::bigint AS failed_before,
       r.last_end_at
FROM list l LEFT JOIN counts c ON c.list_id = l.id LEFT JOIN rates r ON r.list_id = l.id
WHERE l.key_id IS NULL AND (l.state = 'active' OR l.finished_at > now() - interval '1 day')
ORDER BY l.id
"""

# Folded ends only on both sides, so that a cause is never older by its unfolded ends alone.
CAUSES = """
WITH recent AS (
    SELECT l.service, m.cause, sum(m.n) AS n FROM tally_minute m JOIN list l ON l.id = m.list_id
    WHERE m.minute > now() - %(recent)s * interval '1 second' AND m.status = 'failed' AND l.key_id IS NULL
    GROUP BY 1, 2)
SELECT r.service, r.cause, r.n::bigint AS recent, coalesce(sum(t.n), 0)::bigint AS total
FROM recent r JOIN list l ON l.service = r.service
JOIN tally t ON t.list_id = l.id AND t.status = 'failed' AND t.cause = r.cause
GROUP BY 1, 2, 3 ORDER BY 1, 2
"""

NEWEST_CLAIMS = "SELECT worker, max(claimed_at) FROM job WHERE status = 'in_progress' GROUP BY worker"

KEYS = f"""
SELECT k.id, k.service, k.label, k.account_id, k.state, k.last_error, a.rest_cause,
       greatest(a.rest_until - extract(epoch FROM clock_timestamp()), 0)::float8 AS rest_seconds,
       w.amounts, w.per_seconds, w.used, c.calls, c.jobs, c.limited
FROM key k JOIN account a ON a.id = k.account_id
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(amount ORDER BY no), '{{}}') AS amounts,
           coalesce(array_agg(per_seconds ORDER BY no), '{{}}') AS per_seconds,
           coalesce(array_agg(used ORDER BY no), '{{}}') AS used
    FROM (SELECT w.no, w.amount, w.per_seconds, ({IN_USE})::bigint AS used
          FROM allowance w WHERE w.account_id = a.id AND w.kind <> 'tokens') w) w
CROSS JOIN LATERAL (
    SELECT count(*) AS calls, count(DISTINCT job_id) AS jobs,
           count(*) FILTER (WHERE verdict = 'key_rests') AS limited
    FROM (SELECT job_id, verdict FROM call
          WHERE key_id = k.id AND sent_at > now() - %(recent)s * interval '1 second'
          ORDER BY sent_at DESC LIMIT 200) c) c
ORDER BY k.id
"""  # noqa: S608 - a constant of the store

SERVICES = """
SELECT name, greatest(extract(epoch FROM rest_until - clock_timestamp()), 0)::float8 AS rest_seconds,
       rest_cause, extract(epoch FROM clock_timestamp() - opened_at)::float8 AS open_seconds
FROM service ORDER BY name
"""

LONGEST = """
SELECT extract(epoch FROM clock_timestamp() - xact_start)::float8 AS seconds, application_name AS program, pid
FROM pg_stat_activity
WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()
  AND xact_start IS NOT NULL
ORDER BY xact_start LIMIT 1
"""

SERVER = """
SELECT (SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'job' AND schemaname = 'public'),
       (SELECT n_live_tup FROM pg_stat_user_tables WHERE relname = 'job' AND schemaname = 'public'),
       (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
       current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
"""

CHANNELS = """
SELECT c.name, count(*) FILTER (WHERE d.state = 'pending') AS waiting,
       coalesce(extract(epoch FROM clock_timestamp() - min(d.created_at) FILTER (WHERE d.state = 'pending')),
                0)::float8 AS oldest_seconds,
       coalesce(max(d.tries) FILTER (WHERE d.state = 'pending'), 0) AS tries,
       count(*) FILTER (WHERE d.state = 'failed' AND d.created_at > now() - interval '2 days') AS given_up,
       (array_agg(d.last_error ORDER BY d.id DESC) FILTER (WHERE d.last_error IS NOT NULL))[1] AS last_error
FROM unnest((SELECT channels FROM monitor)) AS c(name)
LEFT JOIN delivery d ON d.channel = c.name
     AND (d.state = 'pending' OR d.created_at > now() - interval '2 days')
GROUP BY c.name ORDER BY c.name
"""


def take(conn: psycopg.Connection, disk: Path) -> Snapshot:
    """Everything the rules look at, as of one moment; `disk`: a directory on the disk to watch."""
    asked: dict[str, Any] = {"recent": RECENT_SECONDS, "span": RECENT_SECONDS + BEFORE_SECONDS}
    with conn.transaction():
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        conn.execute("SET LOCAL statement_timeout = '10s'")
        ((now,),) = conn.execute("SELECT clock_timestamp()").fetchall()
        clock_ahead_seconds = time.time() - now.timestamp()
        return Snapshot(
            now=now,
            lists=_rows(conn, ListFacts, LISTS, asked),
            causes=_rows(conn, CauseFacts, CAUSES, asked),
            workers=tuple(workers.see(conn)),
            newest_claims=_newest_claims(conn),
            keys=_rows(conn, KeyFacts, KEYS, asked),
            services=_rows(conn, ServiceFacts, SERVICES),
            database=_database(conn),
            channels=_rows(conn, ChannelFacts, CHANNELS),
            own=_own(conn, clock_ahead_seconds, disk),
        )


def _rows(conn: psycopg.Connection, kind: type[T], statement: str, asked: Any = None) -> tuple[T, ...]:
    with conn.cursor(row_factory=class_row(kind)) as cursor:
        return tuple(cursor.execute(statement, asked))


def _newest_claims(conn: psycopg.Connection) -> dict[UUID, datetime]:
    return dict(conn.execute(NEWEST_CLAIMS).fetchall())


def _database(conn: psycopg.Connection) -> DatabaseFacts:
    longest = _rows(conn, Transaction, LONGEST)
    (counts,) = conn.execute(SERVER).fetchall()
    return DatabaseFacts(longest[0] if longest else None, *(count or 0 for count in counts))


def _own(conn: psycopg.Connection, clock_ahead_seconds: float, disk: Path) -> OwnFacts:
    row = pulse.see(conn)
    usage = shutil.disk_usage(disk) if disk.is_dir() else None
    return OwnFacts(
        looked_at=row.looked_at,
        counts_off=row.counts_off,
        checked_at=row.checked_at,
        clock_ahead_seconds=clock_ahead_seconds,
        disk_free_bytes=usage.free if usage else None,
        disk_total_bytes=usage.total if usage else None,
    )
