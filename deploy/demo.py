"""`make demo`: the main job on sample lists, from upload to CSV, with every part a real process.

A stand-in for the services (`python -m sandbox`) counts the calls; three workers with five keys whose
limits are small run two lists to the end. Kill any worker meanwhile: the result is the same.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import click
import psycopg
import requests

from deploy.demo_summary import as_text, summarise, write_csv
from deploy.parts import ROOT, PartFailed, Parts, free_port
from store import database, keys, lists, tally
from store.settings import local_master_key
from store.start import VAR, CannotStart, reachable_database, read_settings

WORKERS = 3
LONGEST_SECONDS = 240.0
READY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class DemoKey:
    service: str
    label: str
    secret: str
    limit: str


@dataclass(frozen=True, slots=True)
class DemoList:
    name: str
    service: str


KEYS = (
    DemoKey("sec_edgar", "demo US 1", "Sluice Demo One demo1@example.com", "5/10s"),
    DemoKey("sec_edgar", "demo US 2", "Sluice Demo Two demo2@example.com", "5/10s"),
    DemoKey("companies_house", "demo UK 1", "11111111-demo-4111-8111-111111111111", "9/10s"),
    DemoKey("companies_house", "demo UK 2", "22222222-demo-4222-8222-222222222222", "9/10s"),
    DemoKey("companies_house", "demo UK 3", "33333333-demo-4333-8333-333333333333", "9/10s"),
)
LISTS = (DemoList("Demo: US companies", "sec_edgar"), DemoList("Demo: UK companies", "companies_house"))


class DemoFailed(RuntimeError):
    """The demo did not come to its end; the text says why."""


def main() -> int:
    """Run the demo; returns its exit code."""
    try:
        settings = read_settings()
        with reachable_database(settings) as url:
            return _Demo(url).run()
    except (CannotStart, DemoFailed, PartFailed) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: stopped", file=sys.stderr)
        return 130


class _Demo:
    """One run of the demo on the database at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sandbox_url = f"http://127.0.0.1:{free_port()}"
        self.folder = VAR / "demo"
        self.environment = {
            "DATABASE_URL": url,
            "SLUICE_MASTER_KEYS": local_master_key(VAR),
            "SLUICE_SERVICES_URL": self.sandbox_url,
            "FLASK_APP": "wsgi",
        }

    def run(self) -> int:
        self.folder.mkdir(parents=True, exist_ok=True)
        with Parts(self.folder / "log", self.environment) as parts:
            self._start_sandbox(parts)
            self._prepare()
            started = time.monotonic()
            workers = [
                parts.start(f"worker-{n}", "-m", "worker", "--slots", "4") for n in range(1, WORKERS + 1)
            ]
            self._wait(parts)
            seconds = time.monotonic() - started
            parts.stop(workers)
            with database.connect(self.url, "sluice demo") as conn:
                summary = summarise(conn, seconds, self._ask("/sandbox/stats"), self._ask("/sandbox/repeats"))
                write_csv(conn, [one.name for one in LISTS], VAR / "demo.csv")
        (VAR / "demo.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        click.echo(as_text(summary))
        click.echo(f"Results: {VAR / 'demo.csv'}, {VAR / 'demo.json'}")
        return 0 if summary["over_limit"] == summary["repeated"] == 0 else 1

    def _start_sandbox(self, parts: Parts) -> None:
        accepted = [
            {"service": k.service, "label": k.label, "secret": k.secret, "limits": [k.limit]} for k in KEYS
        ]
        file = self.folder / "sandbox-keys.json"
        file.write_text(json.dumps(accepted), encoding="utf-8")
        port = self.sandbox_url.rpartition(":")[2]
        parts.start("sandbox", "-m", "sandbox", "--port", port, "--latency", "200ms", "--keys", str(file))
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                self._ask("/sandbox/stats")
            except requests.ConnectionError:
                parts.watch()
                if time.monotonic() > deadline:
                    raise DemoFailed(f"The sandbox does not answer:\n{parts.log_end('sandbox')}") from None
                time.sleep(0.05)
            else:
                return

    def _prepare(self) -> None:
        self._flask("db", "upgrade")
        self._refuse_other_work()
        for key in KEYS:
            words = ["--label", key.label, "--account", key.label, "--limit", key.limit]
            self._flask("keys", "add", key.service, *words, secret=key.secret, may_fail="taken")
        for one in LISTS:
            file = self.folder / f"{one.service}.csv"
            file.write_bytes(self._ask(f"/sandbox/sample.csv?service={one.service}"))
            click.echo(
                self._flask("lists", "import", str(file), "--name", one.name, "--service", one.service)
            )

    def _refuse_other_work(self) -> None:
        """Its workers ask the sandbox whatever the database holds, so it must hold nothing else."""
        with database.connect(self.url, "sluice demo") as conn:
            ours = [one.name for one in LISTS]
            others = [one.name for one in lists.see(conn) if one.name not in ours]
            foreign = [key.label for key in keys.see(conn) if not key.label.startswith("demo ")]
            if others or foreign:
                raise DemoFailed(
                    "This database holds work of yours"
                    f" ({', '.join(f'“{name}”' for name in (others + foreign)[:3])})."
                    " The demo needs one of its own: set DATABASE_URL to an empty database."
                )
            for name in ours:
                for one in lists.see(conn, name):
                    lists.delete(conn, one.id)

    def _wait(self, parts: Parts) -> None:
        """Until both lists are finished; shows how far they are, starts again what dies."""
        deadline = time.monotonic() + LONGEST_SECONDS
        with _progress() as show:
            while True:
                for name in parts.watch():
                    anew = "; it counts calls from here on" if name == "sandbox" else ""
                    show(f"{name} died and was started again{anew}", stays=True)
                try:
                    with database.connect(self.url, "sluice demo") as conn:
                        rows = _rows(conn)
                        ended = rows["done"] + rows["failed"]
                        show(f"{ended} of {rows.total()} companies ended, {rows['in_progress']} in progress")
                        if all(one.state == "finished" for one in lists.see(conn)):
                            return
                except psycopg.OperationalError:
                    if revive_database():
                        show("the database died and was started again", stays=True)
                if time.monotonic() > deadline:
                    raise DemoFailed(f"not ready after {LONGEST_SECONDS:.0f} s; see {parts.logs}")
                time.sleep(0.25)

    def _flask(self, *arguments: str, secret: str | None = None, may_fail: str | None = None) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "flask", *arguments],
            cwd=ROOT,
            env={**os.environ, **self.environment},
            input=secret,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode and not (may_fail and may_fail in done.stderr):
            raise DemoFailed(f"flask {' '.join(arguments)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout.rstrip()

    def _ask(self, path: str) -> bytes:
        answer = requests.get(self.sandbox_url + path, timeout=10)
        answer.raise_for_status()
        return answer.content


def _rows(conn: psycopg.Connection) -> Counter[str]:
    rows: Counter[str] = Counter()
    for count in tally.read(conn):
        rows[count.status] += count.n
    return rows


def revive_database() -> bool:
    """The embedded server is started again; False: it is somebody else's, who does not answer yet."""
    with suppress(CannotStart), reachable_database(read_settings()):
        return True
    return False


@contextmanager
def _progress() -> Iterator[Callable[..., None]]:
    """Shows a changed line in place on a terminal, and as a line of its own, at most each 3 s, in a pipe.

    `show(line, stays=True)` says what happened: it is never left out, and no other line takes its place.
    """
    shown, at, is_terminal = "", 0.0, sys.stdout.isatty()

    def show(line: str, *, stays: bool = False) -> None:
        nonlocal shown, at
        if not stays:
            if line == shown or (not is_terminal and time.monotonic() < at + 3):
                return
            shown, at = line, time.monotonic()
        click.echo(f"\r\033[K{line}" if is_terminal else line, nl=stays or not is_terminal)

    yield show
    if is_terminal:
        click.echo()


if __name__ == "__main__":
    sys.exit(main())
