"""What an act says when it is done or could not be: in its place on the page, or on the next page."""

from __future__ import annotations

from flask import Response, flash, redirect, render_template
from flask.typing import ResponseReturnValue

from webapp.answers import is_htmx


def done(words: str, url: str) -> ResponseReturnValue:
    """It worked: htmx shows the words and looks at the page's panels; a plain form goes on to `url`."""
    if is_htmx():
        answer = _in_place("_done.html", 200, words=words)
        answer.headers["HX-Trigger"] = "tick"
        return answer
    flash(words)
    return redirect(url, 303)


def refused(words: str) -> ResponseReturnValue:
    """It cannot be done as things are now."""
    values = {"title": "Nothing was changed.", "words": words}
    if is_htmx():
        return _in_place("errors/_notice.html", 409, **values)
    return render_template("errors/page.html", **values), 409


def _in_place(template: str, status: int, **values: str) -> Response:
    answer = Response(render_template(template, **values), status)
    answer.headers["HX-Retarget"] = "#notice"
    answer.headers["HX-Reswap"] = "innerHTML"
    return answer
