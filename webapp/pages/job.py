"""One job: what happened, its fields with their sources, raw answers; retry and fresh retry."""

from __future__ import annotations

from flask import Blueprint, Response, abort, flash, request
from flask.typing import ResponseReturnValue

from store import answers, job_details, jobs
from store.job_details import JobSeen
from store.people import Role
from webapp.access import needs
from webapp.answers import go_to
from webapp.database import page_connection
from webapp.formats import size
from webapp.panels.polling import render_page

blueprint = Blueprint("job", __name__)

ONE = "/jobs/<int(max=9223372036854775807):job_id>"
PANELS_OF_JOB = ("job", "job_story", "job_fields", "job_answers")
MOST_SHOWN_BYTES = 500_000


@blueprint.get(ONE)
def show(job_id: int) -> ResponseReturnValue:
    """The job; polled only while it can still change by itself."""
    one = _found(job_id)
    moves = one.status in ("pending", "in_progress")
    args = {"job": str(job_id), "fields": request.args.get("fields", "")}
    page = "jobs.moving" if moves else "jobs.ended"
    return render_page("job/page.html", page, args, still=() if moves else PANELS_OF_JOB, job=one)


@blueprint.get(ONE + "/answers/<int(max=32767):n>")
def answer(job_id: int, n: int) -> ResponseReturnValue:
    """A kept answer as plain text, cut when it is long; with `?download` the whole of it as a file."""
    as_file = "download" in request.args
    with page_connection() as conn:
        body = answers.body(conn, job_id, n, None if as_file else MOST_SHOWN_BYTES + 1)
    if body is None:
        abort(404)
    if as_file:
        headers = {"Content-Disposition": f'attachment; filename="job-{job_id}-answer-{n}"'}
        return Response(body, mimetype="application/octet-stream", headers=headers)
    text = body[:MOST_SHOWN_BYTES].decode("utf-8", "replace")
    if len(body) > MOST_SHOWN_BYTES:
        text += f"\n\n… cut after {size(MOST_SHOWN_BYTES)}; download it for the rest."
    return Response(text, mimetype="text/plain")


@blueprint.post(ONE + "/retry")
@needs(Role.OPERATOR)
def retry(job_id: int) -> ResponseReturnValue:
    """Send a failed job back; its kept answers are used again."""
    one = _found(job_id)
    with page_connection() as conn:
        moved = jobs.retry_one(conn, job_id)
    flash(
        _sent_back(one) if moved else f"Nothing was changed: only a failed job can be retried.{_now(job_id)}"
    )
    return go_to(f"/jobs/{job_id}")


@blueprint.post(ONE + "/ask-again")
@needs(Role.OPERATOR)
def ask_again(job_id: int) -> ResponseReturnValue:
    """Send an ended job back and ask the service for everything anew."""
    one = _found(job_id)
    with page_connection() as conn:
        moved = jobs.ask_again(conn, job_id)
    refusal = f"Nothing was changed: only a job that has ended can be asked for anew.{_now(job_id)}"
    flash(f"{_sent_back(one)} The service will be asked again." if moved else refusal)
    return go_to(f"/jobs/{job_id}")


def _sent_back(one: JobSeen) -> str:
    waits = f" It runs when its list is resumed: that is {one.list_state}."
    return "Sent back." + (waits if one.list_state in ("paused", "cancelled") else "")


def _now(job_id: int) -> str:
    return f" This one is {_found(job_id).status.replace('_', ' ')}."


def _found(job_id: int) -> JobSeen:
    with page_connection() as conn:
        one = job_details.see(conn, job_id)
    if one is None:
        abort(404)
    return one
