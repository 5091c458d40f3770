"""Jobs, chosen by a filter that is in the URL."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, request
from flask.typing import ResponseReturnValue

from services.causes import CAUSES
from store import job_details, jobs, list_pages
from store.people import Role
from store.states import Outcome, Status
from webapp import job_filters
from webapp.access import needs
from webapp.database import page_connection
from webapp.display import look_of
from webapp.notices import done, refused
from webapp.panels.polling import render_page

blueprint = Blueprint("jobs", __name__)


@blueprint.get("/jobs")
def show_all() -> str:
    """The jobs that the query asks for, 50 at a time."""
    asked = job_filters.from_args(request.args)
    args = asked.args | {name: request.args[name] for name in ("cursor",) if request.args.get(name)}
    with page_connection() as conn:
        named = list_pages.named(conn)
    choices: dict[str, Any] = {
        "statuses": [(one.value, look_of(one)[1]) for one in Status],
        "outcomes": [(one.value, look_of(one)[1]) for one in Outcome],
        "causes": [(code, code) for code in CAUSES],
        "lists": [(one.id, one.name) for one in named],
    }
    of = next((one for one in named if one.id == asked.list), None)
    return render_page("jobs/page.html", "jobs", args, asked=asked, of=of, **choices)


@blueprint.post("/jobs/<int(max=9223372036854775807):job_id>/retry-here")
@needs(Role.OPERATOR)
def retry_here(job_id: int) -> ResponseReturnValue:
    """Send one failed job back, and stay among its neighbours."""
    with page_connection() as conn:
        one = job_details.see(conn, job_id)
        is_sent = one is not None and jobs.retry_one(conn, job_id)
    if one is None or not is_sent:
        return refused("Only a failed job can be sent back. This one has changed meanwhile.")
    waits = f" It waits: its list is {one.list_state}." if one.list_state in ("paused", "cancelled") else ""
    return done(f"{one.company} was sent back.{waits}", "/jobs?status=failed")
