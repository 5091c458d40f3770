"""What a worker's threads see of a database that is away: one kind of error, soon, and nothing afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql

from worker import connections
from worker.connections import Connections


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "LONGEST_WAIT_SECONDS", 0.5)


def _works(borrowed: Connections) -> bool:
    try:
        with borrowed() as conn:
            conn.execute("CREATE TABLE IF NOT EXISTS written (n int)")
    except psycopg.OperationalError:
        return False
    return True


def test_a_database_that_is_away_is_said_soon_and_found_again(
    proxy: Any, borrow: Callable[[str], Connections], until: Callable[..., None]
) -> None:
    borrowed = borrow(proxy.url)
    assert _works(borrowed)
    proxy.cut()
    began = time.monotonic()
    for _ in range(3):
        assert not _works(borrowed)
    assert time.monotonic() - began < 3 * 0.5 + 1.0
    proxy.mend()
    until(lambda: _works(borrowed), 3.0)


def test_a_read_only_database_is_away_until_it_is_not(
    dsn: str, db: psycopg.Connection, borrow: Callable[[str], Connections], until: Callable[..., None]
) -> None:
    name = sql.Identifier(db.info.dbname)
    db.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
    borrowed = borrow(dsn)
    with pytest.raises(psycopg.OperationalError, match="read-only"), borrowed() as conn:
        conn.execute("CREATE TABLE written (n int)")
    db.execute(sql.SQL("ALTER DATABASE {} RESET default_transaction_read_only").format(name))
    until(lambda: _works(borrowed), 3.0)
    assert [_works(borrowed) for _ in range(4)] == [True] * 4  # none is left that still is
