"""Programs that run together on one machine: each logs to a file, and one that dies is started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parent.parent
STOP_SECONDS = 30.0
TOO_SHORT_SECONDS = 1.0
MOST_SHORT_LIVES = 10


class PartFailed(RuntimeError):
    """A part does not stay up; the text holds the end of its log."""


@dataclass(slots=True)
class Part:
    """One program. `short_lives`: how often in a row it ended within a second of its start."""

    name: str
    arguments: Sequence[str]
    process: subprocess.Popen[bytes]
    started_at: float
    deaths: int = 0
    short_lives: int = 0


@dataclass(slots=True)
class Parts:
    """Start parts with `start`, call `watch` again and again, leave the `with` to stop them all."""

    logs: Path
    environment: Mapping[str, str]
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
        """Start again what has died; returns the names. Raises `PartFailed` when one never stays up."""
        again = []
        for part in self.parts:
            if part.process.poll() is None:
                continue
            lived = time.monotonic() - part.started_at
            part.short_lives = part.short_lives + 1 if lived < TOO_SHORT_SECONDS else 0
            if part.short_lives == MOST_SHORT_LIVES:
                raise PartFailed(f"{part.name} does not stay up. Its log ends:\n{self.log_end(part.name)}")
            part.deaths += 1
            part.process, part.started_at = self._launch(part.name, part.arguments), time.monotonic()
            again.append(part.name)
        return again

    def stop(self, parts: Sequence[Part]) -> None:
        """Ask these to stop, last started first; what does not within 30 s is killed."""
        for part in reversed(parts):
            if part.process.poll() is None:
                part.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for part in parts:
            try:
                part.process.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
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
            )


def free_port() -> int:
    """A TCP port of the loopback address that nobody uses this instant."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
