"""What pages ask of all lists at once: which to show, what they are called, how many are in which state."""

from __future__ import annotations

from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row

from store.lists import COLUMNS, OF_PEOPLE, ListSeen

LATEST = f"""
(SELECT {COLUMNS} FROM list WHERE {OF_PEOPLE} AND state IN ('active', 'paused')
 ORDER BY state, priority DESC, name LIMIT %(open)s)
UNION ALL
(SELECT {COLUMNS} FROM list WHERE {OF_PEOPLE} AND state IN ('finished', 'cancelled')
 ORDER BY finished_at DESC, id LIMIT %(ended)s)
"""


@dataclass(frozen=True, slots=True)
class Named:
    """What a list is called, for choices and links."""

    id: int
    name: str
    service: str
    state: str


def named(conn: psycopg.Connection) -> list[Named]:
    """The names of all lists, in their order."""
    with conn.cursor(row_factory=class_row(Named)) as cursor:
        return cursor.execute("SELECT id, name, service, state FROM list ORDER BY name").fetchall()


def latest(conn: psycopg.Connection, open_most: int, ended_most: int) -> list[ListSeen]:
    """Active lists by priority and name, paused ones, then the last ended: at most so many of each kind."""
    with conn.cursor(row_factory=class_row(ListSeen)) as cursor:
        return cursor.execute(LATEST, {"open": open_most, "ended": ended_most}).fetchall()


def states(conn: psycopg.Connection) -> dict[str, int]:
    """How many lists are in which state; states without a list are left out."""
    return dict(conn.execute(f"SELECT state, count(*) FROM list WHERE {OF_PEOPLE} GROUP BY state").fetchall())


def waiting(conn: psycopg.Connection) -> set[str]:
    """The services of active lists."""
    return {
        row[0]
        for row in conn.execute(f"SELECT DISTINCT service FROM list WHERE {OF_PEOPLE} AND state = 'active'")
    }
