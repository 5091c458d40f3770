"""Answers and calls are kept in partitions of a week or a month: made ahead, dropped when all is too old.

Everybody may do it, one at a time does: each change is a transaction of its own that waits for no writer
longer than `LOCK_SECONDS`. What comes before its partition is made lies in the partition `…_rest` meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import psycopg
from psycopg import sql

LOCK_SECONDS = 0.2
# Lists that keep longer than this share partitions of a month, else of a week.
LONGEST_BY_WEEK_DAYS = 60

ONE_AT_A_TIME = "SELECT pg_try_advisory_xact_lock(hashtext('sluice partitions'))"

NOW = "SELECT clock_timestamp(), coalesce(max(keep_days), 0) FROM list"

ENDS = """
SELECT c.relname,
       (regexp_match(pg_get_expr(c.relpartbound, c.oid), $$TO \\('(.+?)'\\)$$))[1]::timestamptz AS ends
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = %s::regclass AND pg_get_expr(c.relpartbound, c.oid) <> 'DEFAULT'
ORDER BY ends
"""

# A list that was made later than a partition ends has nothing in it, but what it took over from others.
IS_WANTED = """
SELECT EXISTS (SELECT FROM list
               WHERE created_at - reuse_seconds * interval '1 second' < %(ends)s
                 AND %(ends)s > clock_timestamp() - keep_days * interval '1 day')
"""

MAKE = """
CREATE TABLE {new} (LIKE {parent} INCLUDING ALL EXCLUDING IDENTITY);
LOCK TABLE {rest} IN EXCLUSIVE MODE;
WITH moved AS (DELETE FROM {rest} WHERE {at} >= {begins} AND {at} < {ends} RETURNING *)
INSERT INTO {new} SELECT * FROM moved;
ALTER TABLE {parent} ATTACH PARTITION {new} FOR VALUES FROM ({begins}) TO ({ends});
"""


@dataclass(frozen=True, slots=True)
class Kept:
    """A partitioned table and its column of time."""

    table: str
    at: str


TABLES = (Kept("answer", "kept_at"), Kept("call", "sent_at"))


@dataclass(frozen=True, slots=True)
class Span:
    """From when to when a partition reaches; the end is not in it."""

    begins: datetime
    ends: datetime


def keep(conn: psycopg.Connection) -> list[str]:
    """Make what is missing, drop what nobody wants any more; returns what was done, in words.

    Raises `psycopg.errors.LockNotAvailable` when somebody uses the tables for long: try again later.
    """
    return list(iter(lambda: _change(conn), ""))


def spans(begins: datetime, now: datetime, keep_days: int) -> Iterator[Span]:
    """Weeks or months (UTC) one after another from `begins` on, until one more than now needs is there."""
    by_week = keep_days <= LONGEST_BY_WEEK_DAYS
    while begins <= _next(now, by_week):
        ends = _next(begins, by_week)
        yield Span(begins, ends)
        begins = ends


def _next(at: datetime, by_week: bool) -> datetime:
    """The first Monday or first of a month after `at`, at midnight UTC."""
    day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    if by_week:
        return day + timedelta(days=7 - day.weekday())
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)


def _change(conn: psycopg.Connection) -> str:
    """One change, in words; blank: there is nothing to do, or somebody else is at it."""
    with conn.transaction():
        conn.execute(f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'")
        if conn.execute(ONE_AT_A_TIME).fetchone() != (True,):
            return ""
        ((now, keep_days),) = conn.execute(NOW).fetchall()
        for kept in TABLES:
            there: list[tuple[str, datetime]] = conn.execute(ENDS, (kept.table,)).fetchall()
            begins = _begins(conn, kept, [ends for _, ends in there], now)
            for span in spans(begins, now, keep_days):
                return _make(conn, kept, span)
            for name, ends in there:
                if ends <= now and conn.execute(IS_WANTED, {"ends": ends}).fetchone() == (False,):
                    conn.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(name)))
                    return f"dropped {name}"
    return ""


def _begins(conn: psycopg.Connection, kept: Kept, ends: list[datetime], now: datetime) -> datetime:
    """Where the next partition begins: after the last one, else with the oldest row that has none."""
    statement = sql.SQL("SELECT min({}) FROM {}").format(
        sql.Identifier(kept.at), sql.Identifier(f"{kept.table}_rest")
    )
    ((oldest,),) = conn.execute(statement).fetchall()
    day = min(oldest or now, now).astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return max([day, *ends])


def _make(conn: psycopg.Connection, kept: Kept, span: Span) -> str:
    name = f"{kept.table}_{span.begins:%Y%m%d}"
    statement = sql.SQL(MAKE).format(
        new=sql.Identifier(name),
        parent=sql.Identifier(kept.table),
        rest=sql.Identifier(f"{kept.table}_rest"),
        at=sql.Identifier(kept.at),
        begins=sql.Literal(span.begins),
        ends=sql.Literal(span.ends),
    )
    conn.execute(statement)
    return f"made {name}"
