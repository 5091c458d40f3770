"""One's own account: who one is, how the console looks in this browser, signing out everywhere."""

from __future__ import annotations

from flask import Blueprint, flash
from flask.typing import ResponseReturnValue

from store import people
from store.people import Role
from webapp import access
from webapp.access import needs
from webapp.answers import go_to
from webapp.database import page_connection
from webapp.panels.polling import render_page

blueprint = Blueprint("account", __name__)


@blueprint.get("/account")
def show() -> str:
    """Who is signed in, and the choices of this browser."""
    return render_page("account/page.html", "account")


@blueprint.post("/account/sign-out-everywhere")
@needs(Role.VIEWER)
def sign_out_everywhere() -> ResponseReturnValue:
    """End every session of the person who asks, this one too."""
    who = access.person()
    if who is not None:
        with page_connection() as conn:
            people.sign_out_everywhere(conn, who.id)
    access.sign_out()
    flash("You are signed out in every browser.")
    return go_to("/sign-in")
