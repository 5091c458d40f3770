"""Exports and rejects on their way to standard output or into a file that is whole or not there."""

from __future__ import annotations

import codecs
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC
from pathlib import Path
from typing import IO

import click
import psycopg

from store.export import written
from store.lists import ListSeen
from store.rejects import Rejected
from webapp.commands.console import counted, shown
from webapp.exports import FORMATS, Download


def export(
    conn: psycopg.Connection,
    one: ListSeen,
    output: Path | None,
    form: str | None,
    with_sources: bool,
    with_mark: bool,
) -> None:
    """Write the list as `form` (else as the file's name ends, else CSV) and say how much as of when."""
    suffix = output.suffix.removeprefix(".").lower() if output else ""
    form = form or (suffix if suffix in FORMATS else "csv")
    if with_mark and form != "csv":
        raise click.ClickException(f"Only CSV may begin with a byte order mark; this is {form}.")
    mark, chosen = codecs.BOM_UTF8 if with_mark else b"", FORMATS[form]
    to_stdout = output is None or str(output) == "-"
    if to_stdout and not chosen.is_text and sys.stdout.isatty():
        raise click.ClickException("A workbook is no text for a terminal. Give a file: -o FILE.xlsx")
    if output is None or to_stdout:
        _pour(mark, chosen.write(conn, one, with_sources), sys.stdout.buffer)
        return
    with _whole_file(output) as file:
        download = chosen.write(conn, one, with_sources)
        _pour(mark, download, file)
    as_of = download.as_of.astimezone(UTC)
    click.echo(
        f"Wrote {counted(download.count, 'job')} as of {as_of:%Y-%m-%d %H:%M:%S} UTC to {shown(str(output))}."
    )


def print_rejects(rejects: Sequence[Rejected]) -> None:
    """The lines as CSV; cells that a spreadsheet would run as a formula are defused."""
    stream = sys.stdout.buffer
    for text in written(("line", "content", "reason"), ([str(r.line), r.content, r.reason] for r in rejects)):
        stream.write(text.encode())
    stream.flush()


def _pour(mark: bytes, download: Download, file: IO[bytes]) -> None:
    file.write(mark)
    for chunk in download.chunks:
        file.write(chunk)
    file.flush()


@contextmanager
def _whole_file(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of `path` when all is written; on failure the old one stays."""
    target = path.resolve()
    if target.exists() and not target.is_file():  # such as /dev/null, which must not be replaced
        with target.open("wb") as file:
            yield file
        return
    if not target.parent.is_dir():
        raise click.ClickException(f"There is no directory {target.parent}.")
    handle, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            os.fchmod(file.fileno(), _usual_mode())
        os.replace(beside, target)
    except BaseException:
        os.unlink(beside)
        raise


def _usual_mode() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
