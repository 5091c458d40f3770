"""Rejects: the lines of an uploaded file that are no jobs, kept with why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row

from store.cleaning import text

KEEP = """
INSERT INTO reject (list_id, line, content, reason) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING
"""

SEE = "SELECT line, content, reason FROM reject WHERE list_id = %s ORDER BY line, id LIMIT %s"


@dataclass(frozen=True, slots=True)
class Rejected:
    """A line of the uploaded file that is no job, and why."""

    line: int
    content: str
    reason: str


def keep(conn: psycopg.Connection, list_id: int, rejects: Iterable[Rejected]) -> None:
    """Keep the lines that are no jobs, each once."""
    with conn.cursor() as cursor:
        cursor.executemany(
            KEEP, [(list_id, r.line, text(r.content, 500), text(r.reason, 500)) for r in rejects]
        )


def see(conn: psycopg.Connection, list_id: int, most: int | None = None) -> list[Rejected]:
    """The rejected lines of a list in the order of the file, all or the first so many."""
    with conn.cursor(row_factory=class_row(Rejected)) as cursor:
        return cursor.execute(SEE, (list_id, most)).fetchall()
