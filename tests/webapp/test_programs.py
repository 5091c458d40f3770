"""The real `flask` command as a process: what a stranger sees when something is wrong."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import click
import psycopg
import pytest
from psycopg import sql

from store.database import SCHEMA
from store.settings import read
from webapp import create_app

Finished = subprocess.CompletedProcess[str]
Flask = Callable[..., Finished]

OPERATIONS = (Path(__file__).resolve().parents[2] / "docs" / "operations.md").read_text()
PROMISED = (
    "lists import", "lists status", "lists retry", "lists pause", "lists resume", "lists cancel",
    "lists rejects", "lists export", "keys add", "keys list", "keys disable", "keys enable",
    "filings read", "doctor",
)  # fmt: skip


@pytest.fixture
def empty_database(database_server: str) -> Iterator[str]:
    """A database without tables."""
    name = f"sluice_{uuid4().hex[:12]}_empty"
    with psycopg.connect(database_server, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        yield f"{database_server.rpartition('/')[0]}/{name}"
        conn.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def assert_refused(finished: Finished, *says: str) -> None:
    assert finished.returncode == 1
    assert finished.stderr.startswith("Error: ")
    assert finished.stderr.count("\n") == 1
    assert all(part in finished.stderr for part in says)


def test_upgrade_says_which_schema_there_is(flask: Flask, empty_database: str) -> None:
    first = flask("db", "upgrade", DATABASE_URL=empty_database)
    assert (first.returncode, first.stdout) == (0, f"The schema is {SCHEMA}, it was empty.\n"), first.stderr
    assert flask("db", "upgrade", DATABASE_URL=empty_database).stdout == f"The schema is {SCHEMA}.\n"


def test_upgrade_without_the_right_to_make_tables_says_who_must_own_the_database(
    flask: Flask, empty_database: str
) -> None:
    role = f"sluice_{uuid4().hex[:12]}"
    with psycopg.connect(empty_database, autocommit=True) as conn:
        conn.execute(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        conn.execute("REVOKE CREATE ON SCHEMA public FROM public")
        url = f"{empty_database}?options={quote(f'-c role={role}')}"
        assert_refused(flask("db", "upgrade", DATABASE_URL=url), "permission denied", "must own the database")
        conn.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


@pytest.mark.parametrize("command", ["upgrade", "downgrade"])
def test_a_schema_that_this_program_does_not_know_is_left_alone_with_what_to_do(
    flask: Flask, dsn: str, command: str
) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '9999'")
        said = f"schema is 9999, newer than this program's {SCHEMA}. Install the newer program"
        assert_refused(flask("db", command, DATABASE_URL=dsn), said, "Nothing was changed.")
        assert conn.execute("SELECT version_num FROM alembic_version").fetchall() == [("9999",)]


@pytest.mark.parametrize("command", [("db", "upgrade"), ("lists", "status"), ("keys", "list")])
def test_a_database_that_does_not_answer_is_one_line_without_the_password(
    flask: Flask, command: tuple[str, ...]
) -> None:
    finished = flask(*command, DATABASE_URL="postgresql://sluice:hunter2@127.0.0.1:1/sluice")
    assert_refused(finished, "The database of DATABASE_URL does not answer", "port 1")
    assert "hunter2" not in finished.stderr


@pytest.mark.parametrize("url", ["mysql://u:hunter2@h/d", "hunter2", "postgresql://u:hunter2@[/d"])
def test_a_wrong_database_url_is_one_line_without_the_password(flask: Flask, url: str) -> None:
    finished = flask("lists", "status", DATABASE_URL=url)
    assert_refused(finished, "DATABASE_URL", "postgresql://user:password@host/name")
    assert "hunter2" not in finished.stderr


def test_a_list_goes_in_and_out_through_pipes(
    flask: Flask, dsn: str, companies: Path, master_key: str
) -> None:
    environ = {"DATABASE_URL": dsn, "SLUICE_MASTER_KEYS": master_key}
    key = flask("keys", "add", "companies_house", "--label", "main", stdin="s3cret\n", **environ)
    assert (key.returncode, key.stderr) == (0, "")
    assert "s3cret" not in key.stdout
    made = flask("lists", "import", companies, "--name", "UK", "--service", "companies_house", **environ)
    assert (made.returncode, made.stderr) == (0, "")
    out = flask("lists", "export", "UK", **environ)
    assert [line.split(",")[0] for line in out.stdout.splitlines()] == [
        "company", "09355500", "09355501", "SC722766",
    ]  # fmt: skip
    assert flask("lists", "import", **environ).returncode == 2


def commands(group: click.Group, above: str = "") -> Iterator[str]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, f"{above}{name} ")
        else:
            yield f"{above}{name}"


def test_every_command_is_promised_and_every_promise_is_in_the_operations_page() -> None:
    there = {command for command in commands(create_app(read({})).cli) if not command.startswith("db ")}
    assert there >= set(PROMISED)
    assert all(f"`flask {command}" in OPERATIONS for command in (*there, "db upgrade"))
    assert "deploy/env.example" in OPERATIONS
