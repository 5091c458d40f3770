"""Connections to Postgres, and whether its schema is the one this program was written for."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.types.json import set_json_loads
from psycopg_pool import ConnectionPool

SCHEMA = "0009"

# A peer that vanished without a word is noticed within about ten seconds, not after hours.
ALIVE: dict[str, Any] = {
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "connect_timeout": 5,
}


class WrongSchema(RuntimeError):
    """The database's schema is not the one this program needs; the text says what to do."""


def connect(url: str, name: str) -> psycopg.Connection:
    """One autocommit connection, known to the server as `name`. Raises `psycopg.OperationalError`."""
    conn = psycopg.connect(url, autocommit=True, application_name=name, **ALIVE)
    configure(conn)
    return conn


def pool(url: str, name: str, size: int) -> ConnectionPool[psycopg.Connection[Any]]:
    """A pool of autocommit connections. Opened and closed by its `with`.

    A connection that broke is replaced; the statement that met it raises `psycopg.OperationalError`.
    """
    return ConnectionPool(
        url,
        min_size=1,
        max_size=size,
        open=False,
        kwargs={"autocommit": True, "application_name": name, **ALIVE},
        configure=configure,
        name=name,
        reconnect_timeout=0,
    )


def configure(conn: psycopg.Connection) -> None:
    """Numbers in JSON stay exact; behind a pooler that hands out sessions nothing is prepared in them."""
    set_json_loads(_json, conn)
    if is_pooled(conn):
        conn.prepare_threshold = None


_decoder = json.JSONDecoder(parse_float=Decimal)


def _json(text: str | bytes) -> Any:
    if text == b"{}":  # most are: no options, no more columns
        return {}
    return _decoder.decode(text if isinstance(text, str) else text.decode())


def positional(statement: str) -> tuple[bytes, tuple[str, ...]]:
    """The statement for a `psycopg.RawCursor`, and the names of its parameters in order.

    psycopg takes a statement of more than 4,096 characters apart again with each use.
    """
    names: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        return f"${names.setdefault(match[1], len(names) + 1)}"

    return re.sub(r"%\((\w+)\)s", number, statement).encode(), tuple(names)


def is_pooled(conn: psycopg.Connection) -> bool:
    """Whether a pooler such as PgBouncer stands between: the server answers with another process id."""
    row = conn.execute("SELECT pg_backend_pid()").fetchone()
    return row is not None and row[0] != conn.info.backend_pid


def check_schema(conn: psycopg.Connection) -> None:
    """Raise `WrongSchema` unless the migrations that this program needs have been run, and no later one."""
    found = conn.execute("SELECT to_regclass('alembic_version') IS NOT NULL").fetchone()
    row = conn.execute("SELECT version_num FROM alembic_version").fetchone() if found and found[0] else None
    if row is None:
        raise WrongSchema("The database has no tables of Sluice yet. Create them: flask db upgrade")
    if row[0] < SCHEMA:
        raise WrongSchema(
            f"The database's schema is {row[0]}, this program needs {SCHEMA}."
            " Stop the workers, then: flask db upgrade"
        )
    if row[0] > SCHEMA:
        raise WrongSchema(
            f"The database's schema is {row[0]}, newer than this program's {SCHEMA}."
            " Install the newer program."
        )
