"""What open dashboards cost: 50 people, each with a session and a poll every 2 s, while a run goes on."""

from __future__ import annotations

import html
import re
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import requests

from bench import place
from bench.figure import Measured
from deploy import samples
from deploy.parts import Parts, free_port
from deploy.samples import SampleKey, SampleList, Sandbox
from store import database, people
from store.people import Role
from store.vault import Vault

PEOPLE = {Role.VIEWER: 46, Role.OPERATOR: 3, Role.ADMINISTRATOR: 1}
POLL_SECONDS = 2.0
RUNS = 3
RUN_SECONDS = 15.0
PASSWORD = secrets.token_urlsafe(16)
KEYS = tuple(
    SampleKey("companies_house", f"bench UK {n}", f"{n:08}-beef-4111-8111-111111111111", "20/s")
    for n in range(1, 3)
)
COMPANIES = 2_000
TOKEN = r'name="csrf_token"[^>]*value="([^"]+)"'
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE application_name = 'sluice web'"


def fifty_dashboards() -> Measured:
    """CPU seconds per second of all processes of the console and of its database sessions."""
    runs, answers = [], []
    with (
        place.database() as url,
        _console(url) as (address, web_pid),
        database.connect(url, "sluice bench") as conn,
    ):
        watchers = [_Watcher(address, email) for email in _people(conn)]
        _watch(watchers, POLL_SECONDS * 2)
        for _ in range(RUNS):
            meter = _Meter(web_pid, conn)
            answers += _watch(watchers, RUN_SECONDS, meter)
            runs.append(meter.cores())
    changed = sum(status == requests.codes.ok for status in answers) / len(answers)
    return Measured.median(runs, f"{len(answers)} polls, {changed:.0%} brought something new, the rest 304")


class _Watcher:
    """A person with the dashboard open."""

    def __init__(self, address: str, email: str) -> None:
        self._session = requests.Session()
        self._address = address
        form = {"email": email, "password": PASSWORD, "csrf_token": self._found(TOKEN, "/sign-in")}
        answer = self._session.post(f"{address}/sign-in", form, headers={"Referer": address}, timeout=10)
        answer.raise_for_status()
        self._poll_url = html.unescape(self._found(r'hx-get="(/panels[^"]*)"', "/"))
        self._tag = self._found(r'hx-ptag="([^"]*)"', "/")

    def poll(self) -> int:
        """One poll as the page makes it; returns the status."""
        answer = self._session.get(
            self._address + self._poll_url,
            headers={"HX-PTag": self._tag, "HX-Request": "true"},
            timeout=10,
        )
        answer.raise_for_status()
        self._tag = answer.headers["HX-PTag"]
        return answer.status_code

    def _found(self, pattern: str, path: str) -> str:
        answer = self._session.get(self._address + path, timeout=10)
        answer.raise_for_status()
        found = re.search(pattern, answer.text)
        assert found, f"{path} has no {pattern}"
        return found[1]


class _Meter:
    """CPU time since its start, also of sessions that have ended since they were last looked at."""

    def __init__(self, web_pid: int, conn: psycopg.Connection) -> None:
        self._web_pid = web_pid
        self._conn = conn
        self._first: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self.look()
        self._first = self._last.copy()
        self._began = time.monotonic()

    def look(self) -> None:
        web = psutil.Process(self._web_pid)
        pids = [web.pid, *(child.pid for child in web.children(recursive=True))]
        for pid in pids + [row[0] for row in self._conn.execute(SESSIONS)]:
            with suppress(psutil.NoSuchProcess):
                times = psutil.Process(pid).cpu_times()
                self._last[pid] = times.user + times.system

    def cores(self) -> float:
        self.look()
        spent = sum(last - self._first.get(pid, 0.0) for pid, last in self._last.items())
        return spent / (time.monotonic() - self._began)


def _watch(watchers: list[_Watcher], seconds: float, meter: _Meter | None = None) -> list[int]:
    """Everybody polls every 2 s, at different times; returns the statuses."""
    began, statuses = time.monotonic(), []
    for turn in range(round(seconds / POLL_SECONDS * len(watchers))):
        due = began + turn * POLL_SECONDS / len(watchers)
        time.sleep(max(due - time.monotonic(), 0.0))
        statuses.append(watchers[turn % len(watchers)].poll())
        if meter and turn % len(watchers) == 0:
            meter.look()
    return statuses


@contextmanager
def _console(url: str) -> Iterator[tuple[str, int]]:
    """The console as it is served, beside workers that settle some jobs a second."""
    port, sandbox = free_port(), Sandbox()
    settings = place.environment(url, sandbox.url) | {
        "PORT": str(port),
        "SLUICE_SECRET_KEY": secrets.token_urlsafe(32),
    }
    with (
        tempfile.TemporaryDirectory() as folder,
        Parts(Path(folder), settings) as parts,
        database.connect(url, "sluice bench") as conn,
    ):
        sandbox.start(parts, Path(folder), COMPANIES, KEYS)
        samples.add_keys(conn, Vault([settings["SLUICE_MASTER_KEYS"]]), KEYS)
        one = SampleList("Bench: UK companies", "companies_house", "/sandbox/companies.csv")
        samples.import_list(settings, sandbox, one, Path(folder))
        web = parts.start("web", "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py", "wsgi:app")
        samples.wait_for(f"http://127.0.0.1:{port}/healthz", parts, "web")
        for n in (1, 2):
            parts.start(f"worker-{n}", "-m", "worker", "--key-set", samples.KEY_SET)
        parts.start("monitor", "-m", "monitor")
        yield f"http://127.0.0.1:{port}", web.process.pid


def _people(conn: psycopg.Connection) -> Iterator[str]:
    """The email of each watcher; those of one role share an account, each with a session of its own."""
    for role, watchers in PEOPLE.items():
        person = people.add(conn, f"{role.value}@example.com", role)
        people.use_link(conn, people.make_link(conn, person.id), PASSWORD)
        yield from [person.email] * watchers
