"""Whether the process lives, and whether it can serve people: for load balancers and systemd."""

from __future__ import annotations

import psycopg
from flask import Blueprint, current_app, jsonify
from flask.typing import ResponseReturnValue

from store import database, pulse
from webapp.access import public
from webapp.database import Unavailable, page_connection

blueprint = Blueprint("health", __name__)


@blueprint.get("/healthz")
@public
def alive() -> ResponseReturnValue:
    """200 while the process answers at all."""
    return {"status": "ok"}


@blueprint.get("/readyz")
@public
def ready() -> ResponseReturnValue:
    """200 when the database answers with the schema of this program, else 503 and which part is not.

    A monitor that has stopped is said and costs nobody the console: people need it then.
    """
    parts = {"database": "ok", "schema": "unknown"}
    monitor = "unknown"
    try:
        with page_connection() as conn:
            database.check_schema(conn)
            parts["schema"] = database.SCHEMA
            monitor = _age(pulse.age_seconds(conn))
    except database.WrongSchema as error:
        parts["schema"] = str(error)
    except (Unavailable, psycopg.Error) as error:
        current_app.logger.warning("not ready: %s", " ".join(str(error).split()))
        parts["database"] = "does not answer"
    is_ready = parts == {"database": "ok", "schema": database.SCHEMA}
    return jsonify(
        status="ok" if is_ready else "not ready", **parts, monitor=monitor
    ), 200 if is_ready else 503


def _age(seconds: float | None) -> str:
    return "never looked" if seconds is None else f"looked {max(seconds, 0.0):.0f} s ago"
