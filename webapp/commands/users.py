"""`flask users`: who may sign in. A password is never typed here: its owner sets it by a one-time link."""

from __future__ import annotations

import click
import psycopg
from flask import current_app

from store import people
from store.people import BadEmail, EmailTaken, Person, Role
from store.settings import Settings
from webapp.commands.console import Group, print_json, shown, table
from webapp.database import connection

EMAIL = click.argument("email", metavar="EMAIL")


@click.group("users", cls=Group, short_help="Add people who may sign in, make links, remove them.")
def users() -> None:
    """Add people who may sign in, make one-time links, remove people."""


@users.command(short_help="Add a person and print a one-time link.")
@EMAIL
@click.option(
    "--role", type=click.Choice([str(role) for role in Role]), required=True, help="What the person may do."
)
def add(email: str, role: str) -> None:
    """Add a person. The link that is printed sets their password; it works once, within a day."""
    with connection() as conn, conn.transaction():
        try:
            added = people.add(conn, email, Role(role))
        except (BadEmail, EmailTaken) as error:
            raise click.ClickException(str(error)) from None
        _print_link(conn, added)


@users.command(short_help="Print a new one-time link for a person.")
@EMAIL
def link(email: str) -> None:
    """Print a new one-time link, for a forgotten password. The person's earlier links are void."""
    with connection() as conn, conn.transaction():
        _print_link(conn, _found(conn, email))


@users.command("list", short_help="Who may sign in.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_users(as_json: bool) -> None:
    """Who may sign in, with which role, and when they were last seen."""
    with connection() as conn:
        everybody = people.see(conn)
    if as_json:
        print_json([_as_json(one) for one in everybody])
    elif everybody:
        rows = [(one.email, str(one.role), _seen(one)) for one in everybody]
        table(("Email", "Role", "Last seen"), rows)
    else:
        click.echo("Nobody yet. Add one: flask users add EMAIL --role administrator")


@users.command(short_help="Remove a person and end their sessions.")
@EMAIL
def remove(email: str) -> None:
    """Remove a person. Their sessions end at once."""
    with connection() as conn:
        people.remove(conn, _found(conn, email).id)
    click.echo(f"Removed {shown(email)}.")


def _print_link(conn: psycopg.Connection, person: Person) -> None:
    settings: Settings = current_app.extensions["database"].settings
    token = people.make_link(conn, person.id)
    click.echo(
        f"{person.email} ({person.role}) sets a password here, once, within {people.LINK_HOURS} hours:"
    )
    click.echo(f"{settings.public_url}/link/{token}")


def _found(conn: psycopg.Connection, email: str) -> Person:
    try:
        found = people.find(conn, email)
    except BadEmail as error:
        raise click.ClickException(str(error)) from None
    if found is None:
        raise click.ClickException(f"There is nobody with email “{shown(email)}”. See: flask users list")
    return found


def _seen(one: Person) -> str:
    if one.seen_at is None:
        return "never" if one.has_password else "never; has no password yet"
    return one.seen_at.strftime("%Y-%m-%d %H:%M %Z")


def _as_json(one: Person) -> dict[str, object]:
    return {
        "email": one.email,
        "role": one.role,
        "has_password": one.has_password,
        "created_at": one.created_at.isoformat(),
        "seen_at": one.seen_at.isoformat() if one.seen_at else None,
    }
