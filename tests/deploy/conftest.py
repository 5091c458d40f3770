"""What systemd and nginx would do with the files in deploy/: units read, programs started."""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SYSTEMD = ROOT / "deploy" / "systemd"
INSTALLED_AT = "/opt/sluice"


@dataclass
class Unit:
    """A unit file: every line `Name=value` in order."""

    name: str
    lines: list[tuple[str, str]] = field(default_factory=list)

    def all(self, name: str) -> list[str]:
        return [value for key, value in self.lines if key == name]

    def one(self, name: str) -> str:
        (value,) = self.all(name)
        return value

    def seconds(self, name: str) -> float:
        return float(self.one(name))


@pytest.fixture(scope="session")
def unit() -> Callable[[str], Unit]:
    """`unit("sluice-web.service")` as it is in deploy/systemd."""

    def read(name: str) -> Unit:
        text = (SYSTEMD / name).read_text()
        return Unit(name, re.findall(r"^([A-Za-z]+)=(.*)$", text, re.MULTILINE))

    return read


class Notified:
    """The socket at which systemd hears programs of Type=notify."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.heard: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(place))

    def wait(self, state: str, seconds: float = 20.0) -> None:
        """Back when `state` has come; what comes meanwhile is in `heard`."""
        deadline = time.monotonic() + seconds
        while state not in self.heard:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.01))
            self.heard += self._socket.recv(4096).decode().split("\n")

    def forget(self) -> None:
        self.heard.clear()

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def notified(tmp_path: Path) -> Iterator[Notified]:
    listener = Notified(tmp_path / "notify")
    yield listener
    listener.close()


@pytest.fixture
def start_unit(
    unit: Callable[[str], Unit], notified: Notified
) -> Iterator[Callable[[str, Mapping[str, str]], subprocess.Popen[bytes]]]:
    """`start_unit(name, settings)`: what the unit runs, in this checkout, in these settings alone."""
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, settings: Mapping[str, str]) -> subprocess.Popen[bytes]:
        asked = unit(name)
        words = shlex.split(
            asked.one("ExecStart").replace(f"{INSTALLED_AT}/.venv/bin", f"{Path(sys.executable).parent}")
        )
        words = [
            part for word in words for part in (settings[word[1:]].split() if word[0] == "$" else [word])
        ]
        fixed = dict(pair.split("=") for pair in asked.one("Environment").split())
        environment = {**fixed, **settings, "NOTIFY_SOCKET": str(notified.place), "PATH": "/usr/bin:/bin"}
        started.append(subprocess.Popen(words, cwd=ROOT, env=environment))
        return started[-1]

    yield start
    for process in started:
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
        process.wait(20)


def example(path: Path) -> dict[str, str]:
    """The lines of an env file that are not commented out."""
    return dict(re.findall(r"^([A-Z_]+)=(.*)$", path.read_text(), re.MULTILINE))


@pytest.fixture(scope="session")
def until() -> Callable[..., None]:
    """`until(condition, seconds)`: wait for something that another process does."""

    def wait(condition: Callable[[], bool], seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"did not happen within {seconds:g} s"
            time.sleep(0.01)

    return wait


@pytest.fixture(scope="session")
def is_root() -> bool:
    return os.geteuid() == 0


@pytest.fixture(scope="session")
def env_example() -> dict[str, str]:
    return example(ROOT / "deploy" / "env.example")


@pytest.fixture(scope="session")
def worker_env_example() -> dict[str, str]:
    return example(ROOT / "deploy" / "worker.env.example")
