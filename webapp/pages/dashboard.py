"""The dashboard, and what stands in its place while there is no list."""

from __future__ import annotations

from flask import Blueprint, request

from store import list_pages
from webapp.database import page_connection
from webapp.panels.polling import render_page

blueprint = Blueprint("dashboard", __name__)


@blueprint.get("/")
def show() -> str:
    """What runs, and what needs a person."""
    with page_connection() as conn:
        is_empty = not list_pages.states(conn)
    if is_empty:
        return render_page("dashboard/first_run.html", "dashboard.empty")
    return render_page("dashboard/page.html", "dashboard", {"range": request.args.get("range", "1h")})
