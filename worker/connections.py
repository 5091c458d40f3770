"""The pool as a worker's threads see it: a database that is away is one kind of error, and said soon."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import psycopg
from psycopg.errors import ReadOnlySqlTransaction
from psycopg_pool import ConnectionPool

Connections = Callable[[], AbstractContextManager[psycopg.Connection]]

# The pool tries once to connect and then only when it is asked again: who waits long is not told earlier.
LONGEST_WAIT_SECONDS = 2.0


def of_pool(pool: ConnectionPool[psycopg.Connection[Any]]) -> Connections:
    """Borrow a connection for the body of a `with`. Raises `psycopg.OperationalError` while there is none."""

    @contextmanager
    def borrowed() -> Iterator[psycopg.Connection]:
        with pool.connection(timeout=LONGEST_WAIT_SECONDS) as conn:
            try:
                yield conn
            except ReadOnlySqlTransaction as error:
                conn.close()  # a session may stay read-only when the server no longer is
                raise psycopg.OperationalError("the database is read-only") from error

    return borrowed
