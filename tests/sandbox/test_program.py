"""Starting and stopping `python -m sandbox`."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

ROOT = Path(__file__).parents[2]


def _run(*flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sandbox", *flags]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=10, check=False)


def test_a_busy_port_is_one_clear_line(url: str) -> None:
    port = str(urlsplit(url).port)
    ended = _run("--port", port)
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"sandbox: port {port} cannot be used: Address already in use\n"


def test_a_bad_key_is_one_clear_line() -> None:
    ended = _run("--port", "0", "--key", "companies_house:secret:often")
    assert ended.returncode == 1
    assert ended.stderr.startswith("sandbox: key 1: 'often' is no limit")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("flags", [("--latency", "soon"), ("--companies", "-1"), ("--port", "70000")])
def test_a_bad_flag_is_refused(flags: tuple[str, str]) -> None:
    ended = _run("--port", "0", *flags)
    assert (ended.returncode, flags[1] in ended.stderr) == (2, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_at_once_with_a_request_under_way(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "sandbox", "--port", "0", "--latency", "1m"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        headers = {"User-Agent": "Firm ops@firm.example"}
        with pytest.raises(requests.Timeout):
            requests.get(f"{url}/files/company_tickers.json", headers=headers, timeout=0.2)
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(5) == 0
        assert time.monotonic() - began < 2


def test_latency_is_counted_from_the_arrival_and_spares_the_control(start: Callable[..., str]) -> None:
    url = start("--latency", "150ms", "--jitter", "50ms")
    answer = requests.get(f"{url}/company/99000001", auth=("wide-open-key-1", ""), timeout=5)
    assert 0.15 <= answer.elapsed.total_seconds() < 0.6
    assert requests.get(f"{url}/sandbox/stats", timeout=5).elapsed.total_seconds() < 0.1


@pytest.mark.parametrize(
    "sent", [b"GET\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"A: b\r\n" * 101]
)
def test_what_is_no_request_is_refused(url: str, sent: bytes) -> None:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 0), timeout=5) as client:
        client.sendall(sent)
        assert client.recv(100).startswith(b"HTTP/1.1 400 Bad Request\r\n")


def test_many_connections_are_kept_alive_at_once(url: str) -> None:
    sessions = [requests.Session() for _ in range(100)]
    for _ in range(2):
        for session in sessions:
            assert session.get(f"{url}/sandbox/faults", timeout=5).status_code == 200
    for session in sessions:
        session.close()
