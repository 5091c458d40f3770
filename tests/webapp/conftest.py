"""Commands on a database of the test's own, and jobs that end without a worker process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from click.testing import Result
from cryptography.fernet import Fernet

from store import claims, database, settings, workers
from store.claims import Settlement
from store.states import Outcome, Status
from store.workers import Identity
from webapp import create_app

ROOT = Path(__file__).resolve().parents[2]

Run = Callable[..., Result]
Finished = subprocess.CompletedProcess[str]


@pytest.fixture
def master_key() -> str:
    return Fernet.generate_key().decode()


@pytest.fixture
def run_with() -> Callable[..., Run]:
    """`run_with(NAME=value)("lists", "status")`: commands in this process under these settings.

    What a command raises beside an exit code fails the test.
    """

    def under(**environ: str) -> Run:
        app = create_app(settings.read(environ))

        def run(*arguments: str | Path, stdin: bytes | None = None) -> Result:
            result = app.test_cli_runner().invoke(args=[str(part) for part in arguments], input=stdin)
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            return result

        return run

    return under


@pytest.fixture
def run(run_with: Callable[..., Run], dsn: str, master_key: str) -> Run:
    """Commands on this test's database, with a master key."""
    return run_with(DATABASE_URL=dsn, SLUICE_MASTER_KEYS=master_key)


@pytest.fixture
def flask() -> Callable[..., Finished]:
    """`flask("doctor", DATABASE_URL=…)`: the real command as a process, with only these settings."""

    def start(*arguments: str | Path, stdin: str = "", **environ: str) -> Finished:
        clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return subprocess.run(
            [sys.executable, "-m", "flask", *map(str, arguments)],
            cwd=ROOT,
            env=clean | environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return start


@pytest.fixture
def committed(dsn: str) -> Iterator[psycopg.Connection]:
    """A connection to this test's database."""
    with database.connect(dsn, "test") as conn:
        yield conn


@pytest.fixture
def companies(tmp_path: Path) -> Path:
    """Three companies, a duplicate, a number without its zero, and a line that is no company."""
    file = tmp_path / "companies.csv"
    file.write_text(
        "CompanyNumber,Name\n09355500,Alpha\n9355501,Beta\nSC722766,Gamma\n09355500,Again\nunknown,Delta\n"
    )
    return file


@pytest.fixture
def end_jobs(committed: psycopg.Connection) -> Callable[[str, Mapping[str, str]], int]:
    """`end_jobs(service, results)` ends what can run of the service as a worker would; returns how many.

    `results` has JSON text by company, which is complete; a company without one fails with `not_found`.
    """
    who = Identity(uuid4(), "test · 0001", "test", 1, "0", None, ["companies_house", "sec_edgar"], 8)
    workers.register(committed, who, 60)

    def settlement(claim: claims.Claim, results: Mapping[str, str]) -> Settlement:
        how: dict[str, Any] = {"status": Status.FAILED, "cause": "not_found", "message": "Nobody knows it."}
        if claim.company in results:
            how = {"status": Status.DONE, "outcome": Outcome.COMPLETE, "result": results[claim.company]}
        return Settlement(claim.id, claim.worker, claim.claim_no, **how)

    def end_jobs(service: str, results: Mapping[str, str]) -> int:
        held = claims.claim(committed, who.id, service, None, n=100, soon_seconds=1.0).claims
        claims.settle(committed, [settlement(claim, results) for claim in held])
        return len(held)

    return end_jobs
