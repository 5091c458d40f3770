"""Lists: all of them, one with what steers it."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, abort, redirect, request
from flask.typing import ResponseReturnValue

from store import lists
from store.lists import ListSeen
from store.people import Role
from webapp.access import needs
from webapp.database import page_connection, snapshot
from webapp.field_choice import types
from webapp.formats import count, counted
from webapp.job_filters import number_in
from webapp.notices import done, refused
from webapp.panels.lists import counts_of, is_draft
from webapp.panels.polling import render_page
from webapp.questions import Counts, Look, Memory

blueprint = Blueprint("lists", __name__)

ONE = "/lists/<int(max=2147483647):list_id>"


@blueprint.get("/lists")
def show_all() -> str:
    """Every list."""
    return render_page("lists/page.html", "lists")


@blueprint.get(ONE)
def show(list_id: int) -> str:
    """One list: how far, why not, and what can be done."""
    one, jobs = found(list_id)
    values: dict[str, Any] = {"one": one, "jobs": jobs, "is_draft": is_draft(one, jobs), "types": types(one)}
    return render_page("lists/one.html", "lists.one", {"list": str(list_id)}, **values)


@blueprint.post(ONE + "/pause")
@needs(Role.OPERATOR)
def pause(list_id: int) -> ResponseReturnValue:
    """Start no more jobs; those in progress finish."""
    with page_connection() as conn:
        is_paused = lists.pause(conn, list_id)
    one, jobs = found(list_id)
    if not is_paused:
        return refused(f"Only an active list can be paused. This one is {one.state}.")
    running = jobs.status["in_progress"]
    rest = f" {counted(running, 'job')} in progress will finish." if running else ""
    return done(f"Paused.{rest}", f"/lists/{list_id}")


@blueprint.post(ONE + "/resume")
@needs(Role.OPERATOR)
def resume(list_id: int) -> ResponseReturnValue:
    """Go on with a paused or cancelled list, cancelled jobs too."""
    with page_connection() as conn:
        is_resumed = lists.resume(conn, list_id)
    one, jobs = found(list_id)
    if not is_resumed:
        return refused(f"Only a paused or cancelled list can be resumed. This one is {one.state}.")
    return done(f"Resumed. {counted(jobs.status['pending'], 'job')} can run.", f"/lists/{list_id}")


@blueprint.get(ONE + "/cancel")
@needs(Role.OPERATOR)
def ask_to_cancel(list_id: int) -> ResponseReturnValue:
    """What would be cancelled, counted before anything changes."""
    one, jobs = found(list_id)
    if one.state not in ("active", "paused"):
        return redirect(f"/lists/{list_id}", 303)
    return render_page("lists/cancel.html", "lists.cancel", one=one, jobs=jobs)


@blueprint.post(ONE + "/cancel")
@needs(Role.OPERATOR)
def cancel(list_id: int) -> ResponseReturnValue:
    """Take the pending jobs off the queue and stop running ones at their next call; what is done stays."""
    with page_connection() as conn:
        cancelled = lists.cancel(conn, list_id)
    one, jobs = found(list_id)
    if cancelled is None:
        return refused(f"There is nothing to cancel: this list is {one.state}.")
    said = f"{counted(cancelled, 'job')} {'was' if cancelled == 1 else 'were'} cancelled."
    expected = number_in(request.form.get("counted"))
    if expected is not None and expected > cancelled:
        said += f" {count(expected - cancelled)} had changed meanwhile."
    if running := jobs.status["in_progress"]:
        said += f" {counted(running, 'job')} in progress will stop at the next call."
    return done(said, f"/lists/{list_id}")


def found(list_id: int) -> tuple[ListSeen, Counts]:
    """The list and its jobs, as of one moment; ends the request when there is none."""
    with snapshot() as conn:
        one = lists.one(conn, list_id)
        if one is None:
            abort(404)
        return one, counts_of(Look(conn, Memory()), list_id)
