"""Who may do what: closed by default, and every view that changes something states the role it needs.

A view without a mark is for anybody who is signed in, and only to look at.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from flask import Flask, current_app, flash, redirect, request, session, url_for
from flask_login import LoginManager, UserMixin, current_user, login_user, logout_user
from werkzeug.exceptions import Forbidden, Unauthorized
from werkzeug.wrappers import Response as AnyResponse

from store import people
from store.people import Person, Role
from webapp.database import page_connection

SESSION_SECONDS = 12 * 3600
POLL = "panels.poll"
POLL_BELIEVES_SECONDS = 1.0
EXPIRED = "You were signed out after 12 hours. Sign in to go on."
NOT_ALLOWED = "You can look but not change. Ask an administrator for the {} role."
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

View = TypeVar("View", bound=Callable[..., Any])

manager = LoginManager()
# The session's cookie is signed and ends everywhere by its number; browsers and addresses change honestly.
manager.session_protection = None


class SignedIn(UserMixin):  # type: ignore[misc]
    """A person as Flask-Login wants one."""

    def __init__(self, person: Person) -> None:
        self.person = person

    def get_id(self) -> str:
        return f"{self.person.id}:{self.person.session_no}"


def public(view: View) -> View:
    """A view that anybody may see, signed in or not."""
    view.access = "public"  # type: ignore[attr-defined]
    return view


def needs(role: Role) -> Callable[[View], View]:
    """A view for people with this role, or with one that may more."""

    def mark(view: View) -> View:
        view.access = role  # type: ignore[attr-defined]
        return view

    return mark


def access_of(endpoint: str) -> Role | str | None:
    """How the view of an endpoint is marked: "public", a role, or None."""
    return getattr(current_app.view_functions[endpoint], "access", None)


def person() -> Person | None:
    """Who asks; None: nobody who is signed in."""
    return current_user.person if current_user.is_authenticated else None


def may(role: str) -> bool:
    """Whether who asks may do what needs this role. Templates ask it before they show a button."""
    asks = person()
    return asks is not None and asks.role.allows(Role(role))


def sign_in(who: Person) -> None:
    """Begin a session of 12 hours."""
    session.clear()
    session.permanent = True
    session["at"] = int(time.time())
    login_user(SignedIn(who))


def sign_out() -> None:
    logout_user()
    session.clear()


def where_to(given: str | None) -> str:
    """A page of ours that was asked for before the sign-in, else the dashboard; never another site."""
    if not given or not given.startswith("/") or given.startswith(("//", "/\\")) or "\\" in given:
        return "/"
    parts = urlsplit(given)
    return "/" if parts.scheme or parts.netloc or not given.isprintable() else given


def register(app: Flask) -> None:
    """Ask everybody who comes who they are, before anything else looks at the request."""
    manager.init_app(app)
    app.extensions["believed"] = {}
    app.before_request(_guard)
    app.view_functions["static"] = public(app.view_functions["static"])


def _guard() -> AnyResponse | None:
    mark = access_of(request.endpoint) if request.endpoint in current_app.view_functions else None
    if mark == "public":
        return None
    asks = person()
    if asks is None:
        return _sign_in_first()
    changes = request.method not in SAFE
    needed = mark if isinstance(mark, Role) else Role.OPERATOR if changes else Role.VIEWER
    if not asks.role.allows(needed):
        raise Forbidden(NOT_ALLOWED.format(needed))
    if changes and mark is None and request.endpoint:
        raise Forbidden(f"{request.endpoint} does not say who may use it.")
    return None


def _sign_in_first() -> AnyResponse:
    if is_fragment():
        raise Unauthorized("You were signed out.")
    asked_for = request.full_path.rstrip("?") if request.method in SAFE else "/"
    target = url_for("signing_in.sign_in")
    if asked_for != "/":
        target += f"?next={quote(asked_for)}"
    return redirect(target)


def is_fragment() -> bool:
    """Whether a part of a page is asked for: never answer such a request with a page to go to."""
    return "HX-Request" in request.headers or request.path.startswith("/panels")


@manager.user_loader  # type: ignore[untyped-decorator]
def _load(session_id: str) -> SignedIn | None:
    if time.time() - session.get("at", 0) > SESSION_SECONDS:
        session.clear()
        if not is_fragment():
            flash(EXPIRED)
        return None
    believed: dict[str, tuple[float, SignedIn]] = current_app.extensions["believed"]
    at, who = believed.get(session_id, (0.0, None))
    if request.endpoint == POLL and time.monotonic() - at < POLL_BELIEVES_SECONDS:
        return who
    person_id, _, session_no = session_id.partition(":")
    with page_connection() as conn:
        found = people.of_session(conn, int(person_id), int(session_no))
    if found is None:
        believed.pop(session_id, None)
        return None
    if len(believed) > 1000:  # noqa: PLR2004 - more than ever sign in at once: begin anew
        believed.clear()
    believed[session_id] = (time.monotonic(), SignedIn(found))
    return SignedIn(found)
