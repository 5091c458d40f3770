"""How panels reach the browser: with their page, by the page's one poll, and each by its own URL."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, abort, current_app, render_template, request

from webapp.access import person
from webapp.panels import PANELS, of_page
from webapp.panels.shelf import Rendered, Shelf

blueprint = Blueprint("panels", __name__)

AS_OF = "Sluice-As-Of"
PTAG = "HX-PTag"


def render_page(
    template: str,
    page: str,
    args: Mapping[str, str] | None = None,
    still: Sequence[str] = (),
    **values: Any,
) -> str:
    """A whole page with its panels in it, each by `{{ panel("name") }}`; from then on they are polled.

    `args`: what the page's panels depend on, such as the list's id. `still`: panels that are shown with the
    page and not polled, for what does not change any more. A panel that raises `NotFound` makes the page one
    that is not there; when it was there before, the panel says that it has gone.
    """
    asked = {"page": page, **(args or {})}
    shown = _take((*of_page(page), *still), asked)
    if any(one.status == 404 for one in shown):  # noqa: PLR2004
        abort(404)
    return render_template(
        template,
        page=page,
        args=asked,
        panel={one.name: one.html for one in shown}.__getitem__,
        poll_url="/panels?" + urlencode(asked),
        poll_tag=_tag(shown),
        poll_as_of=_as_of(shown),
        **values,
    )


@blueprint.get("/panels")
def poll() -> Response:
    """The panels of a page that are not as the browser has them; 304 when all are."""
    shown = _take(of_page(request.args.get("page", "")), request.args)
    has = set(request.headers.get(PTAG, "").split())
    changed = [one for one in shown if one.tag not in has]
    html = "".join(
        f'<hx-partial hx-target="#panel-{one.name}" hx-swap="outerMorph">{one.html}</hx-partial>'
        for one in changed
    )
    return _answer(html, 200 if changed else 304, shown)


@blueprint.get("/panels/<name>")
def panel(name: str) -> Response:
    """One panel."""
    if name not in PANELS:
        abort(404)
    (one,) = _take((name,), request.args)
    return _answer(one.html, one.status, [one])


def _take(names: Sequence[str], args: Mapping[str, str]) -> list[Rendered]:
    who = person()
    shelf: Shelf = current_app.extensions["shelf"]
    return shelf.take(names, args, who.role if who else "")


def _answer(html: str, status: int, shown: Sequence[Rendered]) -> Response:
    answer = Response(html, status, mimetype="text/html")
    answer.headers[PTAG] = _tag(shown)
    answer.headers[AS_OF] = _as_of(shown)
    return answer


def _tag(shown: Sequence[Rendered]) -> str:
    return " ".join(one.tag for one in shown)


def _as_of(shown: Sequence[Rendered]) -> str:
    """As of when each panel is, and what is now, on the database's clock in seconds of the epoch."""
    moments = {one.name: one.as_of.timestamp() for one in shown}
    last = max(shown, key=lambda one: one.made)
    moments["now"] = last.as_of.timestamp() + time.monotonic() - last.made
    return " ".join(f"{name}={at:.1f}" for name, at in moments.items())
