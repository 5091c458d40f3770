"""What tests of every room can ask for: a database server, and the corpus of real filings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from store.embedded import Binaries, Server

ROOT = Path(__file__).resolve().parents[1]
CORPUS = ROOT.parent / "shared" / "corpus"
NO_CORPUS = "the corpus of real filings is not beside this checkout"
DEBIAN = Binaries(ROOT / "var" / "debian", "usr/lib/postgresql/15/bin")


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

    Every run and every xdist worker uses the same server, and the last one stops it. Its data stays for
    the next run, so name what you create after the run and drop it.
    """
    if url := os.environ.get("TEST_DATABASE_URL"):
        yield url
        return
    with Server(ROOT / "var" / "test") as server:
        yield server.admin_url


@pytest.fixture(scope="session")
def debian_server(debian_binaries: Binaries) -> Iterator[str]:
    """The same with Debian's PostgreSQL 15."""
    with Server(ROOT / "var" / "test15", debian_binaries) as server:
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
