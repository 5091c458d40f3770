"""How soon jobs of a killed worker run again: kill -9 of one of three, 20 times, settings as shipped."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import psycopg

from bench import place
from bench.figure import Measured
from deploy import samples
from deploy.parts import Part, Parts, free_port
from deploy.samples import SampleKey
from services.registry import SERVICES
from store import database, jobs, lists
from store.jobs import NewJob
from store.lists import NewList
from store.vault import Vault

UK = "companies_house"
KEY = SampleKey(UK, "bench UK", "00000009-beef-4111-8111-111111111111", "500/s")
KILLS = 20
WORKERS = 3
JOBS = 12
SLOTS = 24
LATENCY = "8s"  # jobs last longer than any recovery
UNTIL_SECONDS = 60.0
HELD = """
SELECT w.pid, array_agg(j.id) FROM job j JOIN worker w ON w.id = j.worker
WHERE j.status = 'in_progress' AND j.list_id = %s GROUP BY 1 ORDER BY count(*) DESC
"""
RUN_AGAIN = """
SELECT count(*) = 0 FROM job j LEFT JOIN worker w ON w.id = j.worker
WHERE j.id = ANY (%s) AND (j.status = 'pending' OR w.pid = %s)
"""
# One that was seen for a while: a worker that has just come is believed by its lease alone.
SETTLED_IN = """
SELECT count(*) = %s FROM worker WHERE state = 'running' AND backend_pid IS NOT NULL
AND seen_at > pg_postmaster_start_time() + interval '6 seconds' AND started_at < now() - interval '3 seconds'
"""


def recovery_median() -> Measured:
    """Seconds from the kill until every job that the killed worker held is held by another one."""
    runs = _recoveries()
    return Measured.median(runs)


def recovery_worst() -> Measured:
    """The worst of the same kills."""
    runs = _recoveries()
    return Measured(runs, max(runs), [f"median {statistics.median(runs):.2f} s"])


@cache
def _recoveries() -> tuple[float, ...]:
    port = free_port()
    with (
        place.database() as url,
        tempfile.TemporaryDirectory() as folder,
        database.connect(url, "sluice bench") as conn,
    ):
        settings = place.environment(url, f"http://127.0.0.1:{port}")
        with Parts(Path(folder), settings) as parts:
            words = ["--port", str(port), "--latency", LATENCY, "--key", f"{UK}:{KEY.secret}:{KEY.limit}"]
            parts.start("sandbox", "-m", "sandbox", *words)
            samples.wait_for(f"http://127.0.0.1:{port}/sandbox/stats", parts, "sandbox")
            samples.add_keys(conn, Vault([settings["SLUICE_MASTER_KEYS"]]), [KEY])
            workers = [
                parts.start(f"worker-{n}", "-m", "worker", "--slots", str(SLOTS))
                for n in range(1, WORKERS + 1)
            ]
            return tuple(_recovery(conn, parts, workers, number) for number in range(KILLS))


def _recovery(conn: psycopg.Connection, parts: Parts, workers: list[Part], number: int) -> float:
    """Kill the worker that holds most of a new list; it is started again afterwards."""
    _until(lambda: _is(conn, SETTLED_IN, WORKERS))
    list_id = lists.create(conn, NewList(f"Recovery {number}", UK, [SERVICES[UK].fields[0].name], []))
    with conn.transaction():
        jobs.enqueue(conn, list_id, (NewJob(f"{9_000_000 + number * JOBS + n:08}") for n in range(JOBS)))
    _until(lambda: sum(len(held) for _, held in conn.execute(HELD, (list_id,))) == JOBS)
    pid, orphans = conn.execute(HELD, (list_id,)).fetchall()[0]
    (victim,) = [worker for worker in workers if worker.process.pid == pid]
    began = time.monotonic()
    victim.process.kill()
    _until(lambda: _is(conn, RUN_AGAIN, orphans, pid))
    took = time.monotonic() - began
    victim.process.wait()
    parts.watch()
    return took


def _is(conn: psycopg.Connection, question: str, *arguments: object) -> bool:
    row = conn.execute(question, arguments).fetchone()
    return bool(row and row[0])


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + UNTIL_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"did not happen within {UNTIL_SECONDS:g} s"
        time.sleep(0.01)
