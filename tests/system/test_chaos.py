"""Chaos in short, with a seed that is always the same. In length: `make chaos`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.system.chaos.plan import plan

ROOT = Path(__file__).parents[2]
SEED = 2


@given(st.integers(0, 10_000))
def test_a_seed_makes_the_same_plan_again(seed: int) -> None:
    first = plan(seed, 60.0, 6, 3.0, 2.0)
    assert first == plan(seed, 60.0, 6, 3.0, 2.0)
    assert [blow.at for blow in first] == sorted(blow.at for blow in first)


def test_nothing_is_lost_repeated_or_wrong_while_everything_breaks(tmp_path: Path) -> None:
    asked = ["--seed", str(SEED), "--seconds", "25", "--every", "1.5", "--jobs", "240", "--workers", "3"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.system.chaos", *asked, "--logs", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all promises kept" in done.stdout.splitlines()[-1]
