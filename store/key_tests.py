"""Tests of keys: each key's own list of one job, which only this key may serve.

A worker runs it before everything else, under a key that was rejected or exhausted too: its success takes
the key into use again. These lists are no list to people: whoever counts or shows lists leaves them out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import psycopg
from psycopg.rows import class_row

from store import jobs
from store.jobs import NewJob

# One try: a test that fails has said what it was asked. Of two who order a key's first test at once, the
# second waits here and then finds the job of the first.
MAKE_LIST = """
INSERT INTO list (name, service, fields, key_id, max_attempts, max_faults, max_losses, run_seconds, keep_days)
SELECT 'test of key ' || id || ' ' || gen_random_uuid(), service, ARRAY['answer'], id, 1, 1, 2, 60, 7
FROM key WHERE id = %s
ON CONFLICT (key_id) WHERE key_id IS NOT NULL DO NOTHING
"""

LIST_IF_IN_USE = """
SELECT l.id, (SELECT min(j.id) FROM job j WHERE j.list_id = l.id)
FROM list l JOIN key k ON k.id = l.key_id WHERE k.id = %s AND k.state <> 'disabled'
"""

LAST = """
SELECT l.key_id, j.id AS job_id, j.status, j.cause, j.message, coalesce(j.ended_at, j.run_at) AS at
FROM list l JOIN job j ON j.list_id = l.id WHERE l.key_id IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class TestSeen:
    """The last test of a key: when it ended, or since when it waits. `cause` and `message`: why it failed."""

    __test__ = False  # nothing for pytest

    key_id: int
    job_id: int
    status: str
    cause: str | None
    message: str | None
    at: datetime

    @property
    def is_under_way(self) -> bool:
        return self.status in ("pending", "in_progress")


def order(conn: psycopg.Connection, key_id: int, probe: str) -> bool:
    """Let a worker ask for the company `probe` under this key. False: disabled, or a test is under way."""
    with conn.transaction():
        conn.execute(MAKE_LIST, (key_id,))
        row = conn.execute(LIST_IF_IN_USE, (key_id,)).fetchone()
        if row is None:
            return False
        list_id, job_id = row
        if job_id is None:
            return jobs.enqueue(conn, list_id, [NewJob(probe)]) == 1
        return jobs.ask_again(conn, job_id)


def last(conn: psycopg.Connection) -> dict[int, TestSeen]:
    """The last test of every key that was ever tested, by the key's id."""
    with conn.cursor(row_factory=class_row(TestSeen)) as cursor:
        return {one.key_id: one for one in cursor.execute(LAST)}
