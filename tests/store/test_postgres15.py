"""The core statements run on Debian's PostgreSQL 15 as on the embedded server."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator
from functools import wraps
from types import ModuleType
from typing import Any
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
    slots,
    steering,
    tally,
)
from store.answers import KeptAnswer
from store.claims import Claim, Settlement
from store.ledger import Busy, NoKey, Reservation, Resting
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


@pytest.fixture
def not_called(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The functions of the ledger and of claims that ask the database and were not called yet."""
    names: set[str] = set()
    for module in (ledger, slots, steering, claims):
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and _asks(name, function):
                names.add(f"{module.__name__}.{name}")
                monkeypatch.setattr(module, name, _noting(names, module, function))
    return names


def _asks(name: str, function: Callable[..., Any]) -> bool:
    return not name.startswith("_") and next(iter(inspect.signature(function).parameters), "") == "conn"


def _noting(names: set[str], module: ModuleType, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def noting(*arguments: Any, **named: Any) -> Any:
        names.discard(f"{module.__name__}.{function.__name__}")
        return function(*arguments, **named)

    return noting


def test_every_statement_of_the_ledger_and_of_claims_runs(
    migrated: str,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    a_worker: Callable[..., Identity],
    take: Callable[..., list[Claim]],
    settlement: Callable[..., Settlement],
    not_called: set[str],
) -> None:
    assert "store.ledger.reserve" in not_called
    with database.connect(migrated, "test") as conn, database.connect(migrated, "other") as other:
        assert ledger.reserve(conn, "registry", None, 1, 0.2) == NoKey()
        key = a_key(conn, "100/m", "1000 tokens/m", "3 at once", "40/day from 00:00 UTC", "600/m spread")
        a_list(conn, 4)
        one, two = a_worker(conn), a_worker(conn)

        (account,) = conn.execute("SELECT id FROM account").fetchone() or (0,)

        def ask(worker: Identity, calling: int = 0, **more: Any) -> Any:
            of_account = {account: calling}
            return ledger.reserve(
                conn, "registry", None, 9, 2.0, tokens=[70] * 9, worker=worker.id, calling=of_account, **more
            )

        held = take(conn, one, 3)
        assert len(held) == 3
        assert len(ask(one).in_seconds) == 3
        with conn.transaction():
            ledger.reserve(conn, "registry", None, 1, 0.2, worker=one.id, calling={account: 3})
            assert ledger.reserve(other, "registry", None, 1, 0.2) == Busy()
        assert ask(two).wait_seconds == math.inf
        assert ask(one, 2).in_seconds == ()  # the other one wishes it
        answer = ask(two)
        assert len(answer.in_seconds) == 1
        assert steering.correct(conn, account, answer.at[0], estimated=70, actual=90)
        slots.keep_slots(conn, "registry", one.id, {})
        assert keys.see(conn)[0].used == [4, 300, 1, 4, 4]
        assert steering.lower(conn, account, "calls", 20, 30.0)
        assert steering.rest_used_up(conn, account, "tokens", 5.0, 5.5, "none left")
        assert steering.end_rest(conn, key)
        assert steering.rest_account(conn, account, 5.0, "429")
        assert steering.rest_key(conn, key, 0.001, "a person's word")
        assert steering.rest_service(conn, "registry", 30.0, "rate page")
        assert isinstance(ask(two), Resting)
        assert isinstance(ask(two, probes=True), Resting)

        ends = [settlement(held[0]), settlement(held[1], Status.PENDING)]
        assert claims.settle(conn, ends) == set()
        assert claims.settle(conn, ends, again=True) == set()
        assert claims.release(conn, one.id, {held[2].id: held[2].claim_no}) == 1
        assert tally.check(conn) == []
    assert not_called == set()
