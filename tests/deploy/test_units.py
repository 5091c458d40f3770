from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from cryptography.fernet import Fernet

from worker.http import TOTAL_SECONDS
from worker.worker import DRAIN_SECONDS

ROOT = Path(__file__).resolve().parents[2]
SYSTEMD = ROOT / "deploy" / "systemd"
SERVICES = ("sluice-web.service", "sluice-worker@.service", "sluice-monitor.service")
MOST_EXPOSED = 20  # of 100, as systemd counts; a unit without any hardening has 96

Unit = Any  # of conftest.py


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A copy of the units with paths of this machine, since systemd looks whether programs are there."""
    for file in SYSTEMD.glob("sluice*.*"):
        text = file.read_text().replace("/opt/sluice/.venv/bin/gunicorn", sys.executable)
        text = text.replace("/opt/sluice/.venv/bin/python", sys.executable)
        (tmp_path / file.name).write_text(text)
    return tmp_path


def analyze(command: list[str], *words: str, units: Path) -> subprocess.CompletedProcess[str]:
    known = [
        str(units),
        "/usr/lib/systemd/system",
        "/lib/systemd/system",
        str(ROOT / "var/debian/lib/systemd/system"),
    ]
    environment = {
        "SYSTEMD_UNIT_PATH": ":".join(known),
        "SYSTEMD_LOG_LEVEL": "warning",
        "PATH": "/usr/bin:/bin",
    }
    return subprocess.run([*command, *words], env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", [*SERVICES, "sluice.target"])
def test_systemd_accepts_the_unit(
    name: str, installed: Path, debian_tool: Callable[[str], list[str]]
) -> None:
    done = analyze(
        debian_tool("systemd-analyze"),
        "verify",
        "--man=no",
        "--recursive-errors=no",
        str(installed / name),
        units=installed,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("name", SERVICES)
def test_a_program_that_is_broken_into_can_reach_little(
    name: str, installed: Path, debian_tool: Callable[[str], list[str]]
) -> None:
    words = ("security", "--offline=yes", f"--threshold={MOST_EXPOSED}", "--no-pager", str(installed / name))
    done = analyze(debian_tool("systemd-analyze"), *words, units=installed)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_a_program_that_dies_is_started_again_for_ever(name: str, unit: Callable[[str], Unit]) -> None:
    asked = unit(name)
    assert (asked.one("Restart"), asked.one("StartLimitIntervalSec")) == ("always", "0")
    assert asked.one("PartOf") == asked.one("WantedBy") == "sluice.target"
    assert asked.one("User") == "sluice"


def test_a_worker_may_end_its_longest_call_before_it_is_killed(unit: Callable[[str], Unit]) -> None:
    assert unit("sluice-worker@.service").seconds("TimeoutStopSec") >= DRAIN_SECONDS + TOTAL_SECONDS + 5


def test_downloads_may_end_before_gunicorn_is_killed(unit: Callable[[str], Unit]) -> None:
    settings: dict[str, Any] = {}
    file = ROOT / "deploy" / "gunicorn.conf.py"
    exec(compile(file.read_text(), str(file), "exec"), settings)
    assert unit("sluice-web.service").seconds("TimeoutStopSec") > settings["graceful_timeout"] + 5


def test_a_worker_says_that_it_is_ready_that_it_lives_and_that_it_stops(
    dsn: str,
    start_unit: Callable[[str, Mapping[str, str]], subprocess.Popen[bytes]],
    notified: Any,
    env_example: dict[str, str],
    worker_env_example: dict[str, str],
) -> None:
    settings = {
        "DATABASE_URL": dsn,
        "SLUICE_MASTER_KEYS": Fernet.generate_key().decode(),
        "HEARTBEAT_SECONDS": "0.1",
    }
    worker = start_unit("sluice-worker@.service", env_example | worker_env_example | settings)
    notified.wait("READY=1")
    notified.forget()
    notified.wait("WATCHDOG=1")
    worker.send_signal(signal.SIGTERM)
    notified.wait("STOPPING=1")
    assert worker.wait(20) == 0


def test_the_monitor_says_that_it_is_ready_and_with_each_look_that_it_lives(
    dsn: str,
    start_unit: Callable[[str, Mapping[str, str]], subprocess.Popen[bytes]],
    notified: Any,
    env_example: dict[str, str],
) -> None:
    monitor = start_unit(
        "sluice-monitor.service", env_example | {"DATABASE_URL": dsn, "MONITOR_SECONDS": "0.2"}
    )
    notified.wait("READY=1")
    notified.forget()
    notified.wait("WATCHDOG=1")
    monitor.send_signal(signal.SIGTERM)
    assert monitor.wait(20) == 0


def test_the_command_for_administrators_is_flask_with_the_settings_of_the_server(tmp_path: Path) -> None:
    script = (SYSTEMD / "sluice").read_text()
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("only root may become another user")
    env = tmp_path / "env"
    env.write_text("# a comment\nDATABASE_URL='mysql://a?b&c $d'\n")
    script = script.replace("/etc/sluice/env", str(env)).replace("/opt/sluice", str(ROOT))
    script = script.replace(".venv/bin", str(Path(sys.executable).parent)).replace("=sluice", "=0")
    done = subprocess.run(
        ["sh", "-c", script, "sluice", "doctor"], capture_output=True, text=True, check=False
    )
    assert "DATABASE_URL begins with mysql" in done.stderr
