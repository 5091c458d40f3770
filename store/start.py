"""How every program of ours starts: settings, a database, a schema that fits, or one clear line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from store import database, settings
from store.embedded import EmbeddedError
from store.embedded import database as running_database
from store.settings import BadSetting, Settings

VAR = Path(__file__).resolve().parent.parent / "var"


class CannotStart(RuntimeError):
    """The program cannot start; its text says what to do."""


def read_settings() -> Settings:
    """The settings of this process. Raises `CannotStart`."""
    try:
        return settings.read(os.environ)
    except BadSetting as error:
        raise CannotStart(str(error)) from None


@contextmanager
def ready_database(chosen: Settings) -> Iterator[str]:
    """The URL of a database that answers and has the schema of this program. Raises `CannotStart`."""
    with reachable_database(chosen) as url:
        try:
            with database.connect(url, "sluice start") as conn:
                database.check_schema(conn)
        except database.WrongSchema as error:
            raise CannotStart(str(error)) from None
        except psycopg.Error as error:
            raise CannotStart(f"The database of DATABASE_URL cannot be used: {_line(error)}") from None
        yield url


@contextmanager
def reachable_database(chosen: Settings) -> Iterator[str]:
    """The URL of a database that answers, whatever its schema. Raises `CannotStart`."""
    try:
        with running_database(chosen, VAR) as url:
            try:
                database.connect(url, "sluice start").close()
            except psycopg.OperationalError as error:
                whose = "of DATABASE_URL" if chosen.database_url else "in this checkout's var/postgres"
                raise CannotStart(f"The database {whose} does not answer: {_line(error)}") from None
            yield url
    except EmbeddedError as error:
        raise CannotStart(str(error)) from None


def _line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())
