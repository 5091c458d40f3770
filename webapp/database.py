"""The app's database: found when first needed, left when the process ends."""

from __future__ import annotations

import atexit
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property

import click
import psycopg
from flask import current_app
from flask_sqlalchemy import SQLAlchemy

from store import database
from store.models import Base
from store.settings import Settings
from store.start import CannotStart, reachable_database

db = SQLAlchemy(metadata=Base.metadata)


class Database:
    """Starts the embedded server, if that is what the settings say, with the first look at `url`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._stack = ExitStack()
        atexit.register(self._stack.close)

    @cached_property
    def url(self) -> str:
        """Its URL. Raises `click.ClickException` with what to do when it cannot be reached."""
        try:
            return self._stack.enter_context(reachable_database(self.settings))
        except CannotStart as error:
            raise click.ClickException(str(error)) from None

    def connect(self) -> psycopg.Connection:
        """A connection for the ORM's pool."""
        return psycopg.connect(self.url, application_name="sluice web", **database.ALIVE)


@contextmanager
def connection() -> Iterator[psycopg.Connection]:
    """An autocommit connection for a command, to a database with the schema of this program.

    Raises `click.ClickException` with what to do.
    """
    place: Database = current_app.extensions["database"]
    with database.connect(place.url, "sluice command") as conn:
        try:
            database.check_schema(conn)
        except database.WrongSchema as error:
            raise click.ClickException(str(error)) from None
        yield conn
