"""Lists: what is asked of which service for a set of companies, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from textwrap import shorten

import psycopg
from psycopg.rows import class_row

from store import jobs
from store.cleaning import to_json

CREATE = """
WITH known AS (INSERT INTO service (name) VALUES (%(service)s) ON CONFLICT DO NOTHING)
INSERT INTO list (name, service, options, fields, types, required, priority,
                  start_at, due_by, reuse_seconds, keep_days)
VALUES (%(name)s, %(service)s, %(options)s::jsonb, %(fields)s, %(types)s::jsonb, %(required)s, %(priority)s,
        coalesce(%(start_at)s, now()), %(due_by)s, %(reuse_seconds)s, %(keep_days)s)
ON CONFLICT (name) DO NOTHING RETURNING id
"""

# Those bound to a key are its tests: see `store.key_tests`.
OF_PEOPLE = "key_id IS NULL"

COLUMNS = """
id, name, service, options, fields, types, required, state, priority, created_at, finished_at,
start_at, due_by, reuse_seconds, keep_days, refresh_every, refresh_at,
(SELECT count(*) FROM reject r WHERE r.list_id = list.id) AS rejects"""

SEE = f"""
SELECT {COLUMNS} FROM list WHERE {OF_PEOPLE} AND (%(name)s::text IS NULL OR name = %(name)s) ORDER BY id
"""

ONE = f"SELECT {COLUMNS} FROM list WHERE id = %(id)s"

# Nothing of it has ever run, and nothing can be running while it is paused.
UNTOUCHED = """
id = %(id)s AND state = 'paused'
    AND NOT EXISTS (SELECT FROM job WHERE list_id = %(id)s AND (status <> 'pending' OR claim_no > 0))
"""

DISCARD = f"DELETE FROM list WHERE {UNTOUCHED}"

CHOOSE = f"""
UPDATE list SET fields = %(fields)s, types = %(types)s::jsonb, required = %(required)s WHERE {UNTOUCHED}
"""

# Of a list `l`: nothing of it is left to run. Held jobs are read by their own index and not joined: for
# a list that was imported just now and not yet analyzed, a join would read the whole of it.
HAS_ENDED = """
    l.state = 'active'
    AND EXISTS (SELECT FROM job j WHERE j.list_id = l.id)
    AND NOT EXISTS (SELECT FROM job j WHERE j.list_id = l.id AND j.status = 'pending')
    AND l.id <> ALL (ARRAY(SELECT list_id FROM job WHERE status = 'in_progress'))"""

ENDED = f"SELECT id FROM list l WHERE {HAS_ENDED} FOR UPDATE SKIP LOCKED"

FINISH = f"""
UPDATE list l SET state = 'finished', finished_at = clock_timestamp()
WHERE id = ANY (%(ids)s) AND {HAS_ENDED} RETURNING id
"""


WORDS = {"service": "service", "options": "options", "fields": "fields"} | {
    "types": "types of fields",
    "required": "required fields",
}


class NameTaken(ValueError):
    """There is a list of this name with another service, other fields or other options."""


@dataclass(frozen=True, slots=True)
class NewList:
    """What a list is to be. `fields` in column order; `required` names those that make a job complete.

    `types`: of fields whose type or unit the list states itself, such as `money GBP` (`services.typed`).
    Nothing of it runs before `start_at`; it is to be ready by `due_by`. Answers that another job got within
    `reuse_seconds` may be used; its own are kept for `keep_days`.
    """

    name: str
    service: str
    fields: Sequence[str]
    required: Sequence[str] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    priority: int = 0
    start_at: datetime | None = None
    due_by: datetime | None = None
    reuse_seconds: int = 0
    keep_days: int = 365
    types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ListSeen:
    """A list as people see it; its counts are in `store.tally`."""

    id: int
    name: str
    service: str
    options: dict[str, str]
    fields: list[str]
    types: dict[str, str]
    required: list[str]
    state: str
    priority: int
    created_at: datetime
    finished_at: datetime | None
    start_at: datetime
    due_by: datetime | None
    reuse_seconds: int
    keep_days: int
    refresh_every: str | None
    refresh_at: datetime | None
    rejects: int


def create(conn: psycopg.Connection, new: NewList) -> int:
    """The list of this name, made when there is none; returns its id. Raises `NameTaken`."""
    row = conn.execute(
        CREATE,
        {
            "name": new.name,
            "service": new.service,
            "options": to_json(dict(new.options)),
            "fields": list(new.fields),
            "types": to_json(dict(new.types)),
            "required": list(new.required),
            "priority": new.priority,
            "start_at": new.start_at,
            "due_by": new.due_by,
            "reuse_seconds": new.reuse_seconds,
            "keep_days": new.keep_days,
        },
    ).fetchone()
    if row is not None:
        return int(row[0])
    there = see(conn, new.name)[0]
    asked = {
        "service": new.service,
        "options": dict(new.options),
        "fields": list(new.fields),
        "types": dict(new.types),
        "required": list(new.required),
    }
    for what, wanted in asked.items():
        if getattr(there, what) != wanted:
            raise NameTaken(
                f"There is a list “{new.name}” already, of other {WORDS[what]}: "
                f"{_listed(getattr(there, what))}. Give the same {WORDS[what]}, or choose another name."
            )
    return there.id


def see(conn: psycopg.Connection, name: str | None = None) -> list[ListSeen]:
    """All lists in the order they were made, or the one of this name."""
    with conn.cursor(row_factory=class_row(ListSeen)) as cursor:
        return cursor.execute(SEE, {"name": name}).fetchall()


def one(conn: psycopg.Connection, list_id: int) -> ListSeen | None:
    """The list with this id, or None."""
    with conn.cursor(row_factory=class_row(ListSeen)) as cursor:
        return cursor.execute(ONE, {"id": list_id}).fetchone()


def finish(conn: psycopg.Connection) -> list[int]:
    """Close active lists that have nothing left to run; returns their ids.

    Two statements: the second looks again with the rows locked, because jobs may have joined meanwhile.
    """
    with conn.transaction():
        ids = [row[0] for row in conn.execute(ENDED)]
        return [row[0] for row in conn.execute(FINISH, {"ids": ids})] if ids else []


def pause(conn: psycopg.Connection, list_id: int) -> bool:
    """Claim nothing more of the list. False: it was not active."""
    return _change(conn, list_id, "paused", None, ("active",))


def resume(conn: psycopg.Connection, list_id: int) -> bool:
    """Go on with a paused or cancelled list, cancelled jobs too. False: it was neither."""
    jobs.revive(conn, list_id)  # first: an active list without pending jobs may be finished at any moment
    with conn.transaction():
        if not _change(conn, list_id, "active", None, ("paused", "cancelled")):
            return False
        jobs.revive(
            conn, list_id
        )  # again: running jobs went back, cancelled, until the list's row was locked
    return True


def cancel(conn: psycopg.Connection, list_id: int) -> int | None:
    """Stop the list and take its pending jobs off the queue; returns how many. None: it had ended.

    Running jobs stop at their next call, and are cancelled when their worker gives them back.
    """
    if not _change(conn, list_id, "cancelled", "clock_timestamp()", ("active", "paused")):
        return None
    conn.execute(jobs.STOP)
    return jobs.cancel(conn, list_id)


def prioritise(conn: psycopg.Connection, list_id: int, priority: int) -> bool:
    """Let the list run before those of lower priority. False: it is gone."""
    statement = "UPDATE list SET priority = %s WHERE id = %s"
    return conn.execute(statement, (priority, list_id)).rowcount == 1


def schedule(
    conn: psycopg.Connection,
    list_id: int,
    *,
    start_at: datetime | None,
    due_by: datetime | None,
    reuse_seconds: int,
) -> bool:
    """Let the list start no sooner than `start_at` (None: now) and be ready by `due_by`. False: it is gone.

    Answers of other jobs that are no older than `reuse_seconds` are used.
    """
    statement = (
        "UPDATE list SET start_at = coalesce(%s, now()), due_by = %s, reuse_seconds = %s WHERE id = %s"
    )
    return conn.execute(statement, (start_at, due_by, reuse_seconds, list_id)).rowcount == 1


def choose(
    conn: psycopg.Connection,
    list_id: int,
    fields: Sequence[str],
    types: Mapping[str, str],
    required: Sequence[str],
) -> bool:
    """Ask for these fields. False: the list is gone, not paused, or some job of it has run."""
    chosen = {"fields": list(fields), "types": to_json(dict(types)), "required": list(required)}
    return conn.execute(CHOOSE, chosen | {"id": list_id}).rowcount == 1


def discard(conn: psycopg.Connection, list_id: int) -> bool:
    """Remove a paused list of which no job has ever run. False: it is no such list."""
    return conn.execute(DISCARD, {"id": list_id}).rowcount == 1


def delete(conn: psycopg.Connection, list_id: int) -> None:
    """Remove the list with its jobs, results, rejects and kept answers, for good."""
    with conn.transaction():
        conn.execute("DELETE FROM answer WHERE job_id IN (SELECT id FROM job WHERE list_id = %s)", (list_id,))
        conn.execute("DELETE FROM list WHERE id = %s", (list_id,))


def _listed(value: str | list[str] | dict[str, str]) -> str:
    match value:
        case dict():
            return ", ".join(f"{name}={setting}" for name, setting in value.items()) or "none"
        case list():
            return shorten(", ".join(value), 200, placeholder=" …")
        case str():
            return value


def _change(
    conn: psycopg.Connection, list_id: int, state: str, finished_at: str | None, before: tuple[str, ...]
) -> bool:
    statement = f"""
        UPDATE list SET state = %s, finished_at = {finished_at or "NULL"} WHERE id = %s AND state = ANY (%s)
    """
    return conn.execute(statement, (state, list_id, list(before))).rowcount == 1
