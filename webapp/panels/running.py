"""The dashboard's panels of what runs: lists, jobs over time, workers, keys."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from store import tally
from store.lists import ListSeen
from store.tally import Minute
from webapp.forecast import Due, Held, Minutes, Pace, Ready, due, held_back, pace, ready
from webapp.needs import title_of
from webapp.panels.panel import Args
from webapp.questions import Counts, Look

LATE_SECONDS = 6.0


@dataclass(frozen=True, slots=True)
class Row:
    """A list as a page shows it."""

    of: ListSeen
    service: str
    jobs: Counts
    pace: Pace
    ready: Ready | None
    held: Held | None
    due: Due | None


@dataclass(frozen=True, slots=True)
class Range:
    """How far back a chart looks, and how much of it one point stands for."""

    name: str
    words: str
    long: str
    bucket: timedelta
    buckets: int


RANGES = (
    Range("1h", "1 h", "hour", timedelta(minutes=1), 60),
    Range("24h", "24 h", "24 hours", timedelta(minutes=10), 144),
    Range("7d", "7 d", "7 days", timedelta(hours=1), 168),
)


def lists(look: Look, _args: Args) -> Mapping[str, Any]:
    """How far is each list, when will it be ready, what holds it back?"""
    rows = _rows(look)
    shown = sum(1 for row in rows if row.of.state in ("active", "paused"))
    there = look.list_states.get("active", 0) + look.list_states.get("paused", 0)
    return {"rows": rows, "running": look.list_states.get("active", 0), "more": there - shown}


def last_ready(look: Look) -> datetime | None:
    """By when every running list will be ready. None: none runs, or one of them cannot be told."""
    running = look.list_states.get("active", 0)
    found = [row.ready for row in _rows(look) if row.of.state == "active"]
    latest = [when.latest for when in found if when is not None]
    return max(latest, default=None) if len(latest) == running else None


def _rows(look: Look) -> list[Row]:
    return [row(look, one, look.by_list[one.id], look.minutes[one.id]) for one in look.lists]


def row(look: Look, one: ListSeen, jobs: Counts, minutes: Minutes) -> Row:
    """A list with its pace, when it will be ready, and what holds it back."""
    speed, crew = pace(minutes, look.as_of), look.crew(one.service)
    held = held_back(one.state, jobs.left, crew, start_at=one.start_at, now=look.as_of)
    moves = one.state == "active" and crew.can_move and (held is None or held.until is None)
    when = ready(jobs.left, jobs.ended, speed, look.as_of) if moves else None
    late = due(one.due_by, jobs.left, when, look.as_of)
    return Row(one, title_of(one.service), jobs, speed, when, held, late)


def chart(look: Look, args: Args) -> Mapping[str, Any]:
    """How many jobs were done, and how many failed, over time?

    Whole buckets only: one that has just begun would look like a fall.
    """
    chosen = next((one for one in RANGES if one.name == args.get("range")), RANGES[0])
    found = {one.minute: one for one in tally.per_bucket(look.conn, chosen.bucket, chosen.buckets)}
    points = [found.get(at, Minute(at, 0, 0)) for at in _buckets(look.as_of, chosen)]
    series = [
        [int(one.minute.timestamp()) for one in points],
        [one.done for one in points],
        [one.failed for one in points],
    ]
    return {
        "ranges": RANGES,
        "chosen": chosen,
        "points": [one for one in points if one.done or one.failed],
        "series": json.dumps(series, separators=(",", ":")),
        "done": sum(series[1]),
        "failed": sum(series[2]),
        "minutes": chosen.bucket.total_seconds() / 60,
    }


def _buckets(now: datetime, chosen: Range) -> list[datetime]:
    step = int(chosen.bucket.total_seconds())
    end = int(now.timestamp()) // step * step
    return [datetime.fromtimestamp(end - step * n, now.tzinfo) for n in range(chosen.buckets, 0, -1)]


def workers(look: Look, _args: Args) -> Mapping[str, Any]:
    """Who works, and is everybody heard?"""
    alive = [one for one in look.workers if one.is_alive]
    lost = [one for one in look.workers if one.state == "lost"]
    late = [one for one in alive if (look.as_of - one.seen_at).total_seconds() > LATE_SECONDS]
    return {"alive": alive, "lost": lost, "late": {one.id for one in late}, "late_seconds": LATE_SECONDS}


def keys(look: Look, _args: Args) -> Mapping[str, Any]:
    """Do limits hold us back?"""
    in_use = sum(1 for one in look.keys if one.is_usable)
    return {
        "keys": look.keys,
        "services": look.held_services,
        "calls": look.calls,
        "in_use": in_use,
        "title_of": title_of,
    }
