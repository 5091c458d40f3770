"""Why the jobs of a list do not move, in one line for a terminal."""

from __future__ import annotations

from datetime import datetime

import psycopg

from store import jobs
from store.lists import ListSeen
from webapp.commands.console import typed
from webapp.forecast import Held, held_back
from webapp.questions import Look, Memory

STOPS = {
    "no worker is running": "no worker is running. Start one: python -m worker",
    "no usable key": "no key of {service} is usable. See why: flask keys list",
    "no key yet": "there is no key of {service}. Add one: flask keys add {service} --label NAME",
}


def why(conn: psycopg.Connection, one: ListSeen, pending: int, in_progress: int) -> str | None:
    """What keeps the list's pending jobs from running. None: none is pending, or they run."""
    if not pending or in_progress:
        return None
    if one.state in ("paused", "cancelled"):
        return f"the list is {one.state}. To go on: flask lists resume {typed(one.name)}"
    look = Look(conn, Memory())
    due = jobs.first_due(conn, one.id)
    if due is not None and due > look.as_of:
        return f"its first job starts at {_clock(due)}"
    held = held_back(one.state, pending, look.crew(one.service), start_at=one.start_at, now=look.as_of)
    return _words(held, one.service) if held else None


def _words(held: Held, service: str) -> str | None:
    if held.until is not None:
        return f"{held.words} {_clock(held.until)}"
    stop = STOPS.get(held.words)
    return stop.format(service=service) if stop else None


def _clock(at: datetime) -> str:
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S}"
