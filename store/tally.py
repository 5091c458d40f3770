"""Live counts that cost the same at any size: moves append to `tally_delta`, folds add them up.

Whoever moves jobs appends its moves in the same statement, so counts and table commit together. Readers
add the folded and the appended rows. No trigger, no hot row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg
from psycopg.rows import class_row

# For a statement with a CTE `moved(list_id, was, was_outcome, was_cause, status, outcome, cause)`.
COUNTED = """
counted AS (
    INSERT INTO tally_delta (list_id, status, outcome, cause, n)
    SELECT m.list_id, v.status, v.outcome, v.cause, sum(v.n)
    FROM moved m CROSS JOIN LATERAL (VALUES
        (m.was, coalesce(m.was_outcome, ''), coalesce(m.was_cause, ''), -1),
        (m.status, coalesce(m.outcome, ''), coalesce(m.cause, ''), 1)) v(status, outcome, cause, n)
    WHERE v.status IS NOT NULL
    GROUP BY 1, 2, 3, 4 HAVING sum(v.n) <> 0)
"""

# Only ended jobs are counted by cause: why a pending job waits changes without a move.
CAUSE_COUNTED = "CASE WHEN j.status IN ('done', 'failed') THEN j.cause END"

FOLD = """
WITH taken AS MATERIALIZED (
    SELECT ctid FROM tally_delta ORDER BY at LIMIT 20000 FOR UPDATE SKIP LOCKED),
gone AS (
    DELETE FROM tally_delta WHERE ctid = ANY (ARRAY(SELECT ctid FROM taken)) RETURNING *),
kept AS (
    SELECT gone.* FROM gone JOIN list ON list.id = gone.list_id),
total AS (
    INSERT INTO tally AS t (list_id, status, outcome, cause, n)
    SELECT list_id, status, outcome, cause, sum(n) FROM kept GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (list_id, status, outcome, cause) DO UPDATE SET n = t.n + excluded.n),
minute AS (
    INSERT INTO tally_minute AS t (list_id, minute, status, outcome, cause, n)
    SELECT list_id, date_trunc('minute', at), status, outcome, cause, sum(n) FROM kept
    WHERE n > 0 AND status IN ('done', 'failed') AND isfinite(at)
    GROUP BY 1, 2, 3, 4, 5 ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT (list_id, minute, status, outcome, cause) DO UPDATE SET n = t.n + excluded.n)
SELECT count(*) FROM gone
"""

READ = """
SELECT list_id, status, outcome, cause, sum(n)::bigint AS n FROM (
    SELECT list_id, status, outcome, cause, n FROM tally
    UNION ALL SELECT list_id, status, outcome, cause, n FROM tally_delta) t
WHERE %(lists)s::int[] IS NULL OR list_id = ANY (%(lists)s)
GROUP BY 1, 2, 3, 4 HAVING sum(n) <> 0 ORDER BY 1, 2, 3, 4
"""

# A test of a key is a list that people do not count: see `store.key_tests`.
OF_PEOPLE = "list_id <> ALL (ARRAY(SELECT id FROM list WHERE key_id IS NOT NULL))"

TOTALS = f"""
SELECT 0 AS list_id, status, outcome, cause, sum(n)::bigint AS n FROM (
    SELECT list_id, status, outcome, cause, n FROM tally
    UNION ALL SELECT list_id, status, outcome, cause, n FROM tally_delta) t
WHERE {OF_PEOPLE}
GROUP BY 2, 3, 4 HAVING sum(n) <> 0 ORDER BY 2, 3, 4
"""

TRUTH = """
SELECT list_id, status, coalesce(outcome, '') AS outcome,
       CASE WHEN status IN ('done', 'failed') THEN coalesce(cause, '') ELSE '' END AS cause,
       count(*) AS n
FROM job GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
"""

# A correction is of no minute: nothing ended when it was found.
CORRECT = """
INSERT INTO tally_delta (list_id, status, outcome, cause, n, at)
VALUES (%(list_id)s, %(status)s, %(outcome)s, %(cause)s, %(n)s, '-infinity')
"""

PER_MINUTE = f"""
SELECT minute, sum(n) FILTER (WHERE status = 'done') AS done,
       sum(n) FILTER (WHERE status = 'failed') AS failed
FROM tally_minute WHERE minute >= now() - %(minutes)s * interval '1 minute' AND {OF_PEOPLE}
GROUP BY minute ORDER BY minute
"""

PER_BUCKET = f"""
SELECT date_bin(%(bucket)s, minute, 'epoch') AS minute,
       coalesce(sum(n) FILTER (WHERE status = 'done'), 0)::bigint AS done,
       coalesce(sum(n) FILTER (WHERE status = 'failed'), 0)::bigint AS failed
FROM tally_minute
WHERE minute >= date_bin(%(bucket)s, now(), 'epoch') - %(bucket)s * %(buckets)s
  AND minute < date_bin(%(bucket)s, now(), 'epoch') AND {OF_PEOPLE}
GROUP BY 1 ORDER BY 1
"""

PACE = """
SELECT list_id, minute, sum(n)::bigint FROM tally_minute
WHERE list_id = ANY (%(lists)s) AND minute >= date_trunc('minute', now()) - %(minutes)s * interval '1 minute'
GROUP BY 1, 2 ORDER BY 1, 2
"""

LAST_FAILED = """
SELECT list_id, cause, max(minute) FROM tally_minute
WHERE list_id = ANY (%(lists)s) AND minute >= now() - %(days)s * interval '1 day' AND status = 'failed'
GROUP BY 1, 2
"""


@dataclass(frozen=True, slots=True)
class Count:
    """How many jobs of a list are in a status, with an outcome or for a cause ('' where there is none)."""

    list_id: int
    status: str
    outcome: str
    cause: str
    n: int


@dataclass(frozen=True, slots=True)
class Minute:
    """How many jobs ended in the minute, or the bucket of minutes, that starts at `minute`."""

    minute: datetime
    done: int
    failed: int


def fold(conn: psycopg.Connection) -> int:
    """Add up the oldest appended moves; returns how many. Safe beside other folders and movers."""
    row = conn.execute(FOLD).fetchone()
    return int(row[0]) if row else 0


def read(conn: psycopg.Connection, lists: Sequence[int] | None = None) -> list[Count]:
    """The counts of these lists, or of all, exact as of this statement."""
    with conn.cursor(row_factory=class_row(Count)) as cursor:
        return cursor.execute(READ, {"lists": None if lists is None else list(lists)}).fetchall()


def totals(conn: psycopg.Connection) -> list[Count]:
    """The counts of all lists together, exact as of this statement; their `list_id` is 0."""
    with conn.cursor(row_factory=class_row(Count)) as cursor:
        return cursor.execute(TOTALS).fetchall()


def per_bucket(conn: psycopg.Connection, bucket: timedelta, buckets: int) -> list[Minute]:
    """Ended jobs in the last so many whole buckets of this length; those with none are left out."""
    with conn.cursor(row_factory=class_row(Minute)) as cursor:
        return cursor.execute(PER_BUCKET, {"bucket": bucket, "buckets": buckets}).fetchall()


def pace(
    conn: psycopg.Connection, lists: Sequence[int], minutes: int
) -> dict[int, list[tuple[datetime, int]]]:
    """For each of these lists how many jobs ended in which of the last minutes, this one included."""
    found: dict[int, list[tuple[datetime, int]]] = {list_id: [] for list_id in lists}
    for list_id, minute, ended in conn.execute(PACE, {"lists": list(lists), "minutes": minutes}):
        found[list_id].append((minute, ended))
    return found


def last_failed(conn: psycopg.Connection, lists: Sequence[int], days: int) -> dict[tuple[int, str], datetime]:
    """In which minute the last job of each list failed for each cause; older ones are left out."""
    rows = conn.execute(LAST_FAILED, {"lists": list(lists), "days": days})
    return {(list_id, cause): minute for list_id, cause, minute in rows}


def per_minute(conn: psycopg.Connection, minutes: int) -> list[Minute]:
    """Ended jobs by minute, folded ones only: a few seconds behind."""
    rows = conn.execute(PER_MINUTE, {"minutes": minutes}).fetchall()
    return [Minute(at, int(done or 0), int(failed or 0)) for at, done, failed in rows]


def check(conn: psycopg.Connection) -> list[Count]:
    """Compare the counts with the table in one snapshot, correct them, return what was off by how much.

    Reads the whole job table. Call it on a connection that has no transaction open.
    """
    with conn.transaction():
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        counted = {(c.list_id, c.status, c.outcome, c.cause): c.n for c in read(conn)}
        with conn.cursor(row_factory=class_row(Count)) as cursor:
            true = {(c.list_id, c.status, c.outcome, c.cause): c.n for c in cursor.execute(TRUTH).fetchall()}
        off = [
            Count(*key, n=true.get(key, 0) - counted.get(key, 0))
            for key in sorted(counted.keys() | true.keys())
            if true.get(key, 0) != counted.get(key, 0)
        ]
        for count in off:
            conn.execute(CORRECT, {name: getattr(count, name) for name in Count.__slots__})
    return off
