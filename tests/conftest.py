"""What tests of every room can ask for: a database server, and the corpus of real filings."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from uuid import uuid4

import flask_migrate
import hypothesis
import psycopg
import pytest
from psycopg import sql

from store import database, settings
from store.embedded import Binaries, Server
from webapp import create_app

# How long an example takes says nothing on a machine that others use too; a test whose promise is the time
# sets a deadline itself.
hypothesis.settings.register_profile(
    "sluice", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("sluice")

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"
NO_CORPUS = "the corpus of real filings is not beside this checkout"
LEFT_BEHIND = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
TABLES = """
SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')
AND NOT relispartition AND relname <> 'alembic_version'
"""
UNPACKED = ROOT / "var" / "debian"
DEBIAN = Binaries(UNPACKED, "usr/lib/postgresql/15/bin")


def pytest_report_header() -> str:
    return f"corpus: {CORPUS}" if CORPUS.is_dir() else f"corpus: {NO_CORPUS}; its tests are skipped"


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Real filings with the right values, to read only."""
    if not CORPUS.is_dir():
        pytest.skip(NO_CORPUS)
    return CORPUS


@pytest.fixture(scope="session")
def database_server() -> Iterator[str]:
    """A server's URL as a role that may create databases: the embedded one, or TEST_DATABASE_URL's.

    Every run and every xdist worker uses the same server; the last one stops it and removes its data.
    """
    if url := os.environ.get("TEST_DATABASE_URL"):
        yield url
        return
    with Server(ROOT / "var" / "test", is_throwaway=True) as server:
        yield server.admin_url


@pytest.fixture(scope="session")
def debian_server(debian_binaries: Binaries) -> Iterator[str]:
    """The same with Debian's PostgreSQL 15."""
    with Server(ROOT / "var" / "test15", debian_binaries, is_throwaway=True) as server:
        yield server.admin_url


@pytest.fixture(scope="session")
def debian_binaries() -> Binaries:
    """Debian's PostgreSQL 15, which `make setup` unpacks where apt-get works; in CI it must be there."""
    if not DEBIAN.program("postgres").exists():
        reason = "Debian's PostgreSQL 15 is not in var/debian"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return DEBIAN


@pytest.fixture(scope="session")
def debian_tool() -> Callable[..., list[str]]:
    """`debian_tool("nginx")`: a command that runs it, from this system or as `make setup` unpacked it."""

    def command(name: str) -> list[str]:
        if there := shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin"):
            return [there]
        for unpacked in (UNPACKED / "usr" / "sbin" / name, UNPACKED / "usr" / "bin" / name):
            if unpacked.exists():
                libraries = [str(path) for path in UNPACKED.glob("usr/lib/*-linux-gnu")]
                libraries += [f"{path}/systemd" for path in libraries]
                return ["env", f"LD_LIBRARY_PATH={':'.join(libraries)}", str(unpacked)]
        reason = f"{name} is neither installed nor in var/debian"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)

    return command


@pytest.fixture(scope="session")
def make_database(database_server: str) -> Iterator[Callable[[], str]]:
    """Makes databases that the migrations have been run on; each call a new one."""
    run, number = uuid4().hex[:12], count()
    names = [f"sluice_{run}_template"]
    _migrate(_create(database_server, names[0], None))

    def make() -> str:
        names.append(f"sluice_{run}_{next(number)}")
        return _create(database_server, names[-1], names[0])

    yield make
    if "TEST_DATABASE_URL" in os.environ:  # each drop is a checkpoint; our own server goes as a whole
        for name in names:
            _drop(database_server, name)


@pytest.fixture(scope="session")
def shared_dsn(make_database: Callable[[], str]) -> str:
    """A migrated database in which nothing is ever committed."""
    return make_database()


@pytest.fixture
def conn(shared_dsn: str) -> Iterator[psycopg.Connection]:
    """A connection whose changes are rolled back; `now()` stands still, `clock_timestamp()` does not."""
    with database.connect(shared_dsn, "test") as conn, conn.transaction(force_rollback=True):
        yield conn


@pytest.fixture
def dsn(make_database: Callable[[], str]) -> str:
    """A migrated database of this test's own, for threads, processes and commits."""
    return make_database()


@pytest.fixture(scope="session")
def reused_dsn(make_database: Callable[[], str]) -> str:
    return make_database()


@pytest.fixture
def empty_dsn(reused_dsn: str) -> str:
    """A migrated, empty database that other tests have used: emptying one costs less than dropping many."""
    with database.connect(reused_dsn, "test") as conn:
        conn.execute(LEFT_BEHIND)
        tables = [sql.Identifier(name) for (name,) in conn.execute(TABLES)]
        conn.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY").format(sql.SQL(", ").join(tables)))
    return reused_dsn


def _create(server: str, name: str, template: str | None) -> str:
    statement = sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(
        sql.Identifier(name), sql.Identifier(template or "template1")
    )
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(statement)
    return _renamed(server, name)


def _drop(server: str, name: str) -> None:
    with psycopg.connect(server, autocommit=True) as conn:
        conn.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def _renamed(server: str, name: str) -> str:
    base, _, _ = server.rpartition("/")
    return f"{base}/{name}"


def _migrate(url: str) -> None:
    app = create_app(settings.read({"DATABASE_URL": url}))
    with app.app_context():
        flask_migrate.upgrade()
        app.extensions["migrate"].db.engine.dispose()
