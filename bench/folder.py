"""What the queue costs beside parsing: filings of an archive through workers, against parsing alone."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psycopg

from bench import place
from bench.accounts import accounts, file_name
from bench.figure import Measured
from deploy.parts import PartFailed, Parts, run_flask
from services.extraction import Company, Options
from services.filings_folder import FILINGS_FOLDER
from store import database, jobs

FILINGS = 2_000
PROCESSES = 2
RUNS = 5
LONGEST_SECONDS = 120.0
LATER = ("--service", "filings_folder", "--start-at", "2100-01-01T00:00")
OPTIONS = Options(tuple(field.name for field in FILINGS_FOLDER.fields), {"folder": "."})


def folder_vs_parsing() -> Measured:
    """Filings per second through the queue, over the same extractor's in as many processes without it."""
    with tempfile.TemporaryDirectory() as folder, place.database() as url:
        pack = Path(folder) / "pack.zip"
        with zipfile.ZipFile(pack, "w", zipfile.ZIP_DEFLATED) as archive:
            for n in range(FILINGS):
                archive.writestr(file_name(n), accounts(n))
        alone, queued = [], []
        for run in range(RUNS):
            alone.append(FILINGS / _parse(pack))
            queued.append(FILINGS / _queue(url, pack, run))
    words = " ".join(f"{one:.0f} of {other:.0f}" for one, other in zip(queued, alone, strict=True))
    return Measured.median([a / b for a, b in zip(queued, alone, strict=True)], f"filings/s: {words}")


def _parse(pack: Path) -> float:
    """Seconds to parse all of it, started and warm."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(PROCESSES) as pool:
        pool.map(_extract, [(pack, range(n, n + 1)) for n in range(PROCESSES)])
        began = time.monotonic()
        pool.map(_extract, [(pack, range(n, FILINGS, PROCESSES)) for n in range(PROCESSES)])
        return time.monotonic() - began


def _extract(which: tuple[Path, Sequence[int]]) -> None:
    pack, numbers = which
    with zipfile.ZipFile(pack) as archive:
        for n in numbers:
            extraction = FILINGS_FOLDER.extract(Company(file_name(n)), OPTIONS)
            next(extraction)
            with suppress(StopIteration):
                extraction.send(archive.read(file_name(n)))


def _queue(url: str, pack: Path, run: int) -> float:
    """Seconds from the list's start to its last job's end, with workers that were there before.

    It starts when the import has ended: what that costs is no part of this.
    """
    settings = place.environment(url) | {"SLUICE_FILINGS_ROOT": str(pack.parent)}
    with (
        tempfile.TemporaryDirectory() as logs,
        Parts(Path(logs), settings) as parts,
        database.connect(url, "sluice bench") as conn,
    ):
        for n in range(PROCESSES):
            parts.start(f"worker-{n}", "-m", "worker", "--slots", "1", "--services", "filings_folder")
        _wait(conn, "SELECT count(*) >= %s FROM worker WHERE state = 'running'", PROCESSES)
        name = f"pack {run}"
        run_flask(settings, "lists", "import", str(pack), "--name", name, *LATER)
        conn.execute("UPDATE list SET start_at = now() WHERE name = %s", (name,))
        conn.execute(jobs.WAKE)
        _wait(conn, "SELECT count(*) = %s FROM job WHERE status = 'done'", FILINGS * (run + 1))
        row = conn.execute(
            """SELECT extract(epoch FROM max(ended_at) - min(claimed_at))::float8
               FROM job j JOIN list l ON l.id = j.list_id WHERE l.name = %s""",
            (name,),
        ).fetchone()
        assert row
        return float(row[0])


def _wait(conn: psycopg.Connection, holds: str, value: int) -> None:
    deadline = time.monotonic() + LONGEST_SECONDS
    while not (conn.execute(holds, (value,)).fetchone() or (False,))[0]:
        if time.monotonic() > deadline:
            raise PartFailed(f"not within {LONGEST_SECONDS:.0f} s: {holds} ({value})")
        time.sleep(0.1)
