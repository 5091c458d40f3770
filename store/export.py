"""A list as a table: every row once, as of one moment, streamed from a spool file.

The snapshot is held only as long as the database needs to copy the rows out, never while somebody reads.
"""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Generic, TypeVar

import psycopg
from psycopg import sql

CHUNK = 1 << 16
SOURCE_COLUMNS = ("_unit", "_source", "_flags")
HEAD = ("company", "name", "status", "outcome", "cause", "message")
PLAIN_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")

# A cell may be as long as a jsonb value; the reader's own limit of 128 KiB would stop the export.
csv.field_size_limit(1 << 30)

ROWS = """
COPY (SELECT {columns} FROM job WHERE list_id = {list_id} ORDER BY line NULLS LAST, id)
TO STDOUT (FORMAT csv, ENCODING 'UTF8')
"""

UNIT_OF = "result->'sources'->{0}->>'unit'"
SOURCE_OF = """(SELECT concat_ws(' · ', s->>'tag', s->>'context', s->>'document', s->>'position',
    'filed ' || (s->>'filed')) FROM (SELECT result->'sources'->{0}) AS _(s))"""
FLAGS_OF = "(SELECT string_agg(f, ' ') FROM jsonb_array_elements_text(result->'flags'->{0}) f)"

# `json`, not `jsonb`: it keeps the order of the columns. JSON text has no raw tab or newline, so that in
# this format of COPY a record is a line and only backslashes are doubled.
RECORDS = """
COPY (SELECT json_build_object(
    'company', company, 'name', name, 'status', status, 'outcome', outcome, 'cause', cause,
    'message', message,
    'values', (SELECT json_object_agg(f.name, result->'values'->f.name ORDER BY f.no)
               FROM unnest({fields}::text[]) WITH ORDINALITY f(name, no)),
    'sources', coalesce(result->'sources', '{{}}'), 'flags', coalesce(result->'flags', '{{}}'),
    'notes', coalesce(result->'notes', '[]'))
  FROM job WHERE list_id = {list_id} ORDER BY line NULLS LAST, id)
TO STDOUT (ENCODING 'UTF8')
"""

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Snapshot(Generic[Row]):
    """A list as it was at `as_of` by the database's clock: `count` jobs, to be iterated over once.

    Its spool file is closed by who reads to the end, or by `close`.
    """

    as_of: datetime
    count: int
    _rows: Iterator[Row]
    _spool: IO[bytes]

    def __iter__(self) -> Iterator[Row]:
        return self._rows

    def close(self) -> None:
        self._spool.close()


def header(fields: Sequence[str], with_sources: bool = False) -> list[str]:
    """The column names of `rows`."""
    if not with_sources:
        return [*HEAD, *fields]
    return [*HEAD, *(field + more for field in fields for more in ("", *SOURCE_COLUMNS))]


def rows(
    conn: psycopg.Connection, list_id: int, fields: Sequence[str], with_sources: bool = False
) -> Snapshot[list[str]]:
    """The list's jobs in the order of its file, one cell of text per column, '' for what is missing.

    `with_sources`: after each field its unit, where it is from (tag · context · document · position · filed
    2024-05-01, of these what is known) and its flags, separated by blanks.
    """
    cells: list[sql.Composable] = [sql.Identifier(name) for name in HEAD]
    for name in map(sql.Literal, fields):
        cells.append(sql.SQL("result->'values'->>{}").format(name))
        if with_sources:
            cells += [sql.SQL(of).format(name) for of in (UNIT_OF, SOURCE_OF, FLAGS_OF)]
    statement = sql.SQL(ROWS).format(columns=sql.SQL(", ").join(cells), list_id=sql.Literal(list_id))
    as_of, count, spool = _copied(conn, statement)
    return Snapshot(as_of, count, _cells(spool), spool)


def records(conn: psycopg.Connection, list_id: int, fields: Sequence[str]) -> Snapshot[bytes]:
    """The same as one JSON object per job: the columns of `HEAD`, values, sources, flags and notes.

    `values` has every field, null where it is missing; numbers are exact.
    """
    statement = sql.SQL(RECORDS).format(fields=sql.Literal(list(fields)), list_id=sql.Literal(list_id))
    as_of, count, spool = _copied(conn, statement)
    return Snapshot(as_of, count, _lines(spool), spool)


def as_csv(
    conn: psycopg.Connection, list_id: int, fields: Sequence[str], with_sources: bool = False
) -> Snapshot[str]:
    """The list as CSV text in chunks; cells that a spreadsheet would run as a formula are defused."""
    table = rows(conn, list_id, fields, with_sources)
    text = written(header(fields, with_sources), table)
    return Snapshot(table.as_of, table.count, text, table._spool)


def written(head: Sequence[str], table: Iterable[Sequence[str]]) -> Iterator[str]:
    """A table as CSV text in chunks, every cell harmless."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(map(harmless, head))
    for row in table:
        writer.writerow([harmless(cell) for cell in row])
        if buffer.tell() > CHUNK:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def harmless(cell: str) -> str:
    """The cell, with an apostrophe before anything but a number that a spreadsheet takes for a formula.

    Source: OWASP, CSV Injection.
    """
    if cell[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") and not PLAIN_NUMBER.fullmatch(cell):
        return "'" + cell
    return cell


def _copied(conn: psycopg.Connection, statement: sql.Composed) -> tuple[datetime, int, IO[bytes]]:
    clock = conn.execute("SELECT clock_timestamp()").fetchone()
    if clock is None:
        raise AssertionError("a SELECT without FROM has one row")
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed by who reads it to the end
    cursor = conn.cursor()
    with cursor.copy(statement) as copy:
        for chunk in copy:
            spool.write(chunk)
    spool.seek(0)
    return clock[0], cursor.rowcount, spool


def _cells(spool: IO[bytes]) -> Iterator[list[str]]:
    with io.TextIOWrapper(spool, encoding="utf-8", newline="") as text:
        yield from csv.reader(text)


def _lines(spool: IO[bytes]) -> Iterator[bytes]:
    with spool:
        for line in spool:
            yield line.replace(b"\\\\", b"\\")
