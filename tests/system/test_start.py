"""A worker that cannot start says why in one line and ends with 1."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from psycopg import sql


@pytest.fixture
def refused(scene: Any, one_line: Callable[[str], str]) -> Callable[..., str]:
    """`refused(NAME=value)`: the line that a worker with this environment ends with."""

    def run(**environment: str) -> str:
        worker = scene.worker(**environment)
        assert worker.ended(30.0) == 1
        return one_line(worker.log)

    return run


def test_a_missing_master_key(refused: Callable[..., str]) -> None:
    line = refused(SLUICE_MASTER_KEYS="")
    assert line.startswith("worker: SLUICE_MASTER_KEYS is not set: secrets need a key; make one with python")


def test_a_database_url_that_is_none(refused: Callable[..., str]) -> None:
    assert refused(DATABASE_URL="mysql://me:hidden@host/x").startswith(
        "worker: DATABASE_URL begins with mysql"
    )


def test_a_database_that_does_not_answer(refused: Callable[..., str]) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        port = nobody.getsockname()[1]
        line = refused(DATABASE_URL=f"postgresql://me:hidden@127.0.0.1:{port}/x")
    assert line.startswith("worker: The database of DATABASE_URL does not answer: connection failed:")
    assert "hidden" not in line


def test_a_database_that_is_not_there(refused: Callable[..., str], scene: Any) -> None:
    line = refused(DATABASE_URL=scene.dsn + "_nowhere")
    assert "does not answer" in line
    assert "_nowhere" in line


def test_a_database_without_our_tables(refused: Callable[..., str], database_server: str) -> None:
    line = refused(DATABASE_URL=database_server)
    assert line == "worker: The database has no tables of Sluice yet. Create them: flask db upgrade"


@pytest.mark.parametrize(
    ("schema", "advice"),
    [("0000", "Stop the workers, then: flask db upgrade"), ("9999", "Install the newer")],
)
def test_a_schema_that_does_not_fit(refused: Callable[..., str], dsn: str, schema: str, advice: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE alembic_version SET version_num = %s", (schema,))
    line = refused(DATABASE_URL=dsn)
    assert line.startswith(f"worker: The database's schema is {schema}")
    assert advice in line


def test_a_beat_that_is_longer_than_the_lease_allows(refused: Callable[..., str]) -> None:
    assert refused(HEARTBEAT_SECONDS="5").startswith("worker: HEARTBEAT_SECONDS is 5: it must be")


def test_a_role_that_may_not_read_our_tables(
    refused: Callable[..., str], scene: Any, database_server: str
) -> None:
    role = sql.Identifier("sluice_test_stranger")
    with psycopg.connect(database_server, autocommit=True) as conn:
        conn.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(role))
        conn.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'hidden'").format(role))
        try:
            host = scene.dsn.rpartition("@")[2]
            line = refused(DATABASE_URL=f"postgresql://sluice_test_stranger:hidden@{host}")
        finally:
            conn.execute(sql.SQL("DROP ROLE {}").format(role))
    assert "permission denied" in line
    assert "hidden" not in line
