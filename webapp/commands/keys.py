"""`flask keys`: add, list, rotate, disable, enable keys. A secret goes in and never comes out."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import click
import psycopg
from flask import current_app

from services.service import Service
from store import keys as store
from store import limits
from store.keys import KeySeen
from store.limits import Limit
from store.settings import Settings
from store.vault import Locked, Vault, fingerprint
from webapp.commands.console import Group, counted, name_of, print_json, shown, table, warn
from webapp.database import connection
from webapp.key_defaults import LONGEST_SECRET, above_usual, default_account, usual_limits
from webapp.uploads import service_named

LABEL = click.argument("label", callback=name_of("label"))


@click.group("keys", cls=Group, short_help="Add keys, see their use, disable them.")
def keys() -> None:
    """Add keys of services, see what they use of their limits, take them out of use."""


@keys.command(short_help="Add a key of SERVICE.")
@click.argument("service")
@click.option("--label", required=True, callback=name_of("label"), help="What the key is called.")
@click.option(
    "--limit",
    "given",
    multiple=True,
    metavar="LIMIT",
    help="Such as 600/5m, 600/5m spread, 2000/day from 00:00 UTC, 5 at once. Default: the usual ones.",
)
@click.option("--account", callback=name_of("account"), help="Keys of one account share its limits.")
@click.option("--set", "key_set", callback=name_of("key set"), help="Only workers of this key set use it.")
def add(service: str, label: str, given: tuple[str, ...], account: str | None, key_set: str | None) -> None:
    """Add a key of SERVICE. Its secret is read from standard input, or asked for on a terminal."""
    asked = service_named(service)
    if not asked.needs_key:
        raise click.ClickException(f"{service} is read without a key.")
    wanted = [limits.parse(text) for text in given]
    settings: Settings = current_app.extensions["database"].settings
    vault = Vault(settings.master_keys())
    with connection() as conn:
        there = [key for key in store.see(conn) if key.service == service]
        account = account or default_account(asked, there)
        chosen = wanted or usual_limits(asked, there, account)
        secret = _read_secret(asked)
        with conn.transaction():
            store.add(
                conn,
                vault,
                service=service,
                label=label,
                secret=secret,
                limits=chosen,
                account=account,
                key_set=key_set,
            )
    if usual := above_usual(chosen, asked):
        warn(f"this is above the usual limit of {asked.title}, {usual}: it may answer 429 or ban the key.")
    _say_limits(asked, chosen, is_given=bool(wanted), sharing=[k for k in there if k.account == account])
    click.echo(
        f"Saved. This was the last time the secret could be seen. Fingerprint …{fingerprint(secret)[-4:]}."
    )


@keys.command("list", short_help="All keys and what they have used.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_keys(as_json: bool) -> None:
    """All keys with their states and what they have used of their limits."""
    with connection() as conn:
        seen = store.see(conn)
    if as_json:
        print_json([_as_json(key) for key in seen])
    elif seen:
        table(
            (
                "Service",
                "Label",
                "Account",
                "Set",
                "State",
                "Used of limit",
                "Calls 1 h",
                "429s 1 h",
                "Fingerprint",
                "Last error",
            ),
            [
                (
                    key.service,
                    key.label,
                    key.account,
                    key.key_set,
                    _state(key),
                    _used(key),
                    key.calls,
                    key.rate_limited,
                    f"…{key.fingerprint[-4:]}",
                    key.last_error,
                )
                for key in seen
            ],
        )
    else:
        click.echo("No keys yet. Add one: flask keys add SERVICE --label NAME")


@keys.command(short_help="Give a key another secret.")
@click.argument("service")
@LABEL
def rotate(service: str, label: str) -> None:
    """Give a key another secret, read from standard input or asked for on a terminal; it is in use then."""
    asked = service_named(service)
    settings: Settings = current_app.extensions["database"].settings
    vault = Vault(settings.master_keys())
    with connection() as conn:
        key = _found(conn, service, label)
        secret = _read_secret(asked)
        if not store.rotate(conn, vault, key.id, secret):
            raise click.ClickException(f"The key “{label}” is gone. Nothing was changed.")
    was = f"; it was {key.state}" if not key.is_usable else ""
    click.echo(f"“{shown(label)}” has a new secret and is in use{was}.")
    click.echo(f"This was the last time the secret could be seen. Fingerprint …{fingerprint(secret)[-4:]}.")


@keys.command()
@click.argument("service")
@LABEL
def disable(service: str, label: str) -> None:
    """Take a key out of use."""
    with connection() as conn:
        key = _found(conn, service, label)
        if not store.disable(conn, key.id):
            click.echo(f"“{shown(label)}” is {key.state} already; nobody uses it.")
            return
        click.echo(f"Disabled. No call is made under “{shown(label)}” from now on.")
        if not any(k.service == service and k.is_usable for k in store.see(conn)):
            warn(f"no usable key of {service} is left: its jobs will wait.")


@keys.command(short_help="Take a key into use again.")
@click.argument("service")
@LABEL
def enable(service: str, label: str) -> None:
    """Take a key into use again, also one that was rejected or exhausted."""
    with connection() as conn:
        key = _found(conn, service, label)
        was_out = store.enable(conn, key.id)
        click.echo(
            f"“{shown(label)}” is in use" + (f" again; it was {key.state}." if was_out else " already.")
        )


@keys.command(short_help="Encrypt all secrets with the first master key.")
def reseal() -> None:
    """Encrypt all secrets with the first of SLUICE_MASTER_KEYS; the others are not needed afterwards."""
    settings: Settings = current_app.extensions["database"].settings
    vault = Vault(settings.master_keys())
    with connection() as conn:
        try:
            count = store.reseal(conn, vault)
        except Locked as error:
            raise click.ClickException(f"{error} Nothing was changed.") from None
    click.echo(f"{counted(count, 'secret')} encrypted with the first master key.")


def _read_secret(service: Service) -> str:
    if sys.stdin.isatty():
        secret: str = click.prompt(service.key_is, hide_input=True)
    else:
        given = sys.stdin.buffer.read(LONGEST_SECRET + 1)
        try:
            secret = given.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise click.ClickException("The secret is not text. Nothing was changed.") from None
    secret = secret.strip()
    if not secret:
        raise click.ClickException(
            "Nothing was changed. The secret is empty; it is read from standard input."
        )
    if len(secret) > LONGEST_SECRET:
        raise click.ClickException(
            f"The secret is longer than {LONGEST_SECRET:,} characters. Nothing was changed."
        )
    wrong = service.check_secret(secret)
    if wrong:
        raise click.ClickException(f"Nothing was changed. {wrong}")
    return secret


def _say_limits(
    service: Service, chosen: Sequence[Limit], *, is_given: bool, sharing: Sequence[KeySeen]
) -> None:
    texts = ", ".join(map(str, chosen))
    if sharing:
        labels = ", ".join(f"“{shown(key.label)}”" for key in sharing[:3])
        more = f" and {len(sharing) - 3} more" if len(sharing) > 3 else ""  # noqa: PLR2004
        click.echo(f"Limits: {texts}, shared with {labels}{more}: the keys of one account share them.")
    elif service.shared_limits:
        click.echo(f"Limits: {texts}. All keys of {service.name} will share them.")
    else:
        click.echo(f"Limits: {texts}" + ("." if is_given else f", the usual ones of {service.title}."))


def _found(conn: psycopg.Connection, service: str, label: str) -> KeySeen:
    service_named(service)
    of_service = [key for key in store.see(conn) if key.service == service]
    for key in of_service:
        if key.label == label:
            return key
    there = ", ".join(f"“{shown(key.label)}”" for key in of_service) or "none"
    raise click.ClickException(f"{service} has no key “{label}”. Its keys: {there}.")


def _state(key: KeySeen) -> str:
    return f"resting {key.rest_seconds:,.0f} s" if key.state == "resting" else key.state


def _used(key: KeySeen) -> str:
    return ", ".join(f"{used:,} of {limit}" for used, limit in zip(key.used, key.limits, strict=True))


def _as_json(key: KeySeen) -> dict[str, Any]:
    return {
        "service": key.service,
        "label": key.label,
        "account": key.account,
        "key_set": key.key_set,
        "fingerprint": key.fingerprint[-4:],
        "state": key.state,
        "rest_seconds": round(key.rest_seconds, 1),
        "limits": [str(limit) for limit in key.limits],
        "used": key.used,
        "calls_last_hour": key.calls,
        "rate_limited_last_hour": key.rate_limited,
        "last_error": key.last_error,
    }
