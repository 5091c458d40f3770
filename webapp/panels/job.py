"""The panels of one job: how it stands and what happened, its fields, its kept answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from werkzeug.exceptions import NotFound

from services.causes import CAUSES
from store import answers, calls, job_details
from store.calls import REUSED
from store.job_details import JobSeen
from webapp import fields as shown
from webapp.panels.panel import Args, id_of
from webapp.questions import Look
from webapp.story import story

MOST_CALLS = 300
FILTERS = {"": "All", "missing": "Missing", "flagged": "Flagged"}


def job(look: Look, args: Args) -> Mapping[str, Any]:
    """How does it stand, and why?"""
    one = _job(look, args)
    if one is None:
        raise NotFound
    values = (one.result or {}).get("values", {})
    missing = sum(name not in values for name in one.fields)
    return {"job": one, "cause": CAUSES.get(one.cause or ""), "missing": missing}


def what_happened(look: Look, args: Args) -> Mapping[str, Any]:
    """What happened to it?"""
    one = _job(look, args)
    if one is None:
        raise NotFound
    sent = calls.of_job(look.conn, one.id, MOST_CALLS + 1)
    kept = sent[-MOST_CALLS:]
    return {
        "job": one,
        "story": story(one.claim_no, kept, all_calls=len(kept) == len(sent)),
        "calls": sum(call.verdict != REUSED for call in kept),
        "reused": sum(call.verdict == REUSED for call in kept),
        "more_calls": len(kept) < len(sent),
        "took_ms": sum(call.took_ms for call in kept),
    }


def fields(look: Look, args: Args) -> Mapping[str, Any]:
    """What came out, and where is it from?"""
    one = _job(look, args)
    if one is None:
        raise NotFound
    rows = shown.rows(one.fields, one.result or {})
    found = {
        "": rows,
        "missing": [row for row in rows if row.is_missing],
        "flagged": [row for row in rows if row.is_flagged],
    }
    chosen = args.get("fields", "")
    chosen = chosen if chosen in FILTERS else ""
    values = (one.result or {}).get("values", {})
    return {
        "job": one,
        "rows": found[chosen],
        "chosen": chosen,
        "filters": [(name, word, len(found[name])) for name, word in FILTERS.items()],
        "has_prior": any(row.prior for row in rows),
        "usual_unit": shown.usual_unit(rows),
        "ends": (values.get("period_end"), values.get("period_end" + shown.PRIOR)),
        "filled": sum(name in values for name in one.fields),
        "notes": (one.result or {}).get("notes", []),
    }


def kept(look: Look, args: Args) -> Mapping[str, Any]:
    """What did the service say?"""
    one = _job(look, args)
    if one is None:
        raise NotFound
    return {"job": one, "answers": answers.see(look.conn, one.id)}


def _job(look: Look, args: Args) -> JobSeen | None:
    job_id = id_of(args.get("job", ""))
    return None if job_id is None else job_details.see(look.conn, job_id)
