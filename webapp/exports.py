"""A list as a file to take away: CSV, JSON lines or a workbook, written in constant memory."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import psycopg
from openpyxl import Workbook
from openpyxl.cell import WriteOnlyCell
from openpyxl.cell.cell import ERROR_CODES, ILLEGAL_CHARACTERS_RE

from services.registry import SERVICES
from services.service import Kind
from services.typed import columns
from store import export
from store.lists import ListSeen

# Of a worksheet, by Excel's specifications and limits.
MOST_ROWS = 1_048_576 - 1
LONGEST_TEXT = 32_767
EXACT_DIGITS = 15
FIRST_DAY = date(1900, 3, 1)  # before it Excel counts a day that never was

Cell = str | int | float | Decimal | date | bool | None


class TooManyRows(ValueError):
    """The list does not fit on a worksheet; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Download:
    """A list as it was at `as_of`: `count` jobs, and the bytes of the file, to be read once."""

    as_of: datetime
    count: int
    chunks: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class Format:
    """A kind of file. `write(conn, a_list, with_sources)`: where values are from is asked for or left out."""

    media_type: str
    is_text: bool
    write: Callable[[psycopg.Connection, ListSeen, bool], Download]


def as_csv(conn: psycopg.Connection, a_list: ListSeen, with_sources: bool) -> Download:
    """UTF-8 without a byte order mark; with sources three columns more for each field."""
    table = export.as_csv(conn, a_list.id, a_list.fields, with_sources)
    return Download(table.as_of, table.count, (text.encode() for text in table))


def as_jsonl(conn: psycopg.Connection, a_list: ListSeen, with_sources: bool) -> Download:
    """One JSON object for each company, always with the sources: they cost no column here."""
    del with_sources
    table = export.records(conn, a_list.id, a_list.fields)
    return Download(table.as_of, table.count, iter(table))


def as_xlsx(conn: psycopg.Connection, a_list: ListSeen, with_sources: bool) -> Download:
    """A workbook with numbers as numbers, dates as dates and everything else as text that is never run."""
    table = export.records(conn, a_list.id, a_list.fields)
    if table.count > MOST_ROWS:
        table.close()
        raise TooManyRows(
            f"A worksheet holds {MOST_ROWS:,} rows and this list has {table.count:,}. Use csv or jsonl."
        )
    return Download(table.as_of, table.count, _workbook(table, a_list, with_sources))


FORMATS: dict[str, Format] = {
    "csv": Format("text/csv; charset=utf-8", True, as_csv),
    "jsonl": Format("application/jsonl", True, as_jsonl),
    "xlsx": Format("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", False, as_xlsx),
}


def _workbook(table: export.Snapshot[bytes], a_list: ListSeen, with_sources: bool) -> Iterator[bytes]:
    service = SERVICES.get(a_list.service)
    kinds = {one.name: one.kind for one in columns(service, a_list.fields, a_list.types)} if service else {}
    book = Workbook(write_only=True)
    sheet = book.create_sheet("Companies")
    sheet.freeze_panes = "B2"
    sheet.append(export.header(a_list.fields, with_sources))
    for line in table:
        record = json.loads(line, parse_float=Decimal)
        cells = [_cell(record[name], Kind.TEXT) for name in export.HEAD]
        cells += _field_cells(record, a_list.fields, kinds, with_sources)
        sheet.append([_never_run(sheet, cell) for cell in cells])
    with tempfile.TemporaryFile() as file:
        book.save(file)
        file.seek(0)
        while chunk := file.read(export.CHUNK):
            yield chunk


def _field_cells(
    record: Mapping[str, Any], fields: Sequence[str], kinds: Mapping[str, Kind], with_sources: bool
) -> Iterator[Cell]:
    for name in fields:
        yield _cell(record["values"][name], kinds.get(name, Kind.TEXT))
        if with_sources:
            source = record["sources"].get(name, {})
            parts = [source[part] for part in ("tag", "context", "document", "position") if source.get(part)]
            parts += [f"filed {source['filed']}"] if source.get("filed") else []
            yield _cell(source.get("unit"), Kind.TEXT)
            yield _cell(" · ".join(parts) or None, Kind.TEXT)
            yield _cell(" ".join(record["flags"].get(name, ())) or None, Kind.TEXT)


def _cell(value: Any, kind: Kind) -> Cell:
    """The value as a worksheet can hold it; a number of more digits than Excel keeps stays text."""
    match value:
        case None | bool():
            return value
        case int() | Decimal():
            number = Decimal(value)
            is_exact = len(number.normalize().as_tuple().digits) <= EXACT_DIGITS
            return value if is_exact else format(number, "f")
        case str() if kind is Kind.DATE:
            return _day(value)
        case str():
            return _storable(value)
        case _:
            return _storable(json.dumps(value, ensure_ascii=False, default=str))


def _day(value: str) -> Cell:
    try:
        day = date.fromisoformat(value)
    except ValueError:
        return _storable(value)
    return day if day >= FIRST_DAY else value


def _storable(value: str) -> str:
    """Without what XML cannot hold, and cut where Excel would refuse the file."""
    plain = ILLEGAL_CHARACTERS_RE.sub("", value).replace("\ufffe", "").replace("\uffff", "")
    return plain if len(plain) <= LONGEST_TEXT else plain[: LONGEST_TEXT - 1] + "…"


def _never_run(sheet: Any, cell: Cell) -> Any:
    """openpyxl takes text that begins with = for a formula, and #N/A for an error, and writes numbers by way
    of floats: a number is given to it as its digits."""
    if isinstance(cell, int | Decimal) and not isinstance(cell, bool):
        written = WriteOnlyCell(sheet, value=format(Decimal(cell), "f"))
        written.data_type = "n"
        return written
    if isinstance(cell, str) and (cell.startswith("=") or cell in ERROR_CODES):
        written = WriteOnlyCell(sheet, value=cell)
        written.data_type = "s"
        return written
    return cell
