"""What `flask lists import` says beside what `webapp.uploads` does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import psycopg

from services.company_lists import CompanyList
from store import keys, workers
from store.lists import ListSeen
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
    for reject in companies.rejects[:SHOWN]:
        click.echo(f"  line {reject.line}: {shown(reject.reason, 120)}")
    if companies.rejects:
        click.echo(f"  All of them: flask lists rejects {typed(stored.of.name)}")


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
    if not any(key.service == one.service and key.is_usable for key in keys.see(conn)):
        warn(
            f"there is no usable key of {one.service}: jobs will wait, none fails. "
            f"Add one: flask keys add {one.service} --label NAME"
        )
    if will_watch and not any(worker.is_alive for worker in workers.see(conn)):
        warn("no worker is running: jobs will wait. Start one: python -m worker")
