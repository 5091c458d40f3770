"""`python -m tests.system.chaos`: plan, run, verdict. The last line is the verdict, the exit code too."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

from store.embedded import Server
from tests.system.chaos.plan import plan
from tests.system.chaos.run import LEASE_SECONDS, Run
from tests.system.chaos.verdict import promises
from tests.system.conftest import ROOT, Scene

SETTLE_SECONDS = 240.0


def main() -> int:
    """Run it; returns 0 when every promise was kept."""
    asked = _parser().parse_args()
    began = time.monotonic()
    print(
        f"Chaos with seed {asked.seed}: {asked.jobs} jobs in 3 lists, {asked.workers} workers, 8 keys, "
        f"{asked.seconds:.0f} s of blows.",
        flush=True,
    )
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory()))
        run = _prepared(folder, running, asked)
        run.start()
        run.deal(
            plan(asked.seed, asked.seconds, asked.workers, LEASE_SECONDS, asked.every),
            lambda words: print(words, flush=True),
        )
        in_time = run.settle(SETTLE_SECONDS)
        run.stop()
        found = list(promises(run, asked.workers))
        for promise in found:
            print(promise)
        if not all(one.is_kept for one in found):
            kept = asked.logs / f"chaos-{asked.seed}"
            shutil.copytree(folder / "logs", kept, dirs_exist_ok=True)
            print(f"The logs are in {kept}.")
    broken = sum(not promise.is_kept for promise in found) + (not in_time)
    verdict = "all promises kept" if not broken else f"{broken} BROKEN"
    about = f"{sum(run.blows.values())} blows, {time.monotonic() - began:.0f} s"
    print(f"Chaos with seed {asked.seed}: {verdict}, {about}")
    return 1 if broken else 0


def _prepared(folder: Path, running: ExitStack, asked: argparse.Namespace) -> Run:
    logs = folder / "logs"
    logs.mkdir()
    server = running.enter_context(Server(folder / "var", is_throwaway=True))
    subprocess.run(
        [sys.executable, "-m", "flask", "db", "upgrade"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": server.url, "FLASK_APP": "wsgi"},
        check=True,
        capture_output=True,
    )
    run = Run(Scene(server.url, logs, running), server, asked.workers)
    run.prepare(asked.jobs)
    return run


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=random.randrange(10_000), help="makes the same plan again"
    )
    parser.add_argument("--seconds", type=float, default=240.0, help="how long blows are dealt")
    parser.add_argument("--every", type=float, default=2.0, help="seconds from blow to blow, on average")
    parser.add_argument("--jobs", type=int, default=2_000)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument(
        "--logs", type=Path, default=ROOT / "var", help="where logs go when a promise is broken"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
