"""What people see when something is not as it should be: in words, as a page or as a part of one."""

from __future__ import annotations

import secrets

import psycopg
from flask import Flask, Response, current_app, render_template, request
from flask_wtf.csrf import CSRFError
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from store.database import WrongSchema
from store.settings import BadSetting
from webapp.access import is_fragment
from webapp.database import Unavailable

WORDS = {
    400: ("This did not reach us whole.", "Go back, load the page again, and send it once more."),
    401: ("You were signed out.", "Sign in to go on."),
    404: ("There is no such page.", "The job may have been removed by retention."),
    405: ("This page cannot be asked for like this.", "Go back and use its buttons."),
    413: ("The file is too large.", "Split it, then upload the parts."),
}
TOO_OLD = ("This form is too old.", "Load the page again, then send it once more. Nothing was changed.")
NO_DATABASE = "The database does not answer."


def register(app: Flask) -> None:
    app.register_error_handler(CSRFError, _too_old)
    app.register_error_handler(HTTPException, _refused)
    app.register_error_handler(BadSetting, _not_set_up)
    app.register_error_handler(WrongSchema, _not_set_up)
    app.register_error_handler(Unavailable, _no_database)
    app.register_error_handler(psycopg.OperationalError, _no_database)
    app.register_error_handler(Exception, _broken)


def _too_old(_error: CSRFError) -> Response:
    return _answer(400, *TOO_OLD)


def _refused(error: HTTPException) -> Response:
    code = error.code or 500
    if error.response is not None:
        return error.response  # type: ignore[return-value]
    if code == 403:  # noqa: PLR2004
        return _answer(code, "This is not yours to do.", error.description or "")
    title, words = WORDS.get(code, (error.name, error.description or ""))
    answer = _answer(code, title, words)
    if not isinstance(error, RequestEntityTooLarge):
        answer.headers.extend((name, value) for name, value in error.get_headers() if name == "Allow")
    return answer


def _not_set_up(error: Exception) -> Response:
    current_app.logger.error("%s", error)
    return _answer(503, "The console is not set up.", str(error))


def _no_database(error: Exception) -> Response:
    current_app.logger.error("%s %s: %s", request.method, request.path, " ".join(str(error).split()))
    return _answer(503, NO_DATABASE, "Nothing was changed. This page works again when it does.")


def _broken(error: Exception) -> Response:
    code = secrets.token_hex(2)
    # The path alone: what was sent may hold what nobody should read in a log.
    current_app.logger.error("%s %s broke (code %s)", request.method, request.path, code, exc_info=error)
    return _answer(500, "Something broke here.", f"It is logged as {code}. Nothing was changed.")


def _answer(status: int, title: str, words: str) -> Response:
    """A page; for htmx a notice, which it puts where notices are and not where the answer would go."""
    if not is_fragment():
        return Response(render_template("errors/page.html", title=title, words=words), status)
    answer = Response(render_template("errors/_notice.html", title=title, words=words), status)
    answer.headers["HX-Retarget"] = "#notice"
    answer.headers["HX-Reswap"] = "innerHTML"
    return answer
