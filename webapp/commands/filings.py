"""`flask filings`: what is in filings on disk. Needs no database."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from services.filings import read_file
from services.registry import SERVICES
from services.service import Kind
from webapp.commands.console import Group, one_line, padded, shown, table


@dataclass(frozen=True, slots=True)
class Column:
    """What a line shows of a document: the first of `names` that it has. `width` is for terminals.

    Without `names`: the units of the line's figures.
    """

    title: str
    width: int
    names: tuple[str, ...]
    is_figure: bool = False


NET_ASSETS = "net_assets_liabilities_including_pension_asset_liability"
COLUMNS = (
    Column("Number", 10, ("companies_house_registered_number", "cik")),
    Column("Name", 28, ("entity_current_legal_name", "entity_name")),
    Column("Year end", 10, ("balance_sheet_date", "period_end")),
    Column("Turnover", 15, ("turnover_gross_operating_revenue", "revenue"), is_figure=True),
    Column("Result", 15, ("profit_loss_for_period", "net_income"), is_figure=True),
    Column("Equity", 15, ("shareholder_funds", NET_ASSETS, "stockholders_equity"), is_figure=True),
    Column("Unit", 4, ()),
)
FILE_WIDTH = 40
NARROW = 146
"""A terminal of fewer columns gets the file's end and what identifies the accounts; `--json` has it all."""
NARROW_FILE_WIDTH, NARROW_COLUMNS = 19, {"Number": 8, "Name": 14, "Year end": 10, "Equity": 15, "Unit": 4}
KINDS = {field.name: field.kind for service in SERVICES.values() for field in service.fields}
NOT_VALUES = ("file", "cause", "message", "units", "periods", "flags", "facts")
PRIOR = "_prior"


@click.group("filings", cls=Group, short_help="Read filings on disk; no database.")
def filings() -> None:
    """Read filings from files; no database, no service and no key is needed."""


@filings.command(short_help="Print what filings hold.")
@click.argument("files", nargs=-1, required=True, metavar="FILE…", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per document, each on its line.")
@click.option("--facts", is_flag=True, help="With every tagged fact; prints JSON.")
def read(files: tuple[Path, ...], as_json: bool, facts: bool) -> None:
    """Print what iXBRL, XBRL and companyfacts FILEs hold; of archives every document in them."""
    unread: list[Path] = []
    documents = _documents(files, unread, with_facts=facts)
    if as_json or facts:
        for document in documents:
            click.echo(json.dumps(document, ensure_ascii=False))
    elif sys.stdout.isatty():
        _show(documents)
    else:
        for document in documents:
            click.echo("\t".join(_line(document)))
    if unread:
        raise click.exceptions.Exit(1)


def _documents(files: Sequence[Path], unread: list[Path], with_facts: bool) -> Iterator[dict[str, Any]]:
    """Of every file that can be opened; one that cannot is said at once and appended to `unread`."""
    for file in files:
        try:
            data = file.read_bytes()
        except OSError as error:
            unread.append(file)
            click.echo(f"Error: {one_line(str(file))} cannot be read: {error.strerror}.", err=True)
            continue
        yield from read_file(file.name, data, with_facts=with_facts)


def _line(document: Mapping[str, Any]) -> list[str]:
    """File, what became of it, and what identifies the accounts; blank where there is nothing."""
    cells = [one_line(document["file"]), document["cause"] or "ok"]
    if document["cause"]:
        return [*cells, one_line(document["message"])]
    return [*cells, *(one_line(_first(document, column)) for column in COLUMNS), " ".join(document["flags"])]


def _first(document: Mapping[str, Any], column: Column) -> str:
    if not column.names:
        return " ".join(_units(document, [_name(document, one) for one in COLUMNS if one.is_figure]))
    name = _name(document, column)
    return str(document[name]) if name else ""


def _name(document: Mapping[str, Any], column: Column) -> str | None:
    return next((name for name in column.names if document.get(name) is not None), None)


def _units(document: Mapping[str, Any], names: Iterable[str | None]) -> list[str]:
    """Each unit of these values once."""
    return list(dict.fromkeys(document["units"][name] for name in names if name in document["units"]))


def _show(documents: Iterator[dict[str, Any]]) -> None:
    """One document in full, or a line for each of several."""
    first = list(itertools.islice(documents, 2))
    if len(first) == 1 and first[0]["cause"] is None:
        _show_in_full(first[0])
        return
    width = shutil.get_terminal_size().columns
    columns, file_width = (COLUMNS, FILE_WIDTH) if width >= NARROW else (_narrow(), NARROW_FILE_WIDTH)
    head = [padded(column.title, column.width, column.is_figure) for column in columns]
    if width >= NARROW:
        head.append("Flags")
    click.echo("  ".join([padded("File", file_width), *head]).rstrip())
    for document in itertools.chain(first, documents):
        cells = list(_aligned(document, columns, file_width, max(width - file_width - 2, 20)))
        click.echo("  ".join(cells if width >= NARROW or document["cause"] else cells[:-1]).rstrip())


def _narrow() -> tuple[Column, ...]:
    return tuple(
        replace(column, width=NARROW_COLUMNS[column.title])
        for column in COLUMNS
        if column.title in NARROW_COLUMNS
    )


def _aligned(
    document: Mapping[str, Any], columns: Sequence[Column], file_width: int, rest_width: int
) -> Iterator[str]:
    name = one_line(document["file"])  # its end tells documents of one archive apart
    yield padded(name if len(name) <= file_width else "…" + name[1 - file_width :], file_width)
    if document["cause"]:
        yield shown(f"{document['cause']}: {document['message']}", rest_width)
        return
    for column in columns:
        value = _first(document, column)
        text = f"{Decimal(value):,}" if value and column.is_figure else shown(value, column.width)
        yield padded(text, column.width, column.is_figure)
    yield " ".join(document["flags"])


def _show_in_full(document: Mapping[str, Any]) -> None:
    """Texts and dates first, then figures beside those of the year before and their unit."""
    values = {name: value for name, value in document.items() if name not in NOT_VALUES}
    figures = [name for name in values if KINDS.get(name) in (Kind.NUMBER, Kind.INTEGER, Kind.MONEY)]
    click.echo(shown(document["file"], 200))
    table(("", ""), [(name, _text(value)) for name, value in values.items() if name not in figures], "  ")
    names = dict.fromkeys(name.removesuffix(PRIOR) for name in figures)
    has_prior = any(name.endswith(PRIOR) for name in figures)
    head = ("", "Latest", "Year before", "Unit") if has_prior else ("", "Latest", "Unit")
    endings = ("", PRIOR)[: len(head) - 2]
    rows = []
    for name in names:
        columns = [name + end for end in endings]
        unit = shown(" ".join(_units(document, columns)))
        rows.append((name, *(_number(values.get(column)) for column in columns), unit))
    table(head, rows, "  ")
    if document["flags"]:
        click.echo("  Flags: " + " ".join(document["flags"]))


def _number(text: str | None) -> Decimal | None:
    return None if text is None else Decimal(text)


def _text(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case None:
            return ""
        case _:
            return str(value)
