"""Claim and settle through `store/` against pgbench, which sends the same statements from C.

`python -m bench.claim_settle URL SECONDS` is one of our processes: it claims and settles so long.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from uuid import UUID, uuid4

import psycopg
from psycopg.adapt import PyFormat, Transformer

from bench import filler, place
from bench.figure import Measured
from deploy.parts import PartFailed
from store import answers, calls, claims, database, workers
from store.claims import Settlement
from store.embedded.binaries import wheel
from store.states import Outcome, Status
from store.workers import Identity

ROUNDS = 3
PROCESSES = 4
BATCH = 50
SECONDS = 6.0
JOBS = 400_000
LONGEST_REASON = 1000
RESULT = '{"values": {"name": "' + "x" * 1000 + '"}}'


def queue_vs_pgbench() -> Measured:
    """Rows per second of 4 processes of ours over those of 4 clients of pgbench, in turns."""
    ratios, notes = [], []
    for _ in range(ROUNDS):
        theirs, ours = _rate(pgbench), _rate(processes)
        ratios.append(ours / theirs)
        notes.append(f"store: {ours:,.0f} rows/s, pgbench: {theirs:,.0f}")
    return Measured.median(ratios, *notes)


def _rate(run: Callable[[str, float], None]) -> float:
    """Jobs settled per second from a full table."""
    with place.database() as url, database.connect(url, "sluice bench") as conn:
        filler.a_list(conn, "bench", JOBS)
        conn.execute("VACUUM ANALYZE")
        run(url, SECONDS)
        row = conn.execute("SELECT count(*) FROM job WHERE status = 'done'").fetchone()
        assert row
        assert 0 < row[0] < JOBS, f"{row[0]} of {JOBS} jobs were settled"
        return int(row[0]) / SECONDS


def processes(url: str, seconds: float) -> None:
    """Ours: claim and settle the filler's jobs at this database for so long."""
    command = [sys.executable, "-m", "bench.claim_settle", url, str(seconds)]
    parts = [subprocess.Popen(command, cwd=place.VAR.parent.parent) for _ in range(PROCESSES)]
    for part in parts:
        if part.wait():
            raise subprocess.CalledProcessError(part.returncode, command)


def pgbench(url: str, seconds: float) -> None:
    """Theirs: the same statements with the same values. Raises `PartFailed` with what pgbench says."""
    with database.connect(url, "sluice bench") as conn:
        values = _values(_worker(conn))
    binaries = wheel()
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "claim_settle.sql"
        script.write_text(_script(), encoding="utf-8")
        command: list[str | Path] = [binaries.program("pgbench"), "-n", "-M", "prepared", "-f", script]
        command += ["-c", str(PROCESSES), "-j", str(PROCESSES), "-T", f"{seconds:.0f}"]
        for name, value in values.items():
            command += ["-D", f"{name}={value}"]
        ran = subprocess.run(
            [*command, url], env=binaries.environment(), check=False, capture_output=True, text=True
        )
    if ran.returncode:
        raise PartFailed(f"pgbench failed:\n{ran.stderr[-LONGEST_REASON:]}".rstrip())


def _script() -> str:
    """Our statements. What a claim brings comes back as one row of arrays: pgbench keeps one row only."""
    changes, _, brings = claims.CLAIM.rpartition("SELECT room.jobs AS room,")
    columns, _, source = brings.partition("\nFROM ")
    arrays = ["array_agg(c.id) AS of_id", "array_agg(c.claim_no) AS of_claim_no"]
    arrays += [f"array_agg({column}) AS brought_{n}" for n, column in enumerate(_unnamed(columns))]
    settle = re.sub(r"%\((\w+)\)b", r"%(of_\1)s", claims.SETTLE)
    claim = f"{changes} SELECT {', '.join(arrays)} FROM {source}"
    return f"{_for_pgbench(claim)} \\gset\n{_for_pgbench(settle)};\n"


def _unnamed(columns: str) -> list[str]:
    return [column.partition(" AS ")[0] for column in columns.split(",")]


def _for_pgbench(statement: str) -> str:
    statement = re.sub(r"--.*", "", statement).replace("%(key_set)s", "NULL")
    return re.sub(r"%\((\w+)\)s", r":\1", statement).strip()


def _values(worker: UUID) -> dict[str, str]:
    """Every parameter as pgbench sends it: the text that Postgres reads."""
    asked = {"worker": str(worker), "service": filler.FILLER.name, "n": str(BATCH), "soon": "2"}
    columns = claims.columns([_settlement(0, worker, 0)] * BATCH)
    dumpers = Transformer()
    of = {
        f"of_{name}": dumpers.get_dumper(column, PyFormat.TEXT).dump(column)
        for name, column in (columns | answers.columns([]) | calls.columns([], 0.0)).items()
    }
    return (
        asked
        | {"locked": "{}", "keyless": "true", "waiting": "0", "tokens": "0", "again": "false"}
        | {name: bytes(v or b"").decode() for name, v in of.items()}
    )


def _settlement(job: int, worker: UUID, claim_no: int) -> Settlement:
    return Settlement(job, worker, claim_no, Status.DONE, Outcome.COMPLETE, result=RESULT)


def _worker(conn: psycopg.Connection) -> UUID:
    who = Identity(uuid4(), "bench", "bench", 1, "0", None, [filler.FILLER.name], BATCH)
    workers.register(conn, who, lease_seconds=3600.0)
    return who.id


def _run(url: str, seconds: float) -> None:
    with database.connect(url, "sluice bench") as conn:
        worker = _worker(conn)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            got = claims.claim(
                conn, worker, filler.FILLER.name, None, n=BATCH, soon_seconds=2.0, keyless=True
            )
            claims.settle(conn, [_settlement(one.id, one.worker, one.claim_no) for one in got.claims])


if __name__ == "__main__":
    _run(sys.argv[1], float(sys.argv[2]))
