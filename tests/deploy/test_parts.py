from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from deploy.parts import (
    LONGEST_PAUSE_SECONDS,
    MOST_SHORT_LIVES,
    ROOT,
    Part,
    PartFailed,
    Parts,
    alone,
    pause_seconds,
)

UP = "print('up', flush=True); import time; time.sleep(60)"
DEAF = "import signal; signal.signal(signal.SIGTERM, lambda *_: print('no', flush=True)); " + UP
LAST_WORD = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(print('bye'))); " + UP


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    return Parts(tmp_path / "log", {}, stop_seconds=1.0)


def start(parts: Parts, name: str, program: str, until: Callable[..., None]) -> Part:
    part = parts.start(name, "-c", program)
    until(lambda: "up" in parts.log_end(name))
    return part


def test_what_is_killed_is_started_again(parts: Parts, until: Callable[..., None]) -> None:
    with parts:
        part = start(parts, "one", UP, until)
        killed = part.process.pid
        part.process.kill()
        until(lambda: parts.watch() == ["one"])
        assert part.process.pid != killed
        assert part.process.poll() is None
        assert parts.watch() == []


def test_the_pause_before_a_new_start_grows_while_a_part_does_not_stay_up(
    parts: Parts, until: Callable[..., None]
) -> None:
    pauses = [pause_seconds(lives) for lives in range(MOST_SHORT_LIVES)]
    assert pauses[0] == 0.0
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE_SECONDS
    with parts:
        part = parts.start("one", "-c", "raise SystemExit(3)")
        until(lambda: parts.watch() == [] and part.again_at is not None)
        ended = part.process
        assert parts.watch() == []
        assert part.process is ended
        part.again_at = 0.0
        assert parts.watch() == ["one"]


def test_what_never_stays_up_ends_all_with_its_last_words(
    parts: Parts, until: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deploy.parts.LONGEST_PAUSE_SECONDS", 0.05)
    with parts:
        parts.start("one", "-c", "raise SystemExit('no such database')")
        with pytest.raises(PartFailed, match=r"(?s)one does not stay up.*no such database"):
            until(lambda: len(parts.watch()) > 1, 20)


def test_all_stop_in_their_own_time(parts: Parts, until: Callable[..., None]) -> None:
    with parts:
        started = [start(parts, name, LAST_WORD, until) for name in ("one", "two")]
    assert [part.process.returncode for part in started] == [0, 0]
    assert parts.log_end("two").endswith("bye")


def test_the_deaf_are_asked_twice_and_killed(parts: Parts, until: Callable[..., None]) -> None:
    with parts:
        deaf = start(parts, "deaf", DEAF, until)
        began = time.monotonic()
    assert deaf.process.returncode == -signal.SIGKILL
    assert parts.log_end("deaf").split() == ["up", "no", "no"]
    assert time.monotonic() - began < 5


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a program that its parent died")
def test_parts_end_when_their_starter_is_killed(tmp_path: Path, until: Callable[..., None]) -> None:
    program = f"""
import pathlib, time
from deploy.parts import Parts
with Parts(pathlib.Path({str(tmp_path)!r}), {{}}) as parts:
    print(parts.start("orphan", "-c", {UP!r}).process.pid, flush=True)
    time.sleep(60)
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as starter:
        assert starter.stdout is not None
        orphan = psutil.Process(int(starter.stdout.readline()))
        until(lambda: "up" in (tmp_path / "orphan.log").read_text())
        starter.kill()
    until(lambda: not orphan.is_running() or orphan.status() == psutil.STATUS_ZOMBIE)


def test_a_second_one_is_told_who_is_there(tmp_path: Path) -> None:
    lock = tmp_path / "var" / "lock"
    with alone(lock, "`make run` (http://127.0.0.1:8000)"):
        with pytest.raises(PartFailed) as refused, alone(lock, "another"):
            pass
        assert str(refused.value) == (
            f"`make run` (http://127.0.0.1:8000), process {os.getpid()}, runs here already. Stop it first."
        )
    with alone(lock, "another"):
        pass
