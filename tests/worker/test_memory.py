"""Memory that large answers took goes back to the system, and a C library without the setting is no error."""

from __future__ import annotations

import ctypes
import platform
import subprocess
import sys
from collections.abc import Callable

import pytest

from worker.memory import give_back_large_blocks

# Large blocks with small ones that stay between them: what a heap cannot give back. The first block teaches
# the library that such sizes come again.
GROWTH_BYTES = """
import os
from worker.memory import give_back_large_blocks
give_back_large_blocks()
def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
first = b"x" * (30 << 20)
del first
before = resident()
large, small = [], []
for _ in range(40):
    large.append(b"x" * (2 << 20))
    small.append(b"y" * 1000)
assert resident() - before > 70 << 20
del large
print(resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_what_large_answers_took_is_given_back() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", GROWTH_BYTES], capture_output=True, text=True, timeout=60, check=True
    )
    assert int(ran.stdout) < 5 << 20


def no_library(_name: object) -> object:
    raise OSError("no such library")


@pytest.mark.parametrize("library", [no_library, lambda _name: object()])
def test_a_library_without_such_settings_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, library: Callable[[object], object]
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", library)
    give_back_large_blocks()
