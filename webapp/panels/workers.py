"""The panels of workers: all that run or ended within a day, and one of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from werkzeug.exceptions import NotFound

from store.workers import WorkerSeen
from webapp.panels.panel import Args
from webapp.panels.running import LATE_SECONDS
from webapp.questions import Look


def all_workers(look: Look, _args: Args) -> Mapping[str, Any]:
    """Who works, who is late, who ended and how?"""
    ended = [one for one in look.workers if one.ended_at is not None]
    return {
        "running": [
            (one, state_of(look, one), keys_of(look, one)) for one in look.workers if not one.ended_at
        ],
        "ended": sorted(ended, key=lambda one: one.ended_at or look.as_of, reverse=True),
        "waiting": look.totals.status["pending"],
    }


def worker(look: Look, args: Args) -> Mapping[str, Any]:
    """What does this one do, and where?"""
    for one in look.workers:
        if str(one.id) == args.get("worker"):
            return {"worker": one, "state": state_of(look, one), "keys": keys_of(look, one)}
    raise NotFound


def state_of(look: Look, one: WorkerSeen) -> str:
    """Its state as a word of the badges: a living one is late, draining, working or idle."""
    if one.ended_at is not None:
        return one.state
    if (look.as_of - one.seen_at).total_seconds() > LATE_SECONDS:
        return "late" if one.is_alive else "lost"
    return "draining" if one.state == "draining" else "working" if one.held else "idle"


def keys_of(look: Look, one: WorkerSeen) -> Sequence[str]:
    """The labels of the keys that it has used."""
    return [key.label for key in look.keys if key.id in one.keys_in_use]
