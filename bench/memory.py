"""How much memory a worker takes over many large answers: its peak, and whether it stays flat."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import requests

from bench import place
from bench.figure import Measured
from deploy import samples
from deploy.parts import Parts, free_port, run_flask
from deploy.samples import SampleKey
from store import database, tally
from store.vault import Vault

ANSWERS = 500
ANSWER_BYTES = 5_000_000
QUARTERS = 4
LOOK_SECONDS = 0.02
KEY = SampleKey("sec_edgar", "bench US", "Sluice Bench bench@example.com", "6000/m")
NAME = "Bench: large answers"
MEGABYTE = 1_000_000


def facts_memory() -> Measured:
    """Peak resident megabytes of one worker; the runs are the quarters of its work."""
    with place.database() as url, _working(url) as worker, database.connect(url, "sluice bench") as conn:
        peaks = [0.0] * QUARTERS
        began = time.monotonic()
        done = 0
        while done < ANSWERS:
            look_again = time.monotonic() + 1.0
            while time.monotonic() < look_again:
                at = min(done * QUARTERS // ANSWERS, QUARTERS - 1)
                peaks[at] = max(peaks[at], worker.memory_info().rss / MEGABYTE)
                time.sleep(LOOK_SECONDS)
            done = sum(one.n for one in tally.totals(conn) if one.outcome in ("complete", "partial"))
        took = time.monotonic() - began
    grown = peaks[-1] / peaks[0] - 1
    return Measured(
        peaks,
        max(peaks),
        (f"{ANSWERS} answers of 5 MB in {took:.0f} s; last quarter {grown:+.0%} to the first",),
    )


@contextmanager
def _working(url: str) -> Iterator[psutil.Process]:
    """A worker with its usual slots on a list of companies whose facts are large."""
    port = free_port()
    services = f"http://127.0.0.1:{port}"
    settings = place.environment(url, services)
    with (
        tempfile.TemporaryDirectory() as folder,
        Parts(Path(folder), settings) as parts,
        database.connect(url, "sluice bench") as conn,
    ):
        accepted = '[{"service": "%s", "label": "%s", "secret": "%s", "limits": ["%s"]}]'
        keys = Path(folder, "keys.json")
        keys.write_text(accepted % (KEY.service, KEY.label, KEY.secret, KEY.limit), encoding="utf-8")
        options = {
            "port": port,
            "latency": "0ms",
            "companies": ANSWERS,
            "facts-bytes": ANSWER_BYTES,
            "keys": keys,
        }
        words = (word for name, value in options.items() for word in (f"--{name}", str(value)))
        parts.start("sandbox", "-m", "sandbox", *words)
        samples.wait_for(f"{services}/sandbox/stats", parts, "sandbox")
        samples.add_keys(conn, Vault([settings["SLUICE_MASTER_KEYS"]]), (KEY,))
        _import(settings, services, Path(folder))
        worker = parts.start("worker", "-m", "worker", "--key-set", samples.KEY_SET)
        yield psutil.Process(worker.process.pid)


def _import(settings: dict[str, str], services: str, folder: Path) -> None:
    file = folder / "companies.csv"
    answer = requests.get(f"{services}/sandbox/companies.csv?service={KEY.service}", timeout=10)
    answer.raise_for_status()
    file.write_bytes(answer.content)
    run_flask(settings, "lists", "import", str(file), "--name", NAME, "--service", KEY.service)
