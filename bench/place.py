"""Where figures are measured: a durable server of the benchmarks' own, a new database each, peers apart."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
from psycopg import sql

from bench.figure import Absent
from deploy.parts import run_flask
from store.embedded import Server
from store.settings import local_master_key

VAR = Path(__file__).resolve().parent.parent / "var" / "bench"
CORPUS = VAR.parents[2] / "shared" / "corpus"
PEERS_SECONDS = 600


@contextmanager
def database() -> Iterator[str]:
    """The URL of a new database with our schema, owned by an ordinary role; dropped when the body ends."""
    VAR.mkdir(parents=True, exist_ok=True)
    with Server(VAR) as server, psycopg.connect(server.admin_url, autocommit=True) as admin:
        name = f"bench_{uuid4().hex[:12]}"
        admin.execute(sql.SQL("CREATE DATABASE {} OWNER sluice").format(sql.Identifier(name)))
        url = f"{server.url.rpartition('/')[0]}/{name}"
        try:
            run_flask(environment(url), "db", "upgrade")
            yield url
        finally:
            admin.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def administrator(url: str) -> Iterator[psycopg.Connection]:
    """A connection to the same database as the server's superuser."""
    with Server(VAR) as server:
        admin_url = f"{server.admin_url.rpartition('/')[0]}/{url.rpartition('/')[2]}"
        with psycopg.connect(admin_url, autocommit=True) as conn:
            yield conn


def environment(url: str, services_url: str = "") -> dict[str, str]:
    """What our programs need to work on that database."""
    return {
        "DATABASE_URL": url,
        "SLUICE_MASTER_KEYS": local_master_key(VAR),
        "SLUICE_SERVICES_URL": services_url,
        "FLASK_APP": "wsgi",
    }


def corpus() -> Path:
    """The real filings with the right values, to read only. Raises `Absent`: they are not here."""
    if not CORPUS.is_dir():
        raise Absent("the corpus of real filings is not beside this checkout")
    return CORPUS


def python_of_peers(*requirements: str) -> Path:
    """A Python that has these packages pinned, in `var/bench/peers`. Raises `Absent`: they cannot be had."""
    folder = VAR / "peers"
    python = folder / "bin" / "python"
    try:
        if not python.exists():
            subprocess.run([sys.executable, "-m", "venv", folder], check=True, capture_output=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements],
            check=True,
            capture_output=True,
            text=True,
            timeout=PEERS_SECONDS,
            env={**os.environ, "PIP_NO_INPUT": "1"},
        )
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        raise Absent(
            f"{', '.join(requirements)} cannot be installed: {said.strip().splitlines()[-1]}"
        ) from None
    return python
