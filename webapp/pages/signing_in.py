"""Sign in, sign out, and the one-time link that sets a password."""

from __future__ import annotations

from flask import Blueprint, flash, redirect, render_template, request
from flask.typing import ResponseReturnValue
from flask_wtf import FlaskForm
from wtforms import EmailField, PasswordField
from wtforms.validators import DataRequired, EqualTo, Length

from store import people, sign_ins
from store.passwords import LEAST_LENGTH, MOST_LENGTH, WeakPassword
from store.people import BadEmail, Role
from webapp import access
from webapp.access import needs, public
from webapp.database import page_connection
from webapp.formats import duration

blueprint = Blueprint("signing_in", __name__)

WRONG = "Email or password is not right."


class SignIn(FlaskForm):  # type: ignore[misc]
    email = EmailField("Email", [DataRequired()])
    password = PasswordField("Password", [DataRequired()])


class NewPassword(FlaskForm):  # type: ignore[misc]
    password = PasswordField("New password", [DataRequired("Choose a password."), Length(max=MOST_LENGTH)])
    again = PasswordField("The same again", [EqualTo("password", "The two are not the same.")])


@blueprint.get("/sign-in")
@public
def sign_in() -> ResponseReturnValue:
    """The form; who is signed in goes on."""
    if access.person():
        return redirect(access.where_to(request.args.get("next")))
    return render_template("sign_in/page.html", form=SignIn())


@blueprint.post("/sign-in")
@public
def try_to_sign_in() -> ResponseReturnValue:
    """Sign in and go on to the page that was asked for; after too many tries only after a wait."""
    form = SignIn()
    try:
        email = people.normal_email(form.email.data or "")
    except BadEmail:
        return _again(form, WRONG)
    address = request.remote_addr or "?"
    with page_connection() as conn:
        wait = sign_ins.attempt(conn, email, address)
        if wait > 0:
            return _again(form, f"Too many tries. Wait {duration(max(round(wait), 1))}.")
        found = people.with_password(conn, email, form.password.data or "")
        if found is None:
            return _again(form, WRONG)
        sign_ins.succeeded(conn, email, address)
    access.sign_in(found)
    return redirect(access.where_to(request.args.get("next")), 303)


def _again(form: SignIn, words: str) -> ResponseReturnValue:
    return render_template("sign_in/page.html", form=form, wrong=words), 422


@blueprint.post("/sign-out")
@needs(Role.VIEWER)
def sign_out() -> ResponseReturnValue:
    """End the session in this browser."""
    access.sign_out()
    return redirect("/sign-in", 303)


@blueprint.get("/link/<token>")
@public
def open_link(token: str) -> ResponseReturnValue:
    """The form that sets a password. Looking at it uses nothing up."""
    with page_connection() as conn:
        whose = people.of_link(conn, token)
    if whose is None:
        return render_template("sign_in/void.html"), 410
    return render_template("sign_in/link.html", form=NewPassword(), whose=whose, least=LEAST_LENGTH)


@blueprint.post("/link/<token>")
@public
def use_link(token: str) -> ResponseReturnValue:
    """Set the password and sign in."""
    form = NewPassword()
    with page_connection() as conn:
        whose = people.of_link(conn, token)
        if whose is None:
            return render_template("sign_in/void.html"), 410
        try:
            found = people.use_link(conn, token, form.password.data) if form.validate() else None
        except WeakPassword as error:
            form.password.errors = [str(error)]
            found = None
    if found is None:
        page = render_template("sign_in/link.html", form=form, whose=whose, least=LEAST_LENGTH)
        return page, 422
    access.sign_in(found)
    flash("Your password is set. You are signed in.")
    return redirect("/", 303)
