"""Secrets that go in beside the form of one key: another one for a key, and several keys at once."""

from __future__ import annotations

from flask import Blueprint, abort, flash
from flask.typing import ResponseReturnValue
from flask_wtf import FlaskForm
from wtforms import Field, PasswordField, SelectChoice, SelectField, StringField, TextAreaField
from wtforms.validators import ValidationError

from services.registry import SERVICES
from store import key_tests, keys
from store.accounts import LimitsDiffer
from store.key_use import KeyUse
from store.keys import KeyTaken
from store.limits import BadLimit
from store.people import Role
from store.vault import fingerprint
from webapp.access import needs
from webapp.answers import go_to
from webapp.database import page_connection
from webapp.formats import counted
from webapp.key_defaults import default_account, usual_limits, wrong_with
from webapp.key_lines import BadLines, KeyLine, read
from webapp.pages.keys import KEYED, ONE, a_name, found, given_limits, stripped, vault
from webapp.panels.polling import render_page

blueprint = Blueprint("key_secrets", __name__)


class Rotate(FlaskForm):  # type: ignore[misc]
    secret = PasswordField("New secret", filters=[stripped])


class SeveralKeys(FlaskForm):  # type: ignore[misc]
    """`lines` hold secrets: no answer has them, whatever is wrong."""

    service = SelectField("Service", choices=[SelectChoice(one.name, one.title) for one in KEYED])
    lines = TextAreaField("Keys, one per line", filters=[lambda text: text or ""])
    limits = StringField("Limits", filters=[stripped])
    account = StringField("Account", a_name(), filters=[stripped])
    key_set = StringField("Key set", a_name(), filters=[stripped])

    def validate_limits(self, field: Field) -> None:
        try:
            given_limits(field.data)
        except BadLimit as error:
            raise ValidationError(str(error)) from None


@blueprint.get(ONE + "/rotate")
@needs(Role.OPERATOR)
def ask_to_rotate(key_id: int) -> str:
    """The form for another secret of the key."""
    return _rotate_page(found(key_id), Rotate(formdata=None))


@blueprint.post(ONE + "/rotate")
@needs(Role.OPERATOR)
def rotate(key_id: int) -> ResponseReturnValue:
    """Give the key another secret, take it into use, and let a worker test it."""
    key, form = found(key_id), Rotate()
    service, secret = SERVICES[key.service], form.secret.data
    if wrong := wrong_with(secret, service):
        form.secret.errors = [wrong]
        return _rotate_page(key, form), 422
    with page_connection() as conn:
        try:
            if not keys.rotate(conn, vault(), key_id, secret):
                abort(404)
        except KeyTaken as error:
            form.secret.errors = [str(error)]
            return _rotate_page(key, form), 422
        key_tests.order(conn, key_id, service.probe)
    flash(
        f"“{key.label}” has a new secret and is in use; a worker will test it. This was the last time the"
        f" secret could be seen. Fingerprint …{fingerprint(secret)[-4:]}."
    )
    return go_to(f"/keys/{key_id}")


def _rotate_page(key: KeyUse, form: Rotate) -> str:
    return render_page("keys/rotate.html", "keys.rotate", key=key, form=form, service=SERVICES[key.service])


@blueprint.get("/keys/several")
@needs(Role.OPERATOR)
def several() -> str:
    """The form for several keys of one service."""
    return _several_page(SeveralKeys(formdata=None))


@blueprint.post("/keys/several")
@needs(Role.OPERATOR)
def add_several() -> ResponseReturnValue:
    """Add all keys or none, and let a worker test each."""
    form = SeveralKeys()
    added = _add(form) if form.validate() else None
    if added is None:
        return _several_page(form), 422
    flash(
        f"Saved {counted(added, 'key')}; a worker will test {'it' if added == 1 else 'each'}."
        " This was the last time the secrets could be seen."
    )
    return go_to("/keys")


def _add(form: SeveralKeys) -> int | None:
    """How many keys were added; None: the form's fields say why none was."""
    try:
        lines = read(form.lines.data, SERVICES[form.service.data])
        return _add_all(form, lines)
    except (BadLines, KeyTaken) as error:
        form.lines.errors = [str(error)]
    except LimitsDiffer as error:
        form.limits.errors = [str(error)]
    return None


def _add_all(form: SeveralKeys, lines: list[KeyLine]) -> int:
    service, seal = SERVICES[form.service.data], vault()
    with page_connection() as conn, conn.transaction():
        there = [key for key in keys.see(conn) if key.service == service.name]
        account = form.account.data or default_account(service, there)
        chosen = given_limits(form.limits.data) or usual_limits(service, there, account)
        for line in lines:
            key_id = keys.add(
                conn,
                seal,
                service=service.name,
                label=line.label,
                secret=line.secret,
                limits=chosen,
                account=account,
                key_set=form.key_set.data or None,
            )
            key_tests.order(conn, key_id, service.probe)
    return len(lines)


def _several_page(form: SeveralKeys) -> str:
    form.lines.data = ""  # what was pasted is not given back
    return render_page("keys/several.html", "keys.several", form=form, services=KEYED)
