"""What `flask lists import` says beside what `webapp.uploads` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import psycopg
from flask import current_app

from services.company_lists import CompanyList
from services.registry import needs_key
from store import keys, workers
from store.lists import ListSeen, NewList
from webapp import folders
from webapp.commands.console import counted, one_line, shown, typed, warn
from webapp.display import exact
from webapp.uploads import Stored, how_read, what_became

SHOWN = 5


def options(given: Sequence[str]) -> dict[str, str]:
    """The options of `NAME=VALUE` texts."""
    found = {}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise click.ClickException(f"“{text}” is no option: write NAME=VALUE.")
        found[name] = value
    return found


def report(stored: Stored, companies: CompanyList, file: Path) -> None:
    """Say how the file was read and what became of each line."""
    click.echo(f"Read {shown(file.name)}: {one_line(how_read(companies))}.")
    there = len(companies.companies) - stored.added
    name = shown(stored.of.name)
    if stored.added == 0:
        known = "its company is" if there == 1 else f"all {there:,} companies are"
        click.echo(f"Nothing changed: {known} in “{name}” already.")
    else:
        made = "Made" if stored.is_new else "Added to"
        already = f", {there:,} there already" if there else ""
        click.echo(f"{made} “{name}”: {counted(stored.added, 'new company', 'new companies')}{already}.")
    click.echo(f"{one_line(what_became(companies))}.")
    _show_rejects([(f"line {one.line}", one.reason) for one in companies.rejects[:SHOWN]], stored.of.name)


def _show_rejects(rejects: Sequence[tuple[str, str]], name: str) -> None:
    for what, reason in rejects:
        click.echo(f"  {shown(what)}: {shown(reason, 120)}")
    if rejects:
        click.echo(f"  All of them: flask lists rejects {typed(name)}")


def folder(conn: psycopg.Connection, new: NewList, target: Path) -> Stored:
    """Make the list of the filings in a folder or archive, and say what became of each file."""
    root = current_app.extensions["database"].settings.filings_root
    of = folders.walk(root, target)
    stored = folders.store(conn, new, root, of)
    there = of.found - stored.added
    name = shown(stored.of.name)
    if stored.added == 0:
        click.echo(f"Nothing changed: “{name}” has all of {shown(target.name)}.")
    else:
        already = f", {there:,} there already" if there else ""
        made = "Made" if stored.is_new else "Added to"
        click.echo(f"{made} “{name}”: {counted(stored.added, 'new filing')}{already}.")
    click.echo(f"{counted(of.left_out, 'other file')} left out, {counted(of.rejected, 'file')} rejected.")
    _show_rejects([(one.content, one.reason) for one in of.rejects[:SHOWN]], stored.of.name)
    return stored


def warn_of_what_stays(one: ListSeen, asked: Mapping[str, Any]) -> None:
    """Say what was asked of a list that was there already and keeps what it has."""
    for field, wanted in asked.items():
        if (stays := getattr(one, field)) != wanted:
            what, _, unit = field.partition("_")
            said = {"start": "start", "due": "due time", "reuse": "age of reused answers"}.get(what, what)
            warn(f"the list is there already, and its {said} stays {_worded(stays, unit)}.")


def _worded(value: Any, unit: str) -> str:
    if isinstance(value, datetime):
        return exact(value)
    return "unset" if value is None else f"{value} {unit}".strip()


def warn_of_waiting(conn: psycopg.Connection, one: ListSeen, will_watch: bool) -> None:
    """Say why the list's jobs will not run, when that can be seen."""
    if one.state in ("paused", "cancelled"):
        warn(f"the list is {one.state}. To go on: flask lists resume {typed(one.name)}")
    if one.start_at > datetime.now(UTC):
        warn(f"nothing of it runs before {exact(one.start_at)}.")
    usable = any(key.service == one.service and key.is_usable for key in keys.see(conn))
    if needs_key(one.service) and not usable:
        warn(
            f"there is no usable key of {one.service}: jobs will wait, none fails. "
            f"Add one: flask keys add {one.service} --label NAME"
        )
    if will_watch and not any(worker.is_alive for worker in workers.see(conn)):
        warn("no worker is running: jobs will wait. Start one: python -m worker")
