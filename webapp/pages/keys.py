"""Keys: all, a new one, one with what can be done with it. A secret goes in and is never seen again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from flask import Blueprint, abort, current_app, flash, request
from flask.typing import ResponseReturnValue
from flask_wtf import FlaskForm
from wtforms import (
    DateTimeLocalField,
    Field,
    IntegerField,
    PasswordField,
    SelectChoice,
    SelectField,
    StringField,
)
from wtforms.validators import DataRequired, Length, NumberRange, Optional, ValidationError

from services.registry import SERVICES
from store import circuits, key_tests, key_use, keys, limits, steering
from store.accounts import LimitsDiffer
from store.key_use import KeyUse
from store.keys import KeyTaken
from store.limits import BadLimit, Limit
from store.people import Role
from store.settings import Settings
from store.vault import Vault, fingerprint
from webapp.access import needs, person
from webapp.answers import go_to
from webapp.database import page_connection
from webapp.formats import duration
from webapp.key_defaults import above_usual, default_account, usual_limits, wrong_with
from webapp.panels.polling import render_page

blueprint = Blueprint("keys", __name__)

ONE = "/keys/<int(max=2147483647):key_id>"
LONGEST_NAME = 200
LONGEST_REST_MINUTES = 366 * 24 * 60


def stripped(text: str | None) -> str:
    return (text or "").strip()


def printable(_form: FlaskForm, field: Field) -> None:
    if field.data and not field.data.isprintable():
        raise ValidationError("It has characters that cannot be printed.")


def a_name() -> list[object]:
    return [Length(max=LONGEST_NAME, message=f"At most {LONGEST_NAME} characters."), printable]


KEYED = [one for one in SERVICES.values() if one.needs_key]


class NewKey(FlaskForm):  # type: ignore[misc]
    """`secret` is the one field that no answer holds, whatever is wrong with the others."""

    service = SelectField("Service", choices=[SelectChoice(one.name, one.title) for one in KEYED])
    label = StringField("Label", [DataRequired("Give the key a label."), *a_name()], filters=[stripped])
    secret = PasswordField("Secret", filters=[stripped])
    limits = StringField("Limits", filters=[stripped])
    account = StringField("Account", a_name(), filters=[stripped])
    key_set = StringField("Key set", a_name(), filters=[stripped])

    def validate_secret(self, field: Field) -> None:
        if self.service.data in SERVICES and (wrong := wrong_with(field.data, SERVICES[self.service.data])):
            raise ValidationError(wrong)

    def validate_limits(self, field: Field) -> None:
        try:
            given_limits(field.data)
        except BadLimit as error:
            raise ValidationError(str(error)) from None


class Rest(FlaskForm):  # type: ignore[misc]
    """For how long, or until when; one of the two."""

    minutes = IntegerField(
        "For minutes", [Optional(), NumberRange(1, LONGEST_REST_MINUTES, "From one minute to a year.")]
    )
    until = DateTimeLocalField("Until, in UTC", [Optional()], format=["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"])

    def validate_until(self, field: Field) -> None:
        if field.data is not None and not 0 < _seconds_until(field.data) <= LONGEST_REST_MINUTES * 60:
            raise ValidationError("It must be within the year to come.")

    def validate(self, extra_validators: object = None) -> bool:
        if not super().validate(extra_validators):
            return False
        if (self.minutes.data is None) == (self.until.data is None):
            self.minutes.errors = ["Give minutes or a time, one of the two."]
            return False
        return True

    @property
    def seconds(self) -> float:
        return 60.0 * self.minutes.data if self.minutes.data else _seconds_until(self.until.data)


def _seconds_until(naive: datetime) -> float:
    return (naive.replace(tzinfo=UTC) - datetime.now(UTC)).total_seconds()


def vault() -> Vault:
    """What seals secrets here. Raises `BadSetting` when there is no master key."""
    settings: Settings = current_app.extensions["database"].settings
    return Vault(settings.master_keys())


def given_limits(text: str) -> list[Limit]:
    """Limits between commas. Raises `BadLimit`."""
    return [limits.parse(part) for part in text.split(",") if part.strip()]


@blueprint.get("/keys")
def index() -> str:
    """All keys."""
    return render_page("keys/index.html", "keys")


@blueprint.get("/keys/new")
@needs(Role.OPERATOR)
def new() -> str:
    """The form for a new key."""
    return _form(NewKey(formdata=None))


@blueprint.post("/keys/new")
@needs(Role.OPERATOR)
def add() -> ResponseReturnValue:
    """Add a key. Its secret is encrypted here and cannot be read here."""
    form = NewKey()
    key_id = _add(form) if form.validate() else None
    if key_id is None:
        return _form(form), 422
    mark = fingerprint(form.secret.data)[-4:]
    flash(f"Saved. This was the last time the secret could be seen. Fingerprint …{mark}.")
    service = SERVICES[form.service.data]
    if (chosen := given_limits(form.limits.data)) and (usual := above_usual(chosen, service)):
        flash(f"Its limit is above the usual one of {service.title}, {usual}.")
    return go_to(f"/keys/{key_id}")


def _add(form: NewKey) -> int | None:
    """The new key's id; None: the form's fields say why not."""
    service = SERVICES[form.service.data]
    with page_connection() as conn, conn.transaction():
        there = [key for key in keys.see(conn) if key.service == service.name]
        account = form.account.data or default_account(service, there)
        try:
            return keys.add(
                conn,
                vault(),
                service=service.name,
                label=form.label.data,
                secret=form.secret.data,
                limits=given_limits(form.limits.data) or usual_limits(service, there, account),
                account=account,
                key_set=form.key_set.data or None,
            )
        except KeyTaken as error:
            form.label.errors = [str(error)]
        except (LimitsDiffer, BadLimit) as error:
            form.limits.errors = [str(error)]
    return None


def _form(form: NewKey) -> str:
    return render_page("keys/new.html", "keys.new", form=form, services=KEYED)


@blueprint.get(ONE)
def show(key_id: int) -> str:
    """One key."""
    return _page(found(key_id), Rest(formdata=None))


def _page(key: KeyUse, rest: Rest) -> str:
    args = {"key": str(key.id), "calls": request.args.get("calls", "")}
    return render_page("keys/page.html", "keys.one", args, key=key, rest=rest)


@blueprint.post(ONE + "/disable")
@needs(Role.OPERATOR)
def disable(key_id: int) -> ResponseReturnValue:
    """Take the key out of use."""
    done = f"Disabled. No call is made under “{found(key_id).label}” from now on."
    return _act(key_id, lambda: _steer(keys.disable, key_id), done)


@blueprint.post(ONE + "/enable")
@needs(Role.OPERATOR)
def enable(key_id: int) -> ResponseReturnValue:
    """Take the key into use again, also one that was rejected or exhausted."""
    return _act(key_id, lambda: _steer(keys.enable, key_id), f"“{found(key_id).label}” is in use again.")


@blueprint.post(ONE + "/test")
@needs(Role.OPERATOR)
def test(key_id: int) -> ResponseReturnValue:
    """Let a worker make one call under the key. This process cannot: it never sees the secret."""
    key = found(key_id)
    with page_connection() as conn:
        ordered = key_tests.order(conn, key_id, SERVICES[key.service].probe)
    if ordered:
        flash(f"A worker will test “{key.label}” before anything else.")
    elif key.state == "disabled":
        flash(f"Nothing was changed: “{key.label}” is disabled. Enable it first.")
    else:
        flash(f"Nothing was changed: a test of “{key.label}” is under way.")
    return go_to(f"/keys/{key_id}")


@blueprint.post(ONE + "/rest")
@needs(Role.OPERATOR)
def rest(key_id: int) -> ResponseReturnValue:
    """Let the key's account rest for exactly so long, also when that is shorter than it rests now."""
    key, form = found(key_id), Rest()
    if not form.validate():
        return _page(key, form), 422
    who = person()
    cause = f"rested by {who.email}" if who else "rested"
    done = f"“{key.label}” rests for {duration(form.seconds)}."
    return _act(key_id, lambda: _steer(steering.rest_key, key_id, form.seconds, cause), done)


@blueprint.post(ONE + "/end-rest")
@needs(Role.OPERATOR)
def end_rest(key_id: int) -> ResponseReturnValue:
    """End the rest of the key's account."""
    return _act(key_id, lambda: _steer(steering.end_rest, key_id), f"“{found(key_id).label}” rests no more.")


@blueprint.post("/keys/services/<service>/try")
@needs(Role.OPERATOR)
def try_service(service: str) -> ResponseReturnValue:
    """End the rest of a whole service; one that does not answer is tried by one job first."""
    if service not in SERVICES:
        abort(404)
    title = SERVICES[service].title
    if _steer(circuits.end_rest, service):
        flash(f"{title} is tried now, before its rest is over.")
    else:
        flash(f"Nothing was changed: {title} does not rest.")
    return go_to("/keys")


def _act(key_id: int, act: Callable[[], bool], done: str) -> ResponseReturnValue:
    if act():
        flash(done)
    else:
        key = found(key_id)
        flash(f"Nothing was changed: “{key.label}” is {'rejected' if key.state == 'invalid' else key.state}.")
    return go_to(f"/keys/{key_id}")


def _steer(change: Callable[..., bool], *arguments: object) -> bool:
    with page_connection() as conn:
        return change(conn, *arguments)


def found(key_id: int) -> KeyUse:
    """The key, or the answer that there is no such page."""
    with page_connection() as conn:
        one = [key for key in key_use.see(conn) if key.id == key_id]
    return one[0] if one else abort(404)
