"""What commands print: counts, tables and refusals in one line, safe on any terminal whatever the text."""

from __future__ import annotations

import json
import shlex
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import click
import psycopg
from flask.cli import AppGroup

from services.company_lists import UnusableFile
from store.accounts import LimitsDiffer
from store.cleaning import Unstorable
from store.keys import KeyTaken
from store.limits import BadLimit
from store.lists import NameTaken
from store.settings import BadSetting
from webapp import names
from webapp.exports import TooManyRows
from webapp.names import LONGEST_NAME
from webapp.uploads import NotUsable

LONGEST_CELL = 60
REFUSALS = (
    BadLimit, BadSetting, KeyTaken, LimitsDiffer, NameTaken, NotUsable, TooManyRows, UnusableFile, Unstorable,
)  # fmt: skip

Cell = str | int | Decimal | None


@contextmanager
def refusing_in_one_line() -> Iterator[None]:
    """Turn what people can do something about into `Error: …`, one line, exit code 1."""
    try:
        yield
    except (click.UsageError, BrokenPipeError):  # click words the one, and ends quietly for the other
        raise
    except click.ClickException as error:
        raise click.ClickException(one_line(error.message)) from None
    except OSError as error:
        about = f"{error.filename}: " if error.filename else ""
        raise click.ClickException(one_line(f"{about}{error.strerror or error}.")) from None
    except REFUSALS as error:
        raise click.ClickException(one_line(str(error))) from None
    except psycopg.Error as error:
        raise click.ClickException(_of_database(error)) from None


class Group(AppGroup):
    """A group of commands that fail in one line."""

    def invoke(self, ctx: click.Context) -> Any:
        with refusing_in_one_line():
            return super().invoke(ctx)


def shown(text: str, longest: int = LONGEST_CELL) -> str:
    """The text on one line, without what steers a terminal, cut to what can be read."""
    plain = one_line(text[: 4 * longest])
    return plain if len(plain) <= longest else plain[: longest - 1] + "…"


def typed(name: str) -> str:
    """The name as it is typed in a shell."""
    return shown(shlex.quote(name), 2 * LONGEST_NAME)


def one_line(text: str) -> str:
    """The text with blanks for line breaks and � for what cannot be printed, escapes and bidi marks too."""
    return "".join(c if c.isprintable() else "�" for c in " ".join(text.split()))


def counted(n: int, one: str, many: str | None = None) -> str:
    """`1 company`, `12,480 companies`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def table(head: Sequence[str], rows: Sequence[Sequence[Cell]], indent: str = "") -> None:
    """Print rows under a heading, if it is not blank: texts to the left, numbers grouped to the right."""
    texts = [[_text(cell) for cell in row] for row in rows]
    right = [any(isinstance(row[i], int | Decimal) for row in rows) for i in range(len(head))]
    widths = [max(_width(line[i]) for line in [list(head), *texts]) for i in range(len(head))]
    for line in [list(head), *texts] if any(head) else texts:
        cells = (padded(*cell) for cell in zip(line, widths, right, strict=True))
        click.echo((indent + "  ".join(cells)).rstrip())


def print_json(value: object) -> None:
    """The value as indented JSON, on standard output."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def name_of(what: str) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """A check for click of a name that a person gives: what blanks surround it does not matter."""

    def check(_context: click.Context, _parameter: click.Parameter, value: str | None) -> str | None:
        if value is None:
            return None
        name = value.strip()
        if wrong := names.problem(what, name):
            raise click.ClickException(wrong)
        return name

    return check


def warn(text: str) -> None:
    """Say what a person should know, on standard error."""
    click.echo(f"Warning: {text}", err=True)


def _of_database(error: psycopg.Error) -> str:
    said = one_line(error.diag.message_primary or str(error))
    is_lost = (error.sqlstate or "08").startswith(
        ("08", "57P")
    )  # connection exception, operator intervention
    if isinstance(error, psycopg.OperationalError) and is_lost:
        return f"The connection to the database was lost: {said}"
    return f"The database refused: {said}"


def _text(cell: Cell) -> str:
    match cell:
        case None:
            return ""
        case int() | Decimal():
            return f"{cell:,}"
        case str():
            return shown(cell)


def _width(text: str) -> int:
    """Columns on a terminal: two for wide letters, none for accents that join the letter before them."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def padded(text: str, width: int, to_the_right: bool = False) -> str:
    """The text with blanks up to a width in columns of a terminal."""
    blanks = " " * (width - _width(text))
    return blanks + text if to_the_right else text + blanks
