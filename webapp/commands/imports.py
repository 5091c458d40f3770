"""From a file to a list, in one transaction, with every line of the file accounted for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import psycopg

from services.company_lists import CompanyList, read_companies
from services.registry import SERVICES
from services.service import Service
from store import jobs, keys, lists, workers
from store.jobs import NewJob
from store.lists import ListSeen, NewList, Rejected
from webapp.commands.console import counted, shown, typed, warn

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", "": "one column"}
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Stored:
    """What an import changed: `added` companies are new; `is_new` when the list is."""

    added: int
    is_new: bool
    of: ListSeen


def service_named(name: str) -> Service:
    """The service of this name, or a refusal that names all."""
    if name not in SERVICES:
        raise click.ClickException(f"There is no service “{name}”. Services: {', '.join(sorted(SERVICES))}.")
    return SERVICES[name]


def plan(
    name: str, service: str, options: Sequence[str], fields: Sequence[str], priority: int | None
) -> NewList:
    """The list that is asked for, with the service's own options and fields where none are given."""
    asked = service_named(service)
    known = [field.name for field in asked.fields]
    for field in fields:
        if field not in known:
            raise click.ClickException(f"{service} has no field “{field}”. Fields: {', '.join(known)}.")
    wanted = list(dict.fromkeys(fields)) or known
    required = [field.name for field in asked.fields if field.required and field.name in wanted]
    return NewList(name, service, wanted, required, _options(asked, options), priority or 0)


def read(file: Path, service: str) -> CompanyList:
    """The companies in a file. Refuses a file of which no line names one."""
    companies = read_companies(file.read_bytes(), file.name, SERVICES[service].identify)
    if not companies.companies:
        first = companies.rejects[0]
        raise click.ClickException(
            f"{file.name} names no company: {counted(len(companies.rejects), 'line')} rejected, "
            f"the first is line {first.line}: {first.reason} Nothing was stored."
        )
    return companies


def store(conn: psycopg.Connection, new: NewList, companies: CompanyList) -> Stored:
    """List, jobs and rejects in one transaction. What is there already stays as it is."""
    with conn.transaction():
        is_new = not lists.see(conn, new.name)
        list_id = lists.create(conn, new)
        found = (NewJob(c.number, c.name, dict(c.extra), c.line) for c in companies.companies)
        added = jobs.enqueue(conn, list_id, found)
        lists.keep_rejects(conn, list_id, [Rejected(r.line, r.text, r.reason) for r in companies.rejects])
        return Stored(added, is_new, lists.see(conn, new.name)[0])


def report(stored: Stored, companies: CompanyList, file: Path) -> None:
    """Say how the file was read and what became of each line."""
    click.echo(f"Read {shown(file.name)}: {_how_read(companies)}.")
    there = len(companies.companies) - stored.added
    name = shown(stored.of.name)
    if stored.added == 0:
        known = "its company is" if there == 1 else f"all {there:,} companies are"
        click.echo(f"Nothing changed: {known} in “{name}” already.")
    else:
        made = "Made" if stored.is_new else "Added to"
        already = f", {there:,} there already" if there else ""
        click.echo(f"{made} “{name}”: {counted(stored.added, 'new company', 'new companies')}{already}.")
    click.echo(_counts(companies))
    for reject in companies.rejects[:SHOWN]:
        click.echo(f"  line {reject.line}: {shown(reject.reason, 120)}")
    if companies.rejects:
        click.echo(f"  All of them: flask lists rejects {typed(stored.of.name)}")


def warn_of_waiting(conn: psycopg.Connection, one: ListSeen, will_watch: bool) -> None:
    """Say why the list's jobs will not run, when that can be seen."""
    if one.state in ("paused", "cancelled"):
        warn(f"the list is {one.state}. To go on: flask lists resume {typed(one.name)}")
    if not any(key.service == one.service and key.is_usable for key in keys.see(conn)):
        warn(
            f"there is no usable key of {one.service}: jobs will wait, none fails. "
            f"Add one: flask keys add {one.service} --label NAME"
        )
    if will_watch and not any(worker.is_alive for worker in workers.see(conn)):
        warn("no worker is running: jobs will wait. Start one: python -m worker")


def _options(service: Service, given: Sequence[str]) -> dict[str, str]:
    settings = {name: option.default for name, option in service.options.items()}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals:
            raise click.ClickException(f"“{text}” is no option: write NAME=VALUE.")
        if name not in settings:
            known = ", ".join(settings) or "none"
            raise click.ClickException(f"{service.name} has no option “{name}”. Options: {known}.")
        choices = service.options[name].choices
        if choices and value not in choices:
            raise click.ClickException(f"{name} is “{value}”: it must be {' or '.join(choices)}.")
        settings[name] = value
    return settings


def _how_read(companies: CompanyList) -> str:
    separated = DELIMITERS.get(companies.delimiter, f"“{companies.delimiter}”")
    encoding = companies.encoding.removesuffix("-sig").replace("utf", "UTF")
    how = [f"worksheet “{shown(companies.sheet)}”"] if companies.sheet else [encoding, separated]
    if companies.header_line is None:
        how.append("no heading")
    else:
        how.append(f"heading in line {companies.header_line}")
    how.append("numbers from " + " or ".join(f"“{shown(name)}”" for name in companies.number_columns))
    if companies.name_column:
        how.append(f"names from “{shown(companies.name_column)}”")
    return ", ".join(how)


def _counts(companies: CompanyList) -> str:
    merged = f"{counted(companies.merged, 'duplicate')} merged"
    repaired = f"{counted(companies.repaired, 'number')} repaired"
    if companies.repairs:
        first = companies.repairs[0]
        repaired += f" (such as {shown(first.written, 30)} to {first.number} in line {first.line})"
    return f"{merged}, {repaired}, {counted(len(companies.rejects), 'line')} rejected."
