"""A new list in two steps: a file is read and kept as a paused list, then looked at and started."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from flask import Blueprint, current_app, redirect, request
from flask.typing import ResponseReturnValue
from flask_wtf import FlaskForm
from flask_wtf.file import FileField, FileRequired
from itsdangerous import BadSignature, URLSafeSerializer
from werkzeug.datastructures import MultiDict
from wtforms import (
    DateTimeLocalField,
    IntegerField,
    SelectChoice,
    SelectField,
    StringField,
    ValidationError,
)
from wtforms.form import BaseForm
from wtforms.validators import InputRequired, NumberRange, Optional

from services.company_lists import CompanyList, UnusableFile
from services.registry import SERVICES
from store import lists, rejects, schedules
from store.cleaning import Unstorable
from store.lists import ListSeen, NameTaken
from store.people import Role
from webapp import field_choice, names, option_fields, timing, uploads
from webapp.access import needs
from webapp.answers import go_to
from webapp.database import page_connection
from webapp.display import exact
from webapp.formats import counted
from webapp.notices import done, refused
from webapp.pages.list_refresh import CHOICES as REFRESH
from webapp.pages.lists import ONE, found
from webapp.panels.lists import is_draft
from webapp.panels.polling import render_page
from webapp.uploads import Fields, NotUsable, how_read, what_became

blueprint = Blueprint("list_uploads", __name__)

# 50 MB of file, as the documentation's proxy allows for the whole request.
LARGEST_UPLOAD_BYTES = 50 * 1024 * 1024
REJECTS_SHOWN = 20
LONGEST_FILE_NAME = 60
# Of folders on the server's disk lists are made there: flask lists import.
CHOICES = [SelectChoice(one.name, one.title) for one in SERVICES.values() if one.needs_key]


class NewList(FlaskForm):  # type: ignore[misc]
    name = StringField("Name", filters=[lambda text: (text or "").strip()])
    service = SelectField("Service", choices=CHOICES)
    file = FileField("File", [FileRequired("Choose a file.")])

    def validate_name(self, field: StringField) -> None:
        if wrong := names.problem("name", field.data):
            raise ValidationError(wrong)


class Start(FlaskForm):  # type: ignore[misc]
    priority = IntegerField(
        "Priority",
        [
            InputRequired("Give a whole number."),
            NumberRange(-1000, 1000, "Give a number from -1,000 to 1,000."),
        ],
    )
    start_at = DateTimeLocalField(
        "Start at (UTC)", [Optional()], format=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"]
    )
    due_by = DateTimeLocalField("Due by (UTC)", [Optional()], format=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"])
    reuse_days = IntegerField(
        "Reuse answers (days)",
        [
            Optional(),
            NumberRange(0, timing.LONGEST_DAYS, f"Give a number from 0 to {timing.LONGEST_DAYS:,}."),
        ],
        default=0,
    )

    refresh_every = SelectField("Refresh", choices=REFRESH, default="")

    def validate_due_by(self, _field: DateTimeLocalField) -> None:
        if wrong := timing.problem(self.moment("start_at"), self.moment("due_by"), datetime.now(UTC)):
            raise ValidationError(wrong)

    def moment(self, name: str) -> datetime | None:
        """What a field of this form says, in UTC; None: nothing."""
        written: datetime | None = self[name].data
        return written.replace(tzinfo=UTC) if written else None


@blueprint.url_value_preprocessor
def _allow_files(endpoint: str | None, _values: dict[str, Any] | None) -> None:
    """Before anything reads the request's body: the check of the form's token does."""
    if endpoint == "list_uploads.upload" and request.method == "POST":
        request.max_content_length = LARGEST_UPLOAD_BYTES


@blueprint.get("/lists/new")
@needs(Role.OPERATOR)
def new() -> str:
    """The form: file, name, service with its options."""
    return render_page("lists/new.html", "lists.new", form=NewList(), options=_options(None))


@blueprint.post("/lists/new")
@needs(Role.OPERATOR)
def upload() -> ResponseReturnValue:
    """Read the file and keep the list, paused; a file that cannot be used is refused and nothing is kept."""
    form, options = NewList(), _options(request.form)
    service = form.service.data
    asked = option_fields.asked(SERVICES[service], options[service]) if service in options else None
    if not form.validate() or asked is None:
        return _form_again(form, options)
    filename = PurePath(form.file.data.filename.replace("\\", "/")).name[-LONGEST_FILE_NAME:]
    try:
        wanted = uploads.plan(form.name.data, service, asked, (), 0)
        companies = uploads.read(form.file.data.read(), filename, service)
        with page_connection() as conn:
            one = uploads.store_paused(conn, wanted, companies)
    except NameTaken as error:
        form.name.errors = [str(error)]
        return _form_again(form, options)
    except (NotUsable, UnusableFile, Unstorable) as error:
        form.file.errors = [str(error)]
        return _form_again(form, options)
    return go_to(f"/lists/{one.id}/start?read={_signed(one, filename, companies)}")


def _options(form: MultiDict[str, str] | None) -> dict[str, BaseForm]:
    """The options of every service that can be chosen, by its name."""
    return {name: option_fields.of(SERVICES[name], form) for name, *_ in CHOICES}


def _form_again(form: NewList, options: dict[str, BaseForm]) -> ResponseReturnValue:
    return render_page("lists/new.html", "lists.new", form=form, options=options), 422


@blueprint.get(ONE + "/start")
@needs(Role.OPERATOR)
def check(list_id: int) -> ResponseReturnValue:
    """What became of the file, before anything runs. A list that has been started has no such page."""
    one, jobs = found(list_id)
    if not is_draft(one, jobs):
        return redirect(f"/lists/{list_id}", 303)
    return _check_page(one, jobs.total, _as_it_is(one), field_choice.offered(one))


@blueprint.post(ONE + "/start")
@needs(Role.OPERATOR)
def start(list_id: int) -> ResponseReturnValue:
    """Set the fields and the priority, and start unless it is to wait."""
    form = Start()
    one, jobs = found(list_id)
    if not is_draft(one, jobs):
        return refused(f"This list has been started already; it is {one.state}.")
    asked, wrong = _fields_asked(one)
    if not form.validate() or wrong:
        choices = field_choice.again(field_choice.offered(one), request.form)
        return _check_page(one, jobs.total, form, choices, wrong), 422
    waits = request.form.get("when") == "later"
    with page_connection() as conn, conn.transaction():
        if not lists.choose(conn, list_id, asked.names, asked.types, asked.required):
            return refused("This list has been started meanwhile; nothing was changed.")
        lists.prioritise(conn, list_id, form.priority.data)
        lists.schedule(
            conn,
            list_id,
            start_at=form.moment("start_at"),
            due_by=form.moment("due_by"),
            reuse_seconds=(form.reuse_days.data or 0) * timing.UNITS["d"],
        )
        schedules.schedule(conn, list_id, form.refresh_every.data or None)
        if not waits:
            lists.resume(conn, list_id)
    starts = form.moment("start_at")
    if waits:
        said = "Saved. It waits until it is started."
    elif starts and starts > datetime.now(UTC):
        said = f"Set to start at {exact(starts)}. {counted(jobs.total, 'job')} will run."
    else:
        said = f"Started. {counted(jobs.total, 'job')} can run."
    return done(said, f"/lists/{list_id}")


@blueprint.post(ONE + "/discard")
@needs(Role.OPERATOR)
def discard(list_id: int) -> ResponseReturnValue:
    """Delete a list that was never started."""
    one, _ = found(list_id)
    with page_connection() as conn:
        is_gone = lists.discard(conn, list_id)
    if not is_gone:
        return refused("Only a list that was never started can be deleted here.")
    return done(f"“{one.name}” was deleted. Nothing of it had run.", "/lists")


def _as_it_is(one: ListSeen) -> Start:
    """The form with what the list has."""
    waits = one.start_at > datetime.now(UTC)
    return Start(
        data={
            "priority": one.priority,
            "start_at": one.start_at.astimezone(UTC) if waits else None,
            "due_by": one.due_by.astimezone(UTC) if one.due_by else None,
            "reuse_days": one.reuse_seconds // timing.UNITS["d"],
            "refresh_every": one.refresh_every or "",
        }
    )


def _fields_asked(one: ListSeen) -> tuple[Fields, str]:
    """What the form asks for, and what is wrong with it; as the list has it where the form has no fields."""
    as_it_is = Fields(one.fields, one.types, one.required)
    if "fields" not in request.form:
        return as_it_is, ""
    try:
        return field_choice.chosen(one, request.form), ""
    except NotUsable as error:
        return as_it_is, str(error)


def _check_page(
    one: ListSeen, companies: int, form: Start, choices: list[field_choice.Choice], wrong: str = ""
) -> str:
    with page_connection() as conn:
        lines = rejects.see(conn, one.id, REJECTS_SHOWN)
    values: dict[str, Any] = {
        "one": one,
        "companies": companies,
        "rejects": lines,
        "form": form,
        "choices": choices,
        "wrong": wrong,
        "read": _read_back(one),
    }
    return render_page("lists/start.html", "lists.start", **values)


def _signer() -> URLSafeSerializer:
    return URLSafeSerializer(current_app.secret_key or "", salt="how a file was read")


def _signed(one: ListSeen, filename: str, companies: CompanyList) -> str:
    """How the file was read, for the URL of the next page: it is told once more whenever that is loaded."""
    told = [one.id, filename, how_read(companies), what_became(companies)]
    text = _signer().dumps(told)
    return text if isinstance(text, str) else text.decode()


def _read_back(one: ListSeen) -> list[str] | None:
    try:
        list_id, *told = _signer().loads(request.args.get("read", ""))
    except BadSignature:
        return None
    return told if list_id == one.id else None
