"""Real processes: workers and the sandbox, on a database of the test's own, all gone when it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import requests
from cryptography.fernet import Fernet

from bench.chaos import verdict
from deploy.demo_summary import summarise
from services.company_lists import read_companies
from services.registry import SERVICES
from store import database, jobs, keys, limits, lists, tally
from store.jobs import NewJob
from store.lists import NewList
from store.vault import Vault

ROOT = Path(__file__).parents[2]
MASTER_KEY = Fernet.generate_key().decode()
UK, US = "companies_house", "sec_edgar"


class Process:
    """A program of ours with its log. Stopped or killed at the end of its test at the latest."""

    def __init__(self, name: str, arguments: Sequence[str], environment: dict[str, str], logs: Path) -> None:
        self.name = name
        self._log = logs / f"{name}.log"
        with self._log.open("ab") as log:
            self._popen = subprocess.Popen(
                [sys.executable, *arguments],
                cwd=ROOT,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.pid = self._popen.pid

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def signal(self, number: int) -> None:
        self._popen.send_signal(number)

    def kill(self) -> None:
        """kill -9, also of a stopped one, and wait until it is gone."""
        self._popen.kill()
        self._popen.wait()

    def ended(self, seconds: float = 20.0) -> int:
        """Its exit code, when it has ended."""
        return self._popen.wait(seconds)

    def runs(self) -> bool:
        return self._popen.poll() is None


class Scene:
    """A database, a sandbox that plays the services, and the programs that work on it."""

    def __init__(self, dsn: str, logs: Path, running: ExitStack) -> None:
        self.dsn = dsn
        self.url = ""
        self.environment = {
            "DATABASE_URL": dsn,
            "SLUICE_MASTER_KEYS": MASTER_KEY,
            "LEASE_SECONDS": "2",
            "HEARTBEAT_SECONDS": "0.3",
        }
        self.logs = logs
        self._running = running
        self._number = count(1)
        self._vault = Vault([MASTER_KEY])
        self.db = running.enter_context(database.connect(dsn, "test"))

    def start(self, name: str, *arguments: str, **environment: str) -> Process:
        """Start `python ARGUMENTS`."""
        process = Process(name, arguments, {**self.environment, **environment}, self.logs)
        self._running.callback(process.kill)
        return process

    def worker(self, *flags: str, **environment: str) -> Process:
        return self.start(f"worker-{next(self._number)}", "-m", "worker", *flags, **environment)

    def sandbox(self, accepted: Sequence[tuple[str, str, str]], *flags: str) -> None:
        """Start it with keys (service, label, limit) that it accepts: the same ones `add_key` adds."""
        file = self.logs / "keys.json"
        entries = [
            {"service": service, "label": label, "secret": _secret(service, label), "limits": [limit]}
            for service, label, limit in accepted
        ]
        file.write_text(json.dumps(entries), encoding="utf-8")
        process = self.start("sandbox", "-m", "sandbox", "--port", "0", "--keys", str(file), *flags)
        self.until(lambda: "Sandbox ready on" in process.log)
        self.url = process.log.split()[-1]
        self.environment["SLUICE_SERVICES_URL"] = self.url

    def add_key(self, service: str, label: str, limit: str, **more: Any) -> int:
        with self.db.transaction():
            return keys.add(
                self.db,
                self._vault,
                service=service,
                label=label,
                secret=_secret(service, label),
                limits=[limits.parse(limit)],
                **more,
            )

    def add_list(self, service: str, which: str = "sample", only: int | None = None, **columns: Any) -> int:
        """A list of the sandbox's companies: `sample` or `companies` (the generated ones too)."""
        of = SERVICES[service]
        content = requests.get(f"{self.url}/sandbox/{which}.csv?service={service}", timeout=10).content
        found = read_companies(content, "list.csv", of.identify)
        assert not found.rejects
        fields = [field.name for field in of.fields]
        required = [field.name for field in of.fields if field.required]
        list_id = lists.create(self.db, NewList(f"{service} {next(self._number)}", service, fields, required))
        for column, value in columns.items():
            self.db.execute(f"UPDATE list SET {column} = %s WHERE id = %s", (value, list_id))
        with self.db.transaction():
            companies = (NewJob(c.number, c.name, dict(c.extra), c.line) for c in found.companies[:only])
            jobs.enqueue(self.db, list_id, companies)
        return list_id

    def until(self, condition: Callable[[], object], seconds: float = 20.0) -> float:
        """Wait for the condition; returns how many seconds it took."""
        began = time.monotonic()
        while not condition():
            if time.monotonic() > began + seconds:
                raise AssertionError(f"did not happen within {seconds:g} s\n{self._logged()}")
            time.sleep(0.02)
        return time.monotonic() - began

    def _logged(self) -> str:
        return "\n".join(
            f"== {log.name}\n{log.read_text()[-3000:]}" for log in sorted(self.logs.glob("*.log"))
        )

    def reconnect(self) -> None:
        """`db` anew, after its server was restarted."""
        self.db = self._running.enter_context(database.connect(self.dsn, "test"))

    def rows(self) -> Counter[str]:
        """How many jobs there are by status, from the table itself."""
        return Counter(dict(self.db.execute("SELECT status, count(*) FROM job GROUP BY 1").fetchall()))

    def ended(self) -> bool:
        rows = self.rows()
        return not rows["pending"] and not rows["in_progress"]

    def faults(self, *rules: dict[str, Any]) -> None:
        """Set these faults of the sandbox; without any, clear them."""
        if not rules:
            requests.delete(f"{self.url}/sandbox/faults", timeout=5).raise_for_status()
        for rule in rules:
            requests.post(f"{self.url}/sandbox/faults", json=rule, timeout=5).raise_for_status()

    def stats(self) -> Any:
        return requests.get(f"{self.url}/sandbox/stats", timeout=5).json()

    def summary(self) -> dict[str, Any]:
        """What the demo says at its end: among it `over_limit`, and `repeated` although it was stored."""
        repeats = requests.get(f"{self.url}/sandbox/repeats", timeout=5).content
        return summarise(self.db, 0.0, json.dumps(self.stats()).encode(), repeats)

    def differences(self, list_id: int) -> list[str]:
        """Where the list's results differ from the sandbox's truth, cell by cell."""
        return verdict.differences(self.db, self.url, list_id)

    def counts_off(self) -> list[tally.Count]:
        """Where the live counts differ from the table."""
        return tally.check(self.db)


def _secret(service: str, label: str) -> str:
    """As the services want them: a contact with an address, or an API key."""
    return f"Firm {label} {label}@firm.example" if service == US else f"uk-secret-{label}-0123456789"


@contextmanager
def _scene(dsn: str, logs: Path) -> Iterator[Scene]:
    with ExitStack() as running:
        yield Scene(dsn, logs, running)


@pytest.fixture
def scene(empty_dsn: str, tmp_path: Path) -> Iterator[Scene]:
    """A `Scene` on an empty database. Start its sandbox first."""
    with _scene(empty_dsn, tmp_path) as made:
        yield made


@pytest.fixture
def scene_on(tmp_path: Path) -> Iterator[Callable[[str], Scene]]:
    """`scene_on(dsn)`: the same on another database."""
    with ExitStack() as scenes:
        yield lambda dsn: scenes.enter_context(_scene(dsn, tmp_path))


@pytest.fixture
def one_line() -> Callable[[str], str]:
    """`one_line(log)`: the only line of a log; fails when there are more, or a traceback."""

    def only(log: str) -> str:
        assert "Traceback" not in log
        lines = [line for line in log.splitlines() if line.strip()]
        assert len(lines) == 1, log
        return re.sub(r"\s+", " ", lines[0])

    return only


__all__ = ["Process", "Scene", "signal"]
