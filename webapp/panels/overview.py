"""The panels of every page and those at the top of the dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import current_app
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from store.states import Status
from webapp import needs as judged
from webapp.forecast import pace
from webapp.needs import MOST_SHOWN, Severity
from webapp.panels.panel import Args
from webapp.panels.running import last_ready
from webapp.questions import Look

# The bar, in its order. An entry is there once its page is.
BAR = (
    ("dashboard", "Dashboard", "/"),
    ("lists", "Lists", "/lists"),
    ("jobs", "Jobs", "/jobs"),
    ("failures", "Failures", "/failures"),
    ("keys", "Keys", "/keys"),
    ("workers", "Workers", "/workers"),
    ("alerts", "Alerts", "/alerts"),
    ("settings", "Settings", "/settings"),
)


def bar(look: Look, args: Args) -> Mapping[str, Any]:
    """Where one can go, and where a person must act: red counts; failures in grey."""
    here = args.get("page", "").partition(".")[0]
    asks: dict[str, int] = {}
    for need in judged.needs(look):
        if need.severity > Severity.INFO:
            asks[need.part] = asks.get(need.part, 0) + 1
    asks["alerts"] = sum(judged.is_unheard(one, look.as_of) for one in look.alerts)
    asks["failures"] = look.totals.status[Status.FAILED]
    entries = [
        (title, url, name == here, asks.get(name, 0), name == "failures")
        for name, title, url in BAR
        if there_is(url)
    ]
    return {"entries": entries}


def there_is(url: str) -> bool:
    """Whether a page answers at this path."""
    try:
        current_app.url_map.bind("").match(url, method="GET")
    except RequestRedirect:
        return True
    except HTTPException:
        return False
    return True


def verdict(look: Look, _args: Args) -> Mapping[str, Any]:
    """Is all well?"""
    said = judged.verdict(look)
    return {"verdict": said, "ready_by": last_ready(look) if said.tone == "ok" else None}


def counts(look: Look, _args: Args) -> Mapping[str, Any]:
    """How many jobs are how far, and how fast are they?"""
    jobs = look.totals
    running = [one.id for one in look.lists if one.state == "active"]
    paces = [pace(look.minutes[list_id], look.as_of) for list_id in running]
    workers = sum(1 for one in look.workers if one.is_alive)
    calls = sum(one.calls for one in look.calls.values())
    return {
        "jobs": jobs,
        "oldest": look.oldest_due if jobs.status[Status.PENDING] else None,
        "workers": workers,
        "per_minute": sum(one.per_minute for one in paces),
        "calls": calls,
    }


def needs(look: Look, _args: Args) -> Mapping[str, Any]:
    """What must a person do?"""
    found = judged.needs(look)
    return {"needs": found[:MOST_SHOWN], "more": max(len(found) - MOST_SHOWN, 0)}


def first_run(look: Look, _args: Args) -> Mapping[str, Any]:
    """How far somebody is who has just set Sluice up."""
    return {
        "keys": look.keys,
        "lists": sum(look.list_states.values()),
        "workers": sum(1 for one in look.workers if one.is_alive),
    }
