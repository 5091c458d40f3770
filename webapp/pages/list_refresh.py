"""A list that is asked for anew: now, counted before anything changes, or by schedule."""

from __future__ import annotations

from flask import Blueprint, redirect, request
from flask.typing import ResponseReturnValue
from flask_wtf import FlaskForm
from wtforms import SelectChoice, SelectField

from store import jobs, schedules
from store.people import Role
from webapp.access import needs
from webapp.database import page_connection
from webapp.formats import count, counted
from webapp.job_filters import number_in
from webapp.notices import done, refused
from webapp.pages.lists import ONE, found
from webapp.panels.lists import is_draft
from webapp.panels.polling import render_page

blueprint = Blueprint("list_refresh", __name__)

NEVER = ""
CHOICES = [SelectChoice(NEVER, "never"), *(SelectChoice(one, f"every {one}") for one in schedules.EVERY)]


class Schedule(FlaskForm):  # type: ignore[misc]
    refresh_every = SelectField("Refresh", choices=CHOICES, default=NEVER)


@blueprint.get(ONE + "/refresh")
@needs(Role.OPERATOR)
def ask(list_id: int) -> ResponseReturnValue:
    """What would be asked anew, counted, and when that happens by itself. A draft has no such page."""
    one, known = found(list_id)
    if is_draft(one, known):
        return redirect(f"/lists/{list_id}/start", 303)
    form = Schedule(data={"refresh_every": one.refresh_every or NEVER})
    n = known.status["done"] + known.status["failed"]
    return render_page("lists/refresh.html", "lists.refresh", one=one, jobs=known, n=n, form=form)


@blueprint.post(ONE + "/refresh")
@needs(Role.OPERATOR)
def refresh(list_id: int) -> ResponseReturnValue:
    """Send every job of a finished list back and ask the service anew."""
    one, _ = found(list_id)
    if one.state != "finished":
        return refused(f"Only a finished list can be refreshed. This one is {one.state}.")
    with page_connection() as conn:
        sent_back = jobs.refresh(conn, list_id)
    said = f"{counted(sent_back, 'company', 'companies')} will be asked again."
    expected = number_in(request.form.get("counted"))
    if expected is not None and expected != sent_back:
        said += f" {count(expected)} had been counted."
    return done(said, f"/lists/{list_id}")


@blueprint.post(ONE + "/schedule")
@needs(Role.OPERATOR)
def schedule(list_id: int) -> ResponseReturnValue:
    """Refresh the list every so often from now on, or never."""
    form = Schedule()
    one, _ = found(list_id)
    if not form.validate():
        return refused(f"A list is refreshed every {', '.join(schedules.EVERY)}, or never.")
    with page_connection() as conn:
        schedules.schedule(conn, list_id, form.refresh_every.data or None)
    after, _ = found(list_id)
    if after.refresh_at is None:
        return done("It is refreshed by hand only.", f"/lists/{list_id}")
    return done(f"It is refreshed every {after.refresh_every} from now on.", f"/lists/{one.id}")
