"""`flask doctor`: is everything there that a run needs, and what to do when not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import click
import psycopg
from flask import current_app
from flask.cli import with_appcontext

from services.registry import SERVICES, needs_key
from store import database, keys, lists, workers
from store.settings import BadSetting, Settings
from store.vault import Vault
from webapp.commands.console import counted, one_line, refusing_in_one_line, shown
from webapp.database import Database

OLDEST_POSTGRES = 14


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `advice` says what to do when it is not well, else it is blank."""

    what: str
    found: str
    advice: str = ""


@click.command("doctor", short_help="Check what a run needs.")
@with_appcontext
def doctor() -> None:
    """Check settings, database, schema, workers and keys; exit code 1 when something is wrong."""
    is_well = True
    with refusing_in_one_line():
        for finding in _findings(current_app.extensions["database"]):
            is_well = is_well and not finding.advice
            mark = "!!" if finding.advice else "ok"
            advice = f" {finding.advice}" if finding.advice else ""
            click.echo(f"{mark}  {finding.what:<10}  {one_line(finding.found + advice)}")
    if not is_well:
        raise click.exceptions.Exit(1)


def _findings(place: Database) -> Iterator[Finding]:
    """Each of them once; it ends where nothing more can be known."""
    settings = place.settings
    yield Finding("settings", _settings(settings))
    yield _master_keys(settings)
    try:
        url = place.url
    except click.ClickException as error:
        yield Finding("database", error.message, "Correct DATABASE_URL, or start the database.")
        return
    with database.connect(url, "sluice doctor") as conn:
        yield _server(conn, is_embedded=settings.database_url is None)
        try:
            database.check_schema(conn)
        except database.WrongSchema as error:
            found, _, advice = str(error).partition(". ")
            yield Finding("schema", f"{found}.", advice)
            return
        yield Finding("schema", f"{database.SCHEMA}, as this program needs.")
        yield _workers(conn)
        yield from _keys(conn)
        yield from _secrets(conn, settings)


def _settings(settings: Settings) -> str:
    asked = f"services are asked at {settings.services_url}, " if settings.services_url else ""
    return (
        f"{asked}port {settings.port}, lease {settings.lease_seconds:g} s, "
        f"heartbeat {settings.heartbeat_seconds:g} s."
    )


def _master_keys(settings: Settings) -> Finding:
    try:
        known = settings.master_keys()
    except BadSetting as error:
        return Finding("master key", "No worker can start and no key can be added.", f"{error}")
    return Finding("master key", f"{counted(len(known), 'master key')} in SLUICE_MASTER_KEYS.")


def _server(conn: psycopg.Connection, *, is_embedded: bool) -> Finding:
    info = conn.info
    whose = "embedded" if is_embedded else "of DATABASE_URL"
    how = "through a pooler" if database.is_pooled(conn) else "direct"
    major, minor = divmod(info.server_version, 10_000)
    found = f"PostgreSQL {major}.{minor}, {whose}, {info.dbname} at {info.host}:{info.port}, {how}."
    old = f"Sluice needs PostgreSQL {OLDEST_POSTGRES} or newer." if major < OLDEST_POSTGRES else ""
    return Finding("database", found, old)


def _workers(conn: psycopg.Connection) -> Finding:
    alive = [worker for worker in workers.see(conn) if worker.is_alive]
    if not alive:
        return Finding("workers", "No worker is running.", "Start one: python -m worker")
    held = sum(worker.held for worker in alive)
    return Finding("workers", f"{counted(len(alive), 'worker')} alive, {counted(held, 'job')} in progress.")


def _keys(conn: psycopg.Connection) -> Iterator[Finding]:
    """A service without a usable key is wrong when an active list asks it, or when no service has one."""
    seen = keys.see(conn)
    asked = {one.service for one in lists.see(conn) if one.state == "active"}
    for name in filter(needs_key, sorted({*SERVICES, *asked})):
        of_service = [key for key in seen if key.service == name]
        usable = sum(key.is_usable for key in of_service)
        found = (
            f"{name}: {usable:,} of {counted(len(of_service), 'key')} usable."
            if of_service
            else f"{name}: none."
        )
        if not usable and name in asked:
            add = f"Its jobs wait. Add one: flask keys add {name} --label NAME"
            yield Finding("keys", found, "Its jobs wait. See: flask keys list" if of_service else add)
        else:
            yield Finding("keys", found)
    if not any(key.is_usable for key in seen):
        yield Finding("keys", "No service has a usable key.", "Add one: flask keys add SERVICE --label NAME")


def _secrets(conn: psycopg.Connection, settings: Settings) -> Iterator[Finding]:
    try:
        vault = Vault(settings.master_keys())
    except BadSetting:
        return
    locked = keys.locked(conn, vault)
    if locked:
        names = ", ".join(f"“{shown(label)}” of {service}" for service, label in locked[:5])
        yield Finding(
            "secrets",
            f"{counted(len(locked), 'stored key')} cannot be opened: {names}.",
            "Add the master key that sealed them to the end of SLUICE_MASTER_KEYS.",
        )
    else:
        yield Finding("secrets", "The master keys open every stored key.")
