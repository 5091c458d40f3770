"""The job table as people page through it: 50 rows at a time by key, never by offset, never counted whole.

A page is read list by list, and within a list in the order of an index that holds its filter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile
from typing import Any

import psycopg
from psycopg.rows import class_row

from store.states import Status

PAGE_ROWS = 50
MOST_COUNTED = 10_000
# After every number that begins with the text before it, in the order of any collation.
AFTER_ALL = "Z" * 20

COLUMNS = """
    id, list_id, company, name, status, outcome, cause, message, attempts, run_at, claimed_at, ended_at"""

LIKE_ASKED = """
    AND (%(status)s::text IS NULL OR status = %(status)s)
    AND (%(outcome)s::text IS NULL OR outcome = %(outcome)s)
    AND (%(cause)s::text IS NULL OR cause = %(cause)s)"""


def _page(source: str, where: str, **key: str) -> str:
    """The statement of a way: `key` has the columns it is ordered by, each with what comes before all."""
    order = ", ".join(key)
    bound = ", ".join(f"CASE WHEN l.id = %(after_list)s THEN %(after_{k})s ELSE {key[k]} END" for k in key)
    return f"""
SELECT j.*, list.name AS list, list.service
FROM unnest(%(lists)s::int[]) WITH ORDINALITY AS l(id, no)
CROSS JOIN LATERAL (
    SELECT {COLUMNS} FROM {source} WHERE list_id = l.id {where} AND ({order}) > ({bound})
    ORDER BY {order} LIMIT %(rows)s) j
JOIN list ON list.id = l.id
ORDER BY l.no, {", ".join(f"j.{k}" for k in key)} LIMIT %(rows)s
"""


BY_COMPANY = _page("job", LIKE_ASKED, company="''")
NUMBERED_ONLY = """
    AND company >= %(number)s AND company <= %(number)s || %(after_all)s
    AND starts_with(company, %(number)s)"""
NUMBERED = _page("job", NUMBERED_ONLY + LIKE_ASKED, company="''")
NAMED = _page("job", LIKE_ASKED + " AND name ILIKE %(name)s", company="''")
PENDING = _page("job", "AND status = 'pending'", run_at="'-infinity'::timestamptz", id="0::bigint")
FAILED = _page("job", "AND status = 'failed'", cause="''", id="0::bigint")
FAILED_FOR = _page("job", "AND status = 'failed' AND cause = %(cause)s", id="0::bigint")
# Few by nature, and all in their own small index.
HELD = f"WITH held AS MATERIALIZED (SELECT {COLUMNS} FROM job WHERE status = 'in_progress')" + _page(
    "held", "", id="0::bigint"
)

COUNT = f"""
SELECT count(*) FROM (
    SELECT FROM unnest(%(lists)s::int[]) AS l(id) JOIN job ON job.list_id = l.id
    {{where}} {LIKE_ASKED} LIMIT {MOST_COUNTED + 1}) j
"""
COUNT_NUMBERED = COUNT.format(where=NUMBERED_ONLY)
COUNT_NAMED = COUNT.format(where="AND job.name ILIKE %(name)s")

CALLS = """
SELECT c.job_id, c.n AS calls, key.label AS key FROM (
    SELECT job_id, count(*) AS n, (array_agg(key_id ORDER BY sent_at DESC))[1] AS key_id
    FROM call WHERE job_id = ANY (%(jobs)s) AND key_id IS NOT NULL GROUP BY job_id) c
LEFT JOIN key ON key.id = c.key_id
"""

EXAMPLES = """
SELECT j.* FROM unnest(%(lists)s::int[], %(causes)s::text[]) AS g(list_id, cause)
CROSS JOIN LATERAL (
    SELECT id, list_id, company, name, cause, message, attempts, ended_at FROM job
    WHERE list_id = g.list_id AND status = 'failed' AND cause = g.cause ORDER BY id DESC LIMIT %(most)s) j
"""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which jobs. `number`: what the company's number begins with; `name`: what its name has in it."""

    status: str | None = None
    outcome: str | None = None
    cause: str | None = None
    number: str | None = None
    name: str | None = None

    @property
    def is_search(self) -> bool:
        return self.number is not None or self.name is not None


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as a row of a table; `list` is the name of its list."""

    id: int
    list_id: int
    company: str
    name: str | None
    status: str
    outcome: str | None
    cause: str | None
    message: str | None
    attempts: int
    run_at: datetime
    claimed_at: datetime | None
    ended_at: datetime | None
    list: str
    service: str


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, and after which key the next page begins; None: this is the last."""

    rows: Sequence[JobRow]
    after: tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class JobCalls:
    """How many calls a job made, and the key of the last one."""

    job_id: int
    calls: int
    key: str | None


@dataclass(frozen=True, slots=True)
class Example:
    """A failed job as an example of others."""

    id: int
    list_id: int
    company: str
    name: str | None
    cause: str
    message: str | None
    attempts: int
    ended_at: datetime


def way(wanted: Wanted) -> tuple[str, tuple[tuple[str, type], ...]]:
    """The statement that pages through these jobs, and the columns of its key."""
    company = (("company", str),)
    if wanted.number is not None:
        return NUMBERED, company
    if wanted.name is not None:
        return NAMED, company
    match wanted.status:
        case Status.PENDING:
            return PENDING, (("run_at", datetime), ("id", int))
        case Status.IN_PROGRESS:
            return HELD, (("id", int),)
        case Status.FAILED if wanted.cause is not None:
            return FAILED_FOR, (("id", int),)
        case Status.FAILED:
            return FAILED, (("cause", str), ("id", int))
    return BY_COMPANY, company


def page(
    conn: psycopg.Connection, wanted: Wanted, lists: Mapping[int, int], after: tuple[Any, ...] | None = None
) -> Page:
    """The rows after a key, which begins with a list's id. `lists`: how many such jobs are in which list.

    Newest list first. For a search the numbers of jobs may be too large, never too small.
    """
    statement, key = way(wanted)
    params = {**_params(wanted), "rows": PAGE_ROWS + 1, "after_list": after[0] if after else 0}
    params["lists"] = _needed(lists, after, wanted.is_search)
    params |= {f"after_{name}": after[i + 1] if after else None for i, (name, _) in enumerate(key)}
    with conn.cursor(row_factory=class_row(JobRow)) as cursor:
        rows = cursor.execute(statement, params).fetchall() if params["lists"] else []
    if len(rows) <= PAGE_ROWS:
        return Page(rows, None)
    last = rows[PAGE_ROWS - 1]
    return Page(rows[:PAGE_ROWS], (last.list_id, *(getattr(last, name) for name, _ in key)))


def count(conn: psycopg.Connection, wanted: Wanted, lists: Sequence[int]) -> int:
    """How many jobs a search finds; `MOST_COUNTED` + 1 stands for more."""
    statement = COUNT_NUMBERED if wanted.number is not None else COUNT_NAMED
    row = conn.execute(statement, {**_params(wanted), "lists": list(lists)}).fetchone()
    return int(row[0]) if row else 0


def calls(conn: psycopg.Connection, jobs: Sequence[int]) -> dict[int, JobCalls]:
    """The calls of these jobs; those that made none are left out."""
    with conn.cursor(row_factory=class_row(JobCalls)) as cursor:
        return {one.job_id: one for one in cursor.execute(CALLS, {"jobs": list(jobs)})}


def examples(
    conn: psycopg.Connection, groups: Sequence[tuple[int, str]], most: int
) -> dict[tuple[int, str], list[Example]]:
    """The latest failed jobs of each list and cause, at most so many."""
    found: dict[tuple[int, str], list[Example]] = {group: [] for group in groups}
    asked = {"lists": [g[0] for g in groups], "causes": [g[1] for g in groups], "most": most}
    with conn.cursor(row_factory=class_row(Example)) as cursor:
        for one in cursor.execute(EXAMPLES, asked):
            found[one.list_id, one.cause].append(one)
    return found


def _params(wanted: Wanted) -> dict[str, Any]:
    name = None
    if wanted.name is not None:
        name = "%" + wanted.name.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_") + "%"
    return {
        "status": wanted.status,
        "outcome": wanted.outcome,
        "cause": wanted.cause,
        "number": wanted.number,
        "name": name,
        "after_all": AFTER_ALL,
    }


def _needed(lists: Mapping[int, int], after: tuple[Any, ...] | None, all_of_them: bool) -> list[int]:
    """The lists that a page can reach: the one it begins in, and of the others enough to fill it."""
    there = sorted((one for one in lists if after is None or one <= after[0]), reverse=True)
    if all_of_them:
        return there
    begun = [one for one in there if after is not None and one == after[0]]
    seen = 0

    def is_needed(one: int) -> bool:
        nonlocal seen
        was, seen = seen, seen + lists[one]
        return was <= PAGE_ROWS

    return begun + list(takewhile(is_needed, islice(there, len(begun), None)))
