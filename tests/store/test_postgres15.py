"""The core statements run on Debian's PostgreSQL 15 as on the embedded server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from uuid import uuid4

import flask_migrate
import psycopg
import pytest
from psycopg import sql

from store import (
    answers,
    claims,
    database,
    export,
    jobs,
    keys,
    ledger,
    lists,
    partitions,
    settings,
    steering,
    tally,
)
from store.answers import KeptAnswer
from store.claims import Claim, Settlement
from store.ledger import Reservation
from store.states import Status
from store.workers import Identity, Pulse
from webapp import create_app


@pytest.fixture(params=["embedded", "debian"])
def server_url(request: pytest.FixtureRequest) -> str:
    name = "database_server" if request.param == "embedded" else "debian_server"
    return str(request.getfixturevalue(name))


@pytest.fixture
def migrated(server_url: str) -> Iterator[str]:
    """A database on this server with the tables of the migrations."""
    name = sql.Identifier(f"sluice_{uuid4().hex[:12]}")
    url = f"{server_url.rpartition('/')[0]}/{name.as_string(None).strip(chr(34))}"
    with psycopg.connect(server_url, autocommit=True) as admin:
        admin.execute(sql.SQL("CREATE DATABASE {}").format(name))
        app = create_app(settings.read({"DATABASE_URL": url}))
        with app.app_context():
            flask_migrate.upgrade()
            app.extensions["migrate"].db.engine.dispose()
        yield url
        admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def test_the_core_statements_run(
    migrated: str,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    a_worker: Callable[..., Identity],
    beat: Callable[..., Pulse],
    take: Callable[..., list[Claim]],
    settlement: Callable[..., Settlement],
) -> None:
    with database.connect(migrated, "test") as conn:
        database.check_schema(conn)
        a_key(conn, "5/m", "1000/day")
        list_id = a_list(conn, 7)
        who, dying = a_worker(conn), a_worker(conn, lease_seconds=0.0)
        assert len(take(conn, dying, 1)) == 1
        assert beat(conn, who).recovered == 1

        held = take(conn, who, 9)
        assert len(held) == 5
        reserved = ledger.reserve(conn, "registry", None, 9, 0.2)
        assert isinstance(reserved, Reservation)
        assert len(reserved.in_seconds) == 5
        assert steering.rest_account(conn, reserved.account_id, 60.0, "rate_limited")
        assert steering.rest_service(conn, "registry", 0.001, "stopped")
        assert [key.used for key in keys.see(conn)] == [[5, 5]]

        kept = KeptAnswer(held[0].id, b"f", 1, "registry", "GET /", 200, {"a": "b"}, b"body")
        ends = [settlement(held[0]), *(settlement(claim, Status.FAILED) for claim in held[1:])]
        assert claims.settle(conn, ends, answers=[kept]) == set()
        assert answers.of_jobs(conn, [held[0].id])[held[0].id][b"f", 1] == (200, {"a": "b"}, b"body")
        assert len(partitions.keep(conn)) == 4
        assert conn.execute("SELECT count(*) FROM answer_rest").fetchone() == (0,)
        assert jobs.retry(conn, list_id, "not_found") == 4
        assert lists.cancel(conn, list_id) == 6
        assert lists.resume(conn, list_id)
        assert tally.fold(conn) > 0
        assert tally.check(conn) == []
        assert [minute.done for minute in tally.per_minute(conn, 2)] == [1]
        rows = list(export.rows(conn, list_id, ["name"]))
        assert [row[2] for row in rows].count("pending") == 6
        assert lists.finish(conn) == []
        conn.execute("UPDATE list SET reuse_seconds = 60")
        found = answers.reuse(conn, held[1].id, b"f", 1)
        assert found is not None
        assert found.from_job == held[0].id
        assert jobs.refresh(conn, list_id) == 1
        assert [one.no for one in answers.see(conn, held[1].id)] == [1]
