"""A list as a table: every row once, as of one moment, streamed from a spool file.

The snapshot is held only as long as the database needs to copy the rows out, never while somebody reads.
"""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections.abc import Iterator, Sequence

import psycopg
from psycopg import sql

CHUNK = 1 << 16
HEAD = ("company", "name", "status", "outcome", "cause", "message")
PLAIN_NUMBER = re.compile(r"[-+]?\d+(\.\d+)?")

# A cell may be as long as a jsonb value; the reader's own limit of 128 KiB would stop the export.
csv.field_size_limit(1 << 30)

ROWS = """
COPY (SELECT {columns} FROM job WHERE list_id = {list_id} ORDER BY line NULLS LAST, id)
TO STDOUT (FORMAT csv, ENCODING 'UTF8')
"""


def header(fields: Sequence[str]) -> list[str]:
    """The column names of `rows`."""
    return [*HEAD, *fields]


def rows(conn: psycopg.Connection, list_id: int, fields: Sequence[str]) -> Iterator[list[str]]:
    """The list's jobs in the order of its file, one cell of text per column, '' for what is missing."""
    cells: list[sql.Composable] = [sql.Identifier(name) for name in HEAD]
    cells += [sql.SQL("result->'values'->>{}").format(sql.Literal(name)) for name in fields]
    statement = sql.SQL(ROWS).format(columns=sql.SQL(", ").join(cells), list_id=sql.Literal(list_id))
    with tempfile.TemporaryFile() as spool:
        with conn.cursor().copy(statement) as copy:
            for chunk in copy:
                spool.write(chunk)
        spool.seek(0)
        with io.TextIOWrapper(spool, encoding="utf-8", newline="") as lines:
            yield from csv.reader(lines)


def as_csv(conn: psycopg.Connection, list_id: int, fields: Sequence[str]) -> Iterator[str]:
    """The list as CSV text in chunks; cells that a spreadsheet would run as a formula are defused."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(map(harmless, header(fields)))
    for row in rows(conn, list_id, fields):
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
