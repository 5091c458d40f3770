"""`python -m bench.chaos`: a long run of chaos; its last line is the verdict, its exit code too."""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace

from bench.chaos.run import LONG, SHORT, run
from bench.place import VAR


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; returns the exit code: 0 when every line of the verdict holds."""
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__)
    parser.add_argument("--seed", type=int, help="repeats a plan; random without it")
    parser.add_argument("--minutes", type=float, help="how long things go wrong")
    parser.add_argument("--short", action="store_true", help="fewer workers and jobs")
    parser.add_argument("--pooled", action="store_true", help="workers behind PgBouncer in transaction mode")
    asked = parser.parse_args(arguments)
    seed = random.randrange(1_000_000) if asked.seed is None else asked.seed
    size = SHORT if asked.short else LONG
    if asked.minutes is not None:
        size = replace(size, seconds=asked.minutes * 60)
    print(f"seed {seed}", flush=True)
    report = run(VAR / "chaos" / str(seed), seed, size, _say, _pgbouncer() if asked.pooled else ())
    print(", ".join(f"{times} x {kind}" for kind, times in report.done.most_common()))
    print(f"{report.share:.0%} of the jobs ended while things went wrong")
    print("\n".join(map(str, report.lines)))
    failed = sum(not line.holds for line in report.lines)
    print(f"chaos, seed {seed}: " + (f"{failed} promises were broken" if failed else "everything holds"))
    return 1 if failed else 0


def _say(text: str) -> None:
    print(text, flush=True)


def _pgbouncer() -> list[str]:
    there = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if there is None:
        sys.exit("chaos: pgbouncer is not installed; install it, or leave --pooled out")
    return [there]


if __name__ == "__main__":
    sys.exit(main())
