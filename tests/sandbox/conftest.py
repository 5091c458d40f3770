"""A real sandbox process on a free port, and a client that follows nothing by itself."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import requests

ROOT = Path(__file__).parents[2]
_UK, _US = "companies_house", "sec_edgar"
KEYS = [
    {"service": _UK, "secret": "wide-open-key-1", "limits": ["5000/m"], "label": "wide"},
    {"service": _UK, "secret": "narrow-key-aaaa", "limits": ["3/h"], "account": "narrow", "label": "a"},
    {"service": _UK, "secret": "narrow-key-bbbb", "limits": ["3/h"], "account": "narrow", "label": "b"},
    {"service": _US, "secret": "Wide Firm ops@wide.example", "limits": ["5000/m"], "label": "sec-wide"},
    {"service": _US, "secret": "Tiny Firm ops@tiny.example", "limits": ["2/h", "9/day"], "label": "tiny"},
]


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """Starts a sandbox with the given flags and the keys above; gives its base URL."""
    keys = tmp_path_factory.mktemp("sandbox") / "keys.json"
    keys.write_text(json.dumps(KEYS), encoding="utf-8")
    started: list[subprocess.Popen[str]] = []

    def run(*flags: str) -> str:
        command = [sys.executable, "-m", "sandbox", "--port", "0", "--keys", str(keys), *flags]
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Sandbox ready on http://127.0.0.1:")
        return line.split()[-1]

    yield run
    for process in started:
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
        assert process.stdout is not None
        process.stdout.close()


@pytest.fixture(scope="session")
def shared_url(start: Callable[..., str]) -> str:
    """One sandbox for many tests."""
    return start("--companies", "40", "--seed", "7")


@pytest.fixture
def url(shared_url: str, http: requests.Session) -> str:
    """The shared sandbox with nothing counted and no fault."""
    http.delete(f"{shared_url}/sandbox/faults")
    http.post(f"{shared_url}/sandbox/reset")
    return shared_url


@pytest.fixture
def http() -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        yield session
