"""The app's database: found when first needed, left when the process ends."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from typing import Any

import click
import psycopg
from flask import current_app
from flask_sqlalchemy import SQLAlchemy
from psycopg_pool import ConnectionPool

from store import database
from store.models import Base
from store.settings import Settings
from store.start import CannotStart, reachable_database

# One for each thread that serves requests; more would only queue in the database.
POOL_SIZE = 8
POOL_WAIT_SECONDS = 5.0
STATEMENT_SECONDS = 10

db = SQLAlchemy(metadata=Base.metadata)

type_of_pool = ConnectionPool[psycopg.Connection[Any]]


class Unavailable(RuntimeError):
    """No page can be served from the database now; the text says why."""


class Database:
    """Starts the embedded server, if that is what the settings say, with the first look at `url`."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._stack = ExitStack()
        self._opening = threading.Lock()
        self._pool: type_of_pool | None = None
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

    def pool(self) -> type_of_pool:
        """The connections that pages use, autocommit; opened by the first page.

        Raises `Unavailable`, and `database.WrongSchema` while the migrations have not been run.
        """
        with self._opening:
            if self._pool is None:
                try:
                    pool = _opened(self.url)
                except (click.ClickException, psycopg.OperationalError) as error:
                    raise Unavailable(str(error)) from None
                self._stack.callback(pool.close)
                self._pool = pool
            return self._pool

    def close(self) -> None:
        """Give the connections back; a test that made an app of its own calls it."""
        self._stack.close()
        self._pool = None


def _opened(url: str) -> type_of_pool:
    with database.connect(url, "sluice web") as conn:
        database.check_schema(conn)
    return ConnectionPool(
        url,
        min_size=0,
        max_size=POOL_SIZE,
        kwargs={"autocommit": True, "application_name": "sluice web", **database.ALIVE},
        configure=database.configure,
        # A page after a restart of the database must not meet the connections from before it.
        check=ConnectionPool.check_connection,
        timeout=POOL_WAIT_SECONDS,
        reconnect_timeout=0,
        name="web",
        open=True,
    )


@contextmanager
def page_connection() -> Iterator[psycopg.Connection]:
    """An autocommit connection for one page, from the pool. Raises `Unavailable`."""
    place: Database = current_app.extensions["database"]
    try:
        lent = place.pool().getconn()
    except psycopg.OperationalError as error:  # PoolTimeout is one
        raise Unavailable(f"The database does not answer: {' '.join(str(error).split())}") from None
    try:
        yield lent
    finally:
        place.pool().putconn(lent)


@contextmanager
def snapshot() -> Iterator[psycopg.Connection]:
    """A connection that sees the database at one moment, changes nothing, and asks no question for long."""
    with page_connection() as conn, conn.transaction():
        conn.execute(
            "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY;"
            f" SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s'"
        )
        yield conn


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
