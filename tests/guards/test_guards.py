"""What `docs/invariants.md` says is true: guards and tests exist, and no test passes without its guard."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = (ROOT / "docs" / "invariants.md").read_text(encoding="utf-8")
ROW = re.compile(
    r"^\| (\d+) \| `(.+?)` \| `(.+?)` \| (?:`(.+?)`|nothing) \| `(\S+?)::(\w+)` \|$", re.MULTILINE
)
LEFT_OUT = ("var", ".git", ".venv", "__pycache__", "pictures", ".*_cache", ".hypothesis")
TESTS_FAILED = 1  # pytest's exit code; others say that it could not even begin


@dataclass(frozen=True, slots=True)
class Guard:
    """A line that keeps an invariant, what it is without it, and the test that must then fail."""

    invariant: int
    file: str
    text: str
    taken_out: str
    test_file: str
    test: str


GUARDS = [Guard(int(no), *found) for no, *found in ROW.findall(DOCUMENT)]
EVERY = pytest.mark.parametrize("guard", GUARDS, ids=lambda one: f"{one.invariant}-{one.test}")


def test_every_row_of_the_table_is_read_and_every_invariant_is_guarded() -> None:
    assert len(GUARDS) == len(re.findall(r"^\| \d", DOCUMENT, re.MULTILINE))
    promised = {int(no) for no in re.findall(r"^(\d+)\. \*\*", DOCUMENT, re.MULTILINE)}
    assert promised == set(range(1, 13))
    assert {guard.invariant for guard in GUARDS} == promised - {12}


@EVERY
def test_a_guard_is_in_its_file_once(guard: Guard) -> None:
    assert (ROOT / guard.file).read_text(encoding="utf-8").count(guard.text) == 1


@pytest.mark.parametrize("named", sorted(set(re.findall(r"`(tests/\S+?)::(\w+)`", DOCUMENT))), ids="::".join)
def test_a_named_test_exists(named: tuple[str, str]) -> None:
    file, test = named
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    assert test in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@pytest.mark.skipif("GUARDS" not in os.environ, reason="make guards takes every guard out")
@EVERY
def test_without_its_guard_a_test_fails(guard: Guard, tmp_path: Path, database_server: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(*LEFT_OUT), symlinks=True)
    file = copy / guard.file
    file.write_text(file.read_text(encoding="utf-8").replace(guard.text, guard.taken_out), encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    del environment["GUARDS"]
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            f"{guard.test_file}::{guard.test}",
        ],
        cwd=copy,
        env=environment | {"TEST_DATABASE_URL": database_server},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (ran.returncode, " failed" in ran.stdout) == (TESTS_FAILED, True), ran.stdout[-3000:]
