"""`flask filings`: what is in filings on disk. Needs no database."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from services.filings import read_file
from webapp.commands.console import Group, one_line, shown, table

# What a line shows of a document: the first of these names that it has.
COLUMNS: dict[str, tuple[str, ...]] = {
    "Number": ("companies_house_registered_number", "cik"),
    "Name": ("entity_current_legal_name", "entity_name"),
    "Year end": ("balance_sheet_date", "period_end"),
    "Turnover": ("turnover_gross_operating_revenue", "revenue"),
    "Result": ("profit_loss_for_period", "net_income"),
    "Equity": (
        "shareholder_funds",
        "net_assets_liabilities_including_pension_asset_liability",
        "stockholders_equity",
    ),
}
NOT_VALUES = ("file", "cause", "message", "periods", "flags", "facts")
PERIODS_SHOWN = 4


@click.group("filings", cls=Group, short_help="Read filings on disk; no database.")
def filings() -> None:
    """Read filings from files; no database, no service and no key is needed."""


@filings.command(short_help="Print what filings hold.")
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per document, each on its line.")
@click.option("--facts", is_flag=True, help="With every tagged fact; prints JSON.")
def read(files: tuple[Path, ...], as_json: bool, facts: bool) -> None:
    """Print what iXBRL, XBRL and companyfacts FILEs hold; of archives every document in them."""
    documents = _documents(files, with_facts=facts)
    if as_json or facts:
        for document in documents:
            click.echo(json.dumps(document, ensure_ascii=False))
    elif sys.stdout.isatty():
        _show(documents)
    else:
        for document in documents:
            click.echo("\t".join(_line(document)))


def _documents(files: Sequence[Path], with_facts: bool) -> Iterator[dict[str, Any]]:
    """Of every file that can be opened; one that cannot is said at once, and fails the command at the end."""
    unread = 0
    for file in files:
        try:
            data = file.read_bytes()
        except OSError as error:
            unread += 1
            click.echo(f"Error: {one_line(str(file))} cannot be read: {error.strerror}.", err=True)
            continue
        yield from read_file(file.name, data, with_facts=with_facts)
    if unread:
        raise click.exceptions.Exit(1)


def _show(documents: Iterator[dict[str, Any]]) -> None:
    """One document in full, or a line for each of several."""
    first = list(itertools.islice(documents, 2))
    if len(first) == 1 and first[0]["cause"] is None:
        _show_in_full(first[0])
        list(documents)  # to its end, where files that could not be opened fail the command
        return
    for document in itertools.chain(first, documents):
        click.echo("  ".join(part for part in _line(document) if part))


def _line(document: Mapping[str, Any]) -> list[str]:
    """File, what became of it, and what identifies the accounts; blank where there is nothing."""
    cells = [shown(document["file"], 200), document["cause"] or "ok"]
    if document["cause"]:
        return [*cells, shown(document["message"], 200)]
    for names in COLUMNS.values():
        value = next((document[name] for name in names if document.get(name) is not None), None)
        cells.append("" if value is None else shown(_text(value)))
    return [*cells, " ".join(document["flags"])]


def _show_in_full(document: Mapping[str, Any]) -> None:
    click.echo(shown(document["file"], 200))
    rows = [(name, _text(value)) for name, value in document.items() if name not in NOT_VALUES]
    table(("Value", "Latest year"), rows, indent="  ")


def _text(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case None:
            return ""
        case _:
            return str(value)
