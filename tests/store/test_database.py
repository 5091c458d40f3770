"""Connections that keep numbers exact and know what stands at their other end."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any
from unittest.mock import Mock

import psycopg
import pytest

from store import database
from store.database import WrongSchema


def test_numbers_in_json_stay_exact(conn: psycopg.Connection) -> None:
    row = conn.execute("""SELECT '{"n": 0.10, "big": 12345678901234567890.05}'::jsonb""").fetchone()
    assert row == ({"n": Decimal("0.10"), "big": Decimal("12345678901234567890.05")},)


def test_a_connection_commits_each_statement_and_gives_its_name(dsn: str) -> None:
    with database.connect(dsn, "sluice test") as conn:
        assert conn.autocommit
        assert conn.execute("SELECT current_setting('application_name')").fetchone() == ("sluice test",)
        assert not database.is_pooled(conn)
        assert conn.prepare_threshold is not None


def test_behind_a_pooler_nothing_is_prepared(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "is_pooled", lambda _: True)
    with database.connect(dsn, "test") as conn:
        assert conn.prepare_threshold is None


def test_a_pooler_answers_with_another_process(conn: psycopg.Connection) -> None:
    pooled: Any = Mock(wraps=conn)
    pooled.info.backend_pid = -1
    assert database.is_pooled(pooled)


def test_a_pool_replaces_a_connection_that_broke(dsn: str, connect: Callable[[], psycopg.Connection]) -> None:
    with database.pool(dsn, "pooled", 1) as pool:
        with pool.connection() as conn:
            connect().execute("SELECT pg_terminate_backend(%s)", (conn.info.backend_pid,))
            with pytest.raises(psycopg.OperationalError):
                conn.execute("SELECT 1")
        with pool.connection() as conn:
            row = conn.execute("SELECT current_setting('application_name'), '0.10'::jsonb").fetchone()
            assert row == ("pooled", Decimal("0.10"))


def test_the_schema_that_the_migrations_made_fits(conn: psycopg.Connection) -> None:
    database.check_schema(conn)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DROP TABLE alembic_version", "no tables of Sluice yet. Create them: flask db upgrade"),
        ("DELETE FROM alembic_version", "no tables of Sluice yet. Create them: flask db upgrade"),
        (
            "UPDATE alembic_version SET version_num = '0000'",
            "is 0000, this program needs .* flask db upgrade",
        ),
        ("UPDATE alembic_version SET version_num = '9999'", "newer than this program's .* newer program"),
    ],
    ids=["none", "empty", "older", "newer"],
)
def test_another_schema_is_refused_with_what_to_do(conn: psycopg.Connection, change: str, words: str) -> None:
    conn.execute(change)
    with pytest.raises(WrongSchema, match=words) as refused:
        database.check_schema(conn)
    assert "\n" not in str(refused.value)
