"""Alerts: what is wrong and what was; somebody takes care of one, or wants to hear no more of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from flask import Blueprint, abort, flash, request
from flask.typing import ResponseReturnValue
from flask_wtf import FlaskForm
from wtforms import SelectChoice, SelectField, StringField
from wtforms.validators import DataRequired, Length

from store import alerts, deliveries, pulse
from store.alerts import AlertSeen
from store.people import Role
from webapp.access import needs, person
from webapp.answers import go_to
from webapp.database import page_connection
from webapp.panels.polling import render_page

blueprint = Blueprint("alerts", __name__)

ONE = "/alerts/<int(max=9223372036854775807):alert_id>"
LONGEST_REASON = 500
HOURS = (("1", "1 hour"), ("4", "4 hours"), ("24", "1 day"), ("168", "7 days"))


class Mute(FlaskForm):  # type: ignore[misc]
    hours = SelectField("For", choices=[SelectChoice(*one) for one in HOURS])
    reason = StringField(
        "Why",
        [DataRequired("Say why: whoever misses the alert will ask."), Length(max=LONGEST_REASON)],
        filters=[lambda text: (text or "").strip()],
    )


@blueprint.get("/alerts")
def index() -> str:
    """Open alerts, or those that were resolved last."""
    return render_page("alerts/index.html", "alerts", {"show": request.args.get("show", "")})


@blueprint.get("/alerts/rules")
def rules() -> str:
    """What the monitor looks for."""
    return render_page("alerts/rules.html", "alerts.rules")


@blueprint.get("/alerts/channels")
def channels() -> str:
    """Who is told, and whether it arrives."""
    return render_page("alerts/channels.html", "alerts.channels")


@blueprint.post("/alerts/channels/<name>/test")
@needs(Role.OPERATOR)
def test(name: str) -> ResponseReturnValue:
    """Let the monitor send a message through a channel that it tells."""
    with page_connection() as conn:
        if name not in pulse.see(conn).channels:
            abort(404)
        ordered = deliveries.order_test(conn, name)
    if ordered is None:
        flash(f"Nothing was changed: a test by {name} waits to be sent.")
    else:
        flash(f"The monitor will send a test by {name}. What became of it is shown here.")
    return go_to("/alerts/channels")


@blueprint.get(ONE)
def show(alert_id: int) -> str:
    """One alert."""
    return _page(_found(alert_id), Mute(formdata=None))


def _page(alert: AlertSeen, form: Mute) -> str:
    return render_page("alerts/page.html", "alerts.one", {"alert": str(alert.id)}, alert=alert, form=form)


@blueprint.post(ONE + "/acknowledge")
@needs(Role.OPERATOR)
def acknowledge(alert_id: int) -> ResponseReturnValue:
    """Somebody takes care: no more reminders."""
    _found(alert_id)
    with page_connection() as conn:
        taken = alerts.acknowledge(conn, alert_id, _who())
    one = _found(alert_id)
    if taken:
        flash("Acknowledged. Nobody is reminded any more; it resolves by itself when it is over.")
    elif one.resolved_at:
        flash("Nothing was changed: it is resolved.")
    else:
        flash(f"Nothing was changed: {one.acknowledged_by} has acknowledged it.")
    return go_to(f"/alerts/{alert_id}")


@blueprint.post(ONE + "/mute")
@needs(Role.OPERATOR)
def mute(alert_id: int) -> ResponseReturnValue:
    """Tell nobody of this rule and subject for a while."""
    one, form = _found(alert_id), Mute()
    if not form.validate():
        return _page(one, form), 422
    hours = int(form.hours.data)
    with page_connection() as conn:
        alerts.mute(conn, alert_id, datetime.now(UTC) + timedelta(hours=hours), form.reason.data, _who())
    flash(f"Muted for {dict(HOURS)[form.hours.data]}: nobody is told of it, new episodes included.")
    return go_to(f"/alerts/{alert_id}")


@blueprint.post(ONE + "/unmute")
@needs(Role.OPERATOR)
def unmute(alert_id: int) -> ResponseReturnValue:
    """Tell again."""
    _found(alert_id)
    with page_connection() as conn:
        heard = alerts.unmute(conn, alert_id)
    flash("Unmuted: it is told again." if heard else "Nothing was changed: it was not muted.")
    return go_to(f"/alerts/{alert_id}")


def _who() -> str:
    who = person()
    return who.email if who else "?"


def _found(alert_id: int) -> AlertSeen:
    with page_connection() as conn:
        return alerts.see_one(conn, alert_id) or abort(404)
