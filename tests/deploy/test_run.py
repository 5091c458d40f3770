"""`make run` in a copy of this checkout, so that it meets neither this one's data nor a `make run` in it."""

from __future__ import annotations

import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import psutil
import psycopg
import pytest
import requests
from cryptography.fernet import Fernet

from deploy import samples
from deploy.parts import free_port
from deploy.run import put_samples_away, sandbox_plays
from store import database, keys, limits, lists, tally
from store.embedded.server import home_away
from store.lists import NewList
from store.settings import read
from store.vault import Vault

ROOT = Path(__file__).resolve().parents[2]
LEFT_BEHIND = shutil.ignore_patterns("var", ".*", "__pycache__", "tests", "docs", "bench")
SERVICES_URL = {"SLUICE_SERVICES_URL": "http://127.0.0.1:8100"}
OWN_KEY = "33333333-3333-4333-8333-333333333333"


@pytest.fixture
def checkout(tmp_path: Path) -> Iterator[Path]:
    copy = tmp_path / "checkout"
    shutil.copytree(ROOT, copy, ignore=LEFT_BEHIND)
    yield copy
    shutil.rmtree(home_away((copy / "var").resolve()), ignore_errors=True)


class Running:
    """A `make run` in `checkout`, and what it says."""

    def __init__(self, checkout: Path, **settings: str) -> None:
        self.checkout = checkout
        self.port = free_port()
        clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        self.environment = {**clean, "PORT": str(self.port), **settings}
        self.said: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self.process = subprocess.Popen(
            self.words("deploy.run"),
            cwd=checkout,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._listen, daemon=True).start()

    @staticmethod
    def words(*arguments: str) -> list[str]:
        return [sys.executable, "-m", *arguments]

    def _listen(self) -> None:
        assert self.process.stdout is not None
        with closing(self.process.stdout) as stdout:
            for line in stdout:
                self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def wait_for(self, begins: str, seconds: float = 40.0) -> str:
        """The next line that begins so."""
        line: str | None = ""
        while line is not None:
            try:
                line = self._lines.get(timeout=seconds)
            except queue.Empty:
                break
            self.said.append(line or "(the end)")
            if line is not None and line.startswith(begins):
                return line
        pytest.fail("\n".join([f"It did not say “{begins}”. It said:", *self.said]))

    def parts(self, module: str) -> dict[int, list[str]]:
        """The processes that it started to run this module, by pid."""
        found = {}
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.Error):  # it died just now
                words = child.cmdline()
                if module in words:
                    found[child.pid] = words
        return found

    def database_url(self) -> str:
        """That of its workers."""
        return psutil.Process(min(self.parts("worker"))).environ()["DATABASE_URL"]

    def flask(self, *arguments: str, stdin: str = "", **settings: str) -> str:
        return subprocess.run(
            self.words("flask", *arguments),
            cwd=self.checkout,
            env=self.environment | settings | {"FLASK_APP": "wsgi"},
            input=stdin,
            capture_output=True,
            text=True,
            check=True,
        ).stdout


@pytest.fixture
def run(checkout: Path) -> Iterator[Callable[..., Running]]:
    """`run(DATABASE_URL=…)`: start it with these settings."""
    started: list[Running] = []

    def start(**settings: str) -> Running:
        started.append(Running(checkout, **settings))
        return started[-1]

    yield start
    for one in started:
        one.process.terminate()
        one.process.wait(30)


def test_one_command_runs_everything_and_ctrl_c_ends_everything(
    run: Callable[..., Running], until: Callable[..., None]
) -> None:
    running = run()
    link = running.wait_for("http")
    assert link.startswith(f"http://127.0.0.1:{running.port}/")
    assert requests.get(f"http://127.0.0.1:{running.port}/healthz", timeout=5).status_code == 200
    assert requests.get(link, timeout=5).status_code == 200
    assert {len(running.parts(name)) for name in ("gunicorn", "monitor", "sandbox")} == {1}
    for secret in ("master.key", "secret.key"):
        assert (running.checkout / "var" / secret).stat().st_mode & 0o777 == 0o600

    second = subprocess.run(
        running.words("deploy.run"),
        cwd=running.checkout,
        env=running.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (second.returncode, second.stdout) == (1, "")
    assert f"process {running.process.pid}, runs here already" in second.stderr

    killed = running.parts("worker")
    assert len(killed) == 3
    os.kill(min(killed), signal.SIGKILL)
    running.wait_for("worker-")
    until(lambda: len(running.parts("worker").keys() - killed) == 1)

    def ended(name: str) -> int:
        (one,) = lists.see(conn, name)
        return sum(count.n for count in tally.read(conn, [one.id]) if count.status in ("done", "failed"))

    with database.connect(running.database_url(), "test") as conn:
        until(lambda: ended("Sample: UK companies") > 0, 20)
        assert ended("Sample: US companies") == 0

    servers = [p for p in psutil.process_iter(["cmdline"]) if is_server_of(running.checkout, p)]
    min(servers, key=lambda server: server.create_time()).kill()
    running.wait_for("The database died and is there again.")
    with database.connect(running.database_url(), "test") as conn:
        before = ended("Sample: UK companies")
        until(lambda: ended("Sample: UK companies") > before, 20)

    def everything() -> list[psutil.Process]:
        servers = [p for p in psutil.process_iter(["cmdline"]) if is_server_of(running.checkout, p)]
        return [*psutil.Process(running.process.pid).children(recursive=True), *servers]

    until(lambda: len(everything()) >= 9, 30)  # parts that died with the database start again
    parts = everything()
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(15) == 0
    gone, alive = psutil.wait_procs(parts, timeout=5)
    assert (len(gone), alive) == (len(parts), [])
    with socket.socket() as tried:
        assert tried.connect_ex(("127.0.0.1", running.port)) != 0


def test_a_key_of_ones_own_sends_the_sandbox_away_and_is_never_sent_there(
    run: Callable[..., Running], dsn: str
) -> None:
    running = run(DATABASE_URL=dsn)
    running.wait_for("http")
    assert all("sample" in words for words in running.parts("worker").values())
    master_key = (running.checkout / "var" / "master.key").read_text()
    words = ("keys", "add", "companies_house", "--label", "mine")
    running.flask(*words, stdin=OWN_KEY, SLUICE_MASTER_KEYS=master_key)

    running.wait_for("There is a key of your own now")
    running.wait_for("Services are asked at their own addresses.")
    assert running.parts("sandbox") == {}
    assert {tuple(words[-2:]) for words in running.parts("worker").values()} == {("-m", "worker")}
    with database.connect(dsn, "test") as conn:
        states = {key.label: key.state for key in keys.see(conn)}
        assert states.pop("mine") == "active"
        assert set(states.values()) == {"disabled"}
        assert {one.state for one in lists.see(conn)} == {"paused"}


def is_server_of(checkout: Path, process: psutil.Process) -> bool:
    """Whether it is a PostgreSQL of this checkout."""
    homes = (checkout / "var" / "postgres", home_away((checkout / "var").resolve()))
    line = " ".join(process.info["cmdline"] or ())
    return any(f"-D {home}" in line for home in homes)


def add_own_key(conn: psycopg.Connection, vault: Vault) -> None:
    limit = limits.parse("600/5m")
    keys.add(conn, vault, service="companies_house", label="mine", secret=OWN_KEY, limits=[limit])


def test_who_plays_the_services_is_decided_by_keys(conn: psycopg.Connection) -> None:
    vault, alone, asked = Vault([Fernet.generate_key().decode()]), read({}), read(SERVICES_URL)
    new = NewList("mine", "companies_house", ["name"])
    assert sandbox_plays(conn, alone)  # an empty database gets the samples
    assert not sandbox_plays(conn, asked)
    with conn.transaction(force_rollback=True):
        lists.create(conn, new)
        assert not sandbox_plays(conn, alone)  # somebody's work, whose keys are still to come
    samples.add_keys(conn, vault)
    samples.add_keys(conn, vault)
    lists.create(conn, new)
    assert sandbox_plays(conn, alone)  # a list to try it with
    add_own_key(conn, vault)
    assert not sandbox_plays(conn, alone)


def test_samples_are_put_away_and_nothing_else(conn: psycopg.Connection) -> None:
    vault = Vault([Fernet.generate_key().decode()])
    samples.add_keys(conn, vault)
    add_own_key(conn, vault)
    for name in ("mine", samples.RUN_LISTS[0].name):
        lists.create(conn, NewList(name, "companies_house", ["name"]))
    put_samples_away(conn)
    assert {one.name: one.state for one in lists.see(conn)} == {
        "mine": "active",
        samples.RUN_LISTS[0].name: "paused",
    }
    assert {key.label for key in keys.see(conn) if key.state == "active"} == {"mine"}


def test_a_busy_port_is_one_line_before_anything_starts(checkout: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        environment = {**os.environ, "PORT": str(port)}
        words = [sys.executable, "-m", "deploy.run"]
        done = subprocess.run(
            words, cwd=checkout, env=environment, capture_output=True, text=True, check=False
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"run: Port {port} cannot be used (Address already in use). Choose another")
    assert done.stderr.count("\n") == 1
    assert [path.name for path in (checkout / "var").iterdir()] == ["run.lock"]
