"""What workers ask of the database: statements per second as Postgres itself counts them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg

from bench import place
from bench.figure import Measured
from deploy import samples
from deploy.parts import PartFailed, Parts
from deploy.samples import SampleKey, SampleList, Sandbox
from store import database
from store.vault import Vault

RUNS = 3
IDLE_WORKERS = 10
BUSY_WORKERS = 4
SECONDS = 20.0
READY_SECONDS = 60.0
COMPANIES = 5_000

# 40 jobs of one call a second: the guard for jitter takes an eighth. The service answers after 200 ms.
KEYS = tuple(
    SampleKey("sec_edgar", f"bench US {n}", f"Sluice Bench {n} bench{n}@example.com", "23/s") for n in (1, 2)
)
LIST = SampleList("Bench: US companies", "sec_edgar", "/sandbox/companies.csv")

RESET = "SELECT pg_stat_statements_reset(0, (SELECT oid FROM pg_database WHERE datname = current_database()))"
COUNTED = """
SELECT coalesce(sum(calls), 0)::float8 FROM pg_stat_statements
WHERE dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
  AND userid = 'sluice'::regrole AND toplevel
"""
ALIVE = "SELECT count(*) FROM worker WHERE state = 'running' AND seen_at > started_at"
ENDED = "SELECT count(*)::float8 FROM job WHERE status = 'done'"


def idle_statements() -> Measured:
    """Statements per second of 10 workers that have nothing to do."""
    with _workers(IDLE_WORKERS, "http://127.0.0.1:9") as (counter, _):
        return Measured.median([_per_second(counter, COUNTED) for _ in range(RUNS)])


def busy_statements() -> Measured:
    """Statements per second of 4 workers that share some 40 jobs of one call a second."""
    runs, notes = [], []
    sandbox = Sandbox()
    with _workers(BUSY_WORKERS, sandbox.url, sandbox) as (counter, conn):
        _until(conn, ENDED, 100)
        for _ in range(RUNS):
            before, began = _one(conn, ENDED), time.monotonic()
            runs.append(_per_second(counter, COUNTED))
            jobs = (_one(conn, ENDED) - before) / (time.monotonic() - began)
            notes.append(f"{jobs:.1f} jobs/s")
    return Measured.median(runs, *notes)


@contextmanager
def _workers(
    count: int, services_url: str, sandbox: Sandbox | None = None
) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:
    """So many worker processes that beat, and two connections: the administrator's counts, and ours."""
    with (
        place.database() as url,
        place.administrator(url) as counter,
        database.connect(url, "sluice bench") as conn,
        tempfile.TemporaryDirectory() as folder,
        Parts(Path(folder), place.environment(url, services_url)) as parts,
    ):
        counter.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        if sandbox:
            _fill(parts, sandbox, conn, place.environment(url, services_url), Path(folder))
        for n in range(count):
            parts.start(f"worker-{n}", "-m", "worker", *(["--key-set", samples.KEY_SET] if sandbox else []))
        _until(conn, ALIVE, count)
        yield counter, conn


def _fill(
    parts: Parts, sandbox: Sandbox, conn: psycopg.Connection, environment: Mapping[str, str], folder: Path
) -> None:
    sandbox.start(parts, folder, COMPANIES, KEYS)
    samples.add_keys(conn, Vault([environment["SLUICE_MASTER_KEYS"]]), KEYS)
    samples.import_list(environment, sandbox, LIST, folder)


def _per_second(counter: psycopg.Connection, statement: str) -> float:
    counter.execute(RESET)
    began = time.monotonic()
    time.sleep(SECONDS)
    return _one(counter, statement) / (time.monotonic() - began)


def _until(conn: psycopg.Connection, statement: str, enough: float) -> None:
    deadline = time.monotonic() + READY_SECONDS
    while _one(conn, statement) < enough:
        if time.monotonic() > deadline:
            raise PartFailed(
                f"{_one(conn, statement):g} of {enough:g} after {READY_SECONDS:g} s: {statement}"
            )
        time.sleep(0.2)


def _one(conn: psycopg.Connection, statement: str) -> float:
    row = conn.execute(statement.encode()).fetchone()
    assert row
    return float(row[0])
