"""Impossible rows are impossible, and the models say what the migrations made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import flask_migrate
import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from psycopg import sql
from sqlalchemy import create_engine

from store import database, settings
from store.models import Base
from webapp import create_app

A = Callable[..., int]
Refused = Callable[[str, dict[str, Any]], bool]

ROOT = Path(__file__).resolve().parents[2]
NOW = "2026-01-01"
PENDING: dict[str, Any] = {"status": "pending", "company": "1"}
HELD = PENDING | {"status": "in_progress", "worker": UUID(int=1), "claim_no": 1, "run_until": NOW}
DONE = PENDING | {"status": "done", "result": "{}", "outcome": "complete", "ended_at": NOW}
FAILED = PENDING | {"status": "failed", "cause": "not_found", "ended_at": NOW}
CANCELLED = PENDING | {"status": "cancelled", "ended_at": NOW}

IMPOSSIBLE = {
    "done without a result": DONE | {"result": None},
    "done without an outcome": DONE | {"outcome": None},
    "done without an end": DONE | {"ended_at": None},
    "done and held": DONE | {"worker": UUID(int=1)},
    "done with an outcome nobody knows": DONE | {"outcome": "great"},
    "a result before it is done": PENDING | {"result": "{}"},
    "an outcome before it is done": PENDING | {"outcome": "empty"},
    "failed with a result": FAILED | {"result": "{}"},
    "failed without a cause": FAILED | {"cause": None},
    "failed without an end": FAILED | {"ended_at": None},
    "failed and held": FAILED | {"worker": UUID(int=1)},
    "a cause without words": FAILED | {"cause": ""},
    "pending and held": PENDING | {"worker": UUID(int=1)},
    "pending and ended": PENDING | {"ended_at": NOW},
    "in progress with nobody": HELD | {"worker": None},
    "in progress without a limit": HELD | {"run_until": None},
    "in progress without a claim": HELD | {"claim_no": 0},
    "in progress and ended": HELD | {"ended_at": NOW},
    "in progress with a result": HELD | {"result": "{}"},
    "cancelled without an end": CANCELLED | {"ended_at": None},
    "cancelled and held": CANCELLED | {"worker": UUID(int=1)},
    "a status nobody knows": PENDING | {"status": "lost"},
    "a company without a number": PENDING | {"company": ""},
    "fewer than no claims": PENDING | {"claim_no": -1},
    "fewer than no attempts": PENDING | {"attempts": -1},
    "fewer than no losses": PENDING | {"losses": -1},
    "fewer than no faults": PENDING | {"faults": -1},
}


# For other tables a row that is right, and the columns that make it wrong.
WRONG: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "list": (
        {"name": "a", "service": "registry", "fields": ["name"]},
        [
            *({"name": ""}, {"fields": []}, {"required": ["total"]}, {"options": "[]"}, {"state": "lost"}),
            *({"state": "finished"}, {"finished_at": NOW}, {"max_attempts": 0}, {"max_losses": 0}),
            *({"max_faults": 0}, {"run_seconds": 0}, {"reuse_seconds": -1}, {"keep_days": 0}),
            *({"types": "[]"}, {"refresh_every": "day"}, {"refresh_every": "hour", "refresh_at": NOW}),
        ],
    ),
    "worker": (
        {"id": UUID(int=1), "name": "a", "host": "a", "pid": 1, "version": "0", "services": ["a"], "slots": 1}
        | {"lease_until": NOW},
        [
            *({"state": "asleep"}, {"state": "lost"}, {"slots": 0}, {"ended_at": NOW}, {"backend_pid": 1}),
            {"blocked": -1},
        ],
    ),
    "service": (
        {"name": "other", "opened_at": NOW, "probe_job": 1, "probe_claim_no": 1},
        [{"failures": -1}, {"pause_seconds": -1.0}, {"probe_job": None}, {"opened_at": None}],
    ),
    "allowance": (
        {"no": 9, "amount": 1, "per_seconds": 1.0, "guard_seconds": 0.1},
        [
            *({"amount": 0}, {"kind": "money"}),
            *({"per_seconds": 0.0}, {"guard_seconds": -0.1}, {"grain_seconds": -0.1}, {"until": [1.0]}),
            *({"kind": "at_once"}, {"kind": "at_once", "per_seconds": 0.0, "spread": True}),
            *({"holder": [UUID(int=1)]}, {"from_minute": 0, "per_seconds": 86400.0}),
            *(
                {"from_minute": 0, "zone": "UTC"},
                {"per_seconds": 86400.0, "zone": "UTC", "from_minute": 1440},
            ),
        ],
    ),
    "key": (
        {"service": "registry", "label": "a", "secret": b"x", "fingerprint": "f"},
        [{"label": ""}, {"state": "lost"}],
    ),
    "answer": (
        {"job_id": 1, "fingerprint": b"f", "occurrence": 1, "service": "a", "request": "/", "status": 200}
        | {"body": b"", "body_bytes": 0},
        [{"occurrence": 0}, {"body_bytes": -1}],
    ),
    "call": (
        {"job_id": 1, "claim_no": 1, "worker": UUID(int=1), "key_id": 1, "request": "/", "verdict": "usable"}
        | {"waited_ms": 0, "took_ms": 0, "body_bytes": 0, "sent_at": NOW},
        [{"key_id": None}, {"verdict": "reused"}],
    ),
    "person": (
        {"email": "a@example.com", "role": "viewer"},
        [
            *({"email": "A@example.com"}, {"email": "nobody"}, {"role": "king"}, {"session_no": 0}),
            {"password": "in the clear"},
        ],
    ),
    "one_time_link": (
        {"token": b"t" * 32, "expires_at": NOW},
        [{"token": b"short"}, {"purpose": "anything"}],
    ),
    "sign_in_try": ({"subject": "a", "failures": 1, "last_at": NOW, "wait_until": NOW}, [{"failures": 0}]),
    "alert_rule": (
        {"name": "a", "meaning": "b", "advice": "c", "for_seconds": 0, "clear_seconds": 0},
        [{"for_seconds": -1}, {"clear_seconds": -1}],
    ),
    "alert": (
        {"rule": "a", "subject": "b", "severity": "info", "message": "c", "link": "/", "flaps": 0}
        | {"seen_from": NOW, "last_seen_at": NOW},
        [
            *({"rule": ""}, {"subject": ""}, {"severity": "loud"}, {"link": "https://example.com"}),
            *({"flaps": -1}, {"seen": -1}, {"resolved_at": NOW}, {"acknowledged_at": NOW}),
            *({"told": -1, "told_at": NOW, "opened_at": NOW}, {"told": 1, "opened_at": NOW}),
            *({"told": 1, "told_at": NOW}, {"muted_until": NOW, "mute_reason": "why"}),
            {"muted_until": NOW, "mute_reason": "", "muted_by": "somebody"},
        ],
    ),
    "delivery": (
        {"channel": "email", "kind": "test"},
        [
            *({"channel": ""}, {"kind": "call", "alert_id": 1}, {"state": "lost"}, {"tries": -1}),
            *({"state": "sent"}, {"kind": "opened"}),
        ],
    ),
    "monitor": ({"counts_off": 0}, [{"only_row": False}, {"counts_off": -1}, {"name": "a"}]),
}
OTHERS = [(table, right | wrong) for table, (right, wrongs) in WRONG.items() for wrong in wrongs]


def insert(conn: psycopg.Connection, table: str, row: dict[str, Any]) -> None:
    statement = sql.SQL("INSERT INTO {} ({}) VALUES ({})").format(
        sql.Identifier(table),
        sql.SQL(", ").join(map(sql.Identifier, row)),
        sql.SQL(", ").join(map(sql.Placeholder, row)),
    )
    conn.execute(statement, row)


@pytest.fixture
def refused(conn: psycopg.Connection, a_list: A, a_key: A) -> Refused:
    """`refused(table, row)`: whether a CHECK refuses the row."""
    a_key(conn)
    conn.execute("DELETE FROM monitor")  # its only row is there from the migrations on
    (account,) = conn.execute("SELECT id FROM account").fetchall()[0]
    ((person,),) = conn.execute(
        "INSERT INTO person (email, role) VALUES ('parent@example.com', 'viewer') RETURNING id"
    ).fetchall()
    parents = {"job": {"list_id": a_list(conn)}, "one_time_link": {"person_id": person}}
    parents |= {table: {"account_id": account} for table in ("allowance", "key")}

    def is_refused(table: str, row: dict[str, Any]) -> bool:
        try:
            with conn.transaction(force_rollback=True):
                insert(conn, table, row | parents.get(table, {}))
        except psycopg.errors.CheckViolation:
            return True
        except psycopg.errors.ForeignKeyViolation:
            return False
        return False

    return is_refused


@pytest.mark.parametrize("table", WRONG)
def test_a_row_of_another_table_may_be(refused: Refused, table: str) -> None:
    assert not refused(table, WRONG[table][0])


@pytest.mark.parametrize("row", [PENDING, HELD, DONE, FAILED, CANCELLED], ids=lambda row: str(row["status"]))
def test_a_job_may_be(refused: Refused, row: dict[str, Any]) -> None:
    assert not refused("job", row)


@pytest.mark.parametrize("row", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_a_job_is_never(refused: Refused, row: dict[str, Any]) -> None:
    assert refused("job", row)


@pytest.mark.parametrize(("table", "row"), OTHERS)
def test_a_row_of_another_table_is_never(refused: Refused, table: str, row: dict[str, Any]) -> None:
    assert refused(table, row)


def test_every_check_of_the_queue_keeps_a_row_out_that_no_other_does(
    conn: psycopg.Connection, refused: Refused
) -> None:
    rows = [*(("job", row) for row in IMPOSSIBLE.values()), *OTHERS]
    checks = conn.execute(
        "SELECT c.relname, k.conname FROM pg_constraint k JOIN pg_class c ON c.oid = k.conrelid"
        " WHERE k.contype = 'c' AND k.coninhcount = 0 AND c.relnamespace = 'public'::regnamespace"
        " AND c.relname = ANY (%s)",
        (["job", *WRONG],),
    ).fetchall()
    assert len(checks) > 30
    for table, name in checks:
        drop = sql.SQL("ALTER TABLE {} DROP CONSTRAINT {}")
        with conn.transaction(force_rollback=True):
            conn.execute(drop.format(sql.Identifier(table), sql.Identifier(name)))
            assert not all(refused(*row) for row in rows if row[0] == table), name


def test_a_company_is_in_a_list_once(conn: psycopg.Connection, a_list: A) -> None:
    row = PENDING | {"list_id": a_list(conn)}
    insert(conn, "job", row)
    with pytest.raises(psycopg.errors.UniqueViolation):
        insert(conn, "job", row)


@contextmanager
def migrations(dsn: str) -> Iterator[None]:
    """The app's context, in which the migrations run."""
    app = create_app(settings.read({"DATABASE_URL": dsn}))
    with app.app_context():
        try:
            yield
        finally:
            app.extensions["migrate"].db.engine.dispose()


def differences(dsn: str) -> list[Any]:
    """What Alembic would write into a migration now."""

    def is_declared(_object: Any, name: str | None, kind: str, _reflected: bool, _other: Any) -> bool:
        return not (kind == "table" and name is not None and name.startswith(("answer_", "call_")))

    engine = create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(dsn))
    with engine.connect() as connection:
        context = MigrationContext.configure(
            connection, opts={"include_object": is_declared, "compare_type": True}
        )
        found: list[Any] = compare_metadata(context, Base.metadata)
    engine.dispose()
    return found


def test_the_models_say_what_the_migrations_made(dsn: str) -> None:
    assert differences(dsn) == []


def test_a_model_that_says_something_else_would_be_seen(dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("ALTER TABLE job ADD extra_column text, DROP message, ALTER attempts TYPE int")
        conn.execute("ALTER TABLE job ALTER company DROP NOT NULL")
        conn.execute("DROP INDEX job_held")
    found = [difference[0] for difference in differences(dsn) if isinstance(difference, tuple)]
    changed = [difference[0][0] for difference in differences(dsn) if isinstance(difference, list)]
    assert sorted(found) == ["add_column", "add_index", "remove_column"]
    assert sorted(changed) == ["modify_nullable", "modify_type"]


def test_the_schema_of_the_program_is_the_head_of_the_migrations(dsn: str) -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "migrations" / "versions").glob("*.py")]
    shape = re.compile(r'^revision = "(\w+)"\n^down_revision = (?:None|"(\w+)")', re.MULTILINE)
    found = [match.groups() for text in texts if (match := shape.search(text))]
    assert len(found) == len(texts)
    assert {head for head, _ in found} - {before for _, before in found} == {database.SCHEMA}
    with psycopg.connect(dsn) as conn:
        assert conn.execute("SELECT version_num FROM alembic_version").fetchall() == [(database.SCHEMA,)]


def test_the_migrations_can_be_taken_back_and_run_again(dsn: str) -> None:
    tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
    with migrations(dsn):
        flask_migrate.downgrade(revision="base")
        with psycopg.connect(dsn) as conn:
            assert conn.execute(tables).fetchall() == [("alembic_version",)]
        flask_migrate.upgrade()
    assert differences(dsn) == []
    with database.connect(dsn, "test") as conn:
        database.check_schema(conn)
