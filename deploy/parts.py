"""Programs that run together on one machine: each logs to a file, and one that dies is started again."""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parent.parent
TOO_SHORT_SECONDS = 5.0
MOST_SHORT_LIVES = 10
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 2.0


class PartFailed(RuntimeError):
    """A part does not stay up; the text holds the end of its log."""


def pause_seconds(short_lives: int) -> float:
    """How long to wait before what has ended soon after its start so often in a row is started again."""
    return min(FIRST_PAUSE_SECONDS * 2.0 ** (short_lives - 1), LONGEST_PAUSE_SECONDS) if short_lives else 0.0


@dataclass(slots=True)
class Part:
    """One program. `short_lives`: how often in a row it ended by itself soon after its start.

    `again_at`: when it is started again, on the monotonic clock; None while it runs.
    """

    name: str
    arguments: Sequence[str]
    process: subprocess.Popen[bytes]
    started_at: float
    short_lives: int = 0
    again_at: float | None = None


@dataclass(slots=True)
class Parts:
    """Start parts with `start`, call `watch` again and again, leave the `with` to stop them all.

    A part has `stop_seconds` to stop. After a third of them it is asked again: a worker then puts back what
    it runs.
    """

    logs: Path
    environment: Mapping[str, str]
    stop_seconds: float = 30.0
    parts: list[Part] = field(default_factory=list)

    def __enter__(self) -> Self:
        self.logs.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.stop(self.parts)

    def start(self, name: str, *arguments: str) -> Part:
        """Start `python ARGUMENTS` as a part."""
        part = Part(name, arguments, self._launch(name, arguments), time.monotonic())
        self.parts.append(part)
        return part

    def watch(self) -> list[str]:
        """Start again what has died, after a pause that grows while it does not stay up; returns the names.

        Raises `PartFailed` when one never stays up.
        """
        again = []
        for part in self.parts:
            if part.again_at is None:
                self._notice_death(part)
            if part.again_at is not None and time.monotonic() >= part.again_at:
                part.process, part.started_at = self._launch(part.name, part.arguments), time.monotonic()
                part.again_at = None
                again.append(part.name)
        return again

    def _notice_death(self, part: Part) -> None:
        ended, now = part.process.poll(), time.monotonic()
        if ended is None:
            return
        # Killed by a signal, it had no say in it.
        is_short = ended >= 0 and now - part.started_at < TOO_SHORT_SECONDS
        part.short_lives = part.short_lives + 1 if is_short else 0
        if part.short_lives == MOST_SHORT_LIVES:
            raise PartFailed(f"{part.name} does not stay up. Its log ends:\n{self.log_end(part.name)}")
        part.again_at = now + pause_seconds(part.short_lives)

    def stop(self, parts: Sequence[Part]) -> None:
        """Ask these to stop, last started first; what is still there in the end is killed."""
        began = time.monotonic()
        for until in (began + self.stop_seconds / 3, began + self.stop_seconds):
            for part in reversed(parts):
                if part.process.poll() is None:
                    part.process.send_signal(signal.SIGTERM)
            for part in parts:
                with suppress(subprocess.TimeoutExpired):
                    part.process.wait(max(until - time.monotonic(), 0.0))
        for part in parts:
            part.process.kill()
            part.process.wait()
        self.parts = [part for part in self.parts if part not in parts]

    def log_end(self, name: str, lines: int = 8) -> str:
        """The last lines of a part's log."""
        text = (self.logs / f"{name}.log").read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def _launch(self, name: str, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self.logs / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env={**os.environ, **self.environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches us alone, and we stop the parts in order
                preexec_fn=_end_with_parent if sys.platform == "linux" else None,  # noqa: PLW1509 - one thread
            )


@contextmanager
def alone(lock: Path, who: str) -> Iterator[None]:
    """Hold `lock` meanwhile. Raises `PartFailed` with who holds it already."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise PartFailed(f"{file.read().strip()} runs here already. Stop it first.") from None
        file.truncate(0)
        file.write(f"{who}, process {os.getpid()},")
        file.flush()
        yield


def run_flask(environment: Mapping[str, str], *arguments: str) -> str:
    """What this `flask` command prints. Raises `PartFailed` when it fails."""
    done = subprocess.run(
        [sys.executable, "-m", "flask", *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise PartFailed(f"flask {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout.rstrip()


def free_port() -> int:
    """A TCP port of the loopback address that nobody uses this instant."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


_SET_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of prctl(2)
_libc = ctypes.CDLL(None)


def _end_with_parent() -> None:
    """In a new part, before its program: when we are killed, the kernel tells it to stop."""
    _libc.prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)
