"""`make demo`: the main job on sample lists, from upload to CSV, with every part a real process.

A stand-in for the services (`python -m sandbox`) counts the calls; three workers with five keys whose
limits are small run two lists to the end. Kill any worker meanwhile: the result is the same.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress

import click
import psycopg

from deploy import samples
from deploy.demo_summary import as_text, summarise, write_csv
from deploy.parts import PartFailed, Parts, alone, run_flask
from deploy.samples import Sandbox
from store import database, keys, lists, tally
from store.settings import Settings, local_master_key
from store.start import VAR, CannotStart, reachable_database, read_settings
from store.vault import Vault

WORKERS = 3
LONGEST_SECONDS = 240.0


class DemoFailed(RuntimeError):
    """The demo did not come to its end; the text says why."""


def main() -> int:
    """Run the demo; returns its exit code."""
    try:
        settings = read_settings()
        with _database_of_its_own(settings) as url:
            return _Demo(url).run()
    except (CannotStart, DemoFailed, PartFailed) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: stopped", file=sys.stderr)
        return 130


@contextmanager
def _database_of_its_own(settings: Settings) -> Iterator[str]:
    """Not that of a `make run` which goes on beside it: its workers would run the demo's jobs."""
    with (
        nullcontext() if settings.database_url else alone(VAR / "run.lock", "`make demo`"),
        reachable_database(settings) as url,
    ):
        yield url


class _Demo:
    """One run of the demo on the database at `url`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.sandbox = Sandbox()
        self.folder = VAR / "demo"
        self.environment = {
            "DATABASE_URL": url,
            "SLUICE_MASTER_KEYS": local_master_key(VAR),
            "SLUICE_SERVICES_URL": self.sandbox.url,
            "FLASK_APP": "wsgi",
        }

    def run(self) -> int:
        self.folder.mkdir(parents=True, exist_ok=True)
        with Parts(self.folder / "log", self.environment) as parts:
            self.sandbox.start(parts, self.folder)
            self._prepare()
            started = time.monotonic()
            workers = [
                parts.start(f"worker-{n}", "-m", "worker", "--slots", "4", "--key-set", samples.KEY_SET)
                for n in range(1, WORKERS + 1)
            ]
            self._wait(parts)
            seconds = time.monotonic() - started
            parts.stop(workers)
            with database.connect(self.url, "sluice demo") as conn:
                summary = summarise(
                    conn, seconds, self.sandbox.ask("/sandbox/stats"), self.sandbox.ask("/sandbox/repeats")
                )
                write_csv(conn, [one.name for one in samples.DEMO_LISTS], VAR / "demo.csv")
        (VAR / "demo.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
        click.echo(as_text(summary))
        click.echo(f"Results: {VAR / 'demo.csv'}, {VAR / 'demo.json'}")
        return 0 if summary["over_limit"] == summary["repeated"] == 0 else 1

    def _prepare(self) -> None:
        run_flask(self.environment, "db", "upgrade")
        with database.connect(self.url, "sluice demo") as conn:
            _refuse_other_work(conn)
            samples.add_keys(conn, Vault([self.environment["SLUICE_MASTER_KEYS"]]))
        for one in samples.DEMO_LISTS:
            click.echo(samples.import_list(self.environment, self.sandbox, one, self.folder))

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


def _refuse_other_work(conn: psycopg.Connection) -> None:
    """Its workers ask the sandbox whatever the database holds, so it must hold nothing but samples."""
    there = lists.see(conn)
    others = [one.name for one in there if not samples.is_sample_list(one)]
    foreign = [key.label for key in keys.see(conn) if not samples.is_sample_key(key)]
    if others or foreign:
        raise DemoFailed(
            "This database holds work of yours"
            f" ({', '.join(f'“{name}”' for name in (others + foreign)[:3])})."
            " The demo needs one of its own: set DATABASE_URL to an empty database."
        )
    for one in there:
        lists.delete(conn, one.id)


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
