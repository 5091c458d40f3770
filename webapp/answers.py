"""How a view ends after an act, the same way for htmx and for a plain form."""

from __future__ import annotations

from flask import Response, current_app, redirect, render_template, request
from werkzeug.wrappers import Response as AnyResponse


def go_to(url: str) -> AnyResponse:
    """It worked; the next page is at `url`. htmx is told by a header: it would swap a 303 into the form."""
    current_app.extensions["shelf"].clear()
    if is_htmx():
        return Response(status=204, headers={"HX-Location": url})
    return redirect(url, 303)


def look_again() -> AnyResponse:
    """It worked and the page stays: htmx asks for the page's panels at once."""
    current_app.extensions["shelf"].clear()
    if is_htmx():
        return Response(status=204, headers={"HX-Trigger": "tick"})
    return redirect(request.referrer or "/", 303)


def form_again(template: str, **values: object) -> tuple[str, int]:
    """It did not work: the form with what is wrong with it."""
    return render_template(template, **values), 422


def is_htmx() -> bool:
    return "HX-Request" in request.headers
