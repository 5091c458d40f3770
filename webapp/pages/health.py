"""Whether the process lives, and whether it can serve people: for load balancers and systemd."""

from __future__ import annotations

import psycopg
from flask import Blueprint, current_app, jsonify
from flask.typing import ResponseReturnValue

from store import database
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
    """200 when the database answers with the schema of this program, else 503 and which part is not."""
    parts = {"database": "ok", "schema": "unknown"}
    try:
        with page_connection() as conn:
            database.check_schema(conn)
            parts["schema"] = database.SCHEMA
    except database.WrongSchema as error:
        parts["schema"] = str(error)
    except (Unavailable, psycopg.Error) as error:
        current_app.logger.warning("not ready: %s", " ".join(str(error).split()))
        parts["database"] = "does not answer"
    # The seam for the monitor's age: a part of its own once the monitor keeps a pulse.
    is_ready = parts == {"database": "ok", "schema": database.SCHEMA}
    return jsonify(status="ok" if is_ready else "not ready", **parts), 200 if is_ready else 503
