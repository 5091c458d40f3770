"""`make run`: all of Sluice on this machine, to try it and to work with it. Ctrl-C stops all of it.

Runs the embedded PostgreSQL (or DATABASE_URL's), three workers, the monitor and the console on PORT
(8000), and starts again what dies. Logs are in var/run/log.

Who plays the services? While a database holds nothing but samples: the sandbox, on this machine. An empty
database gets sample keys and sample lists. As soon as it holds a key of your own, the real services are
asked: the sandbox leaves, sample lists are paused, sample keys disabled. A key of your own is never sent to
the sandbox, and a sample key never to a service. With SLUICE_SERVICES_URL that address is asked instead,
and nothing of the sample is used. A database that holds lists and no key waits for one.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

import psycopg

from deploy import samples
from deploy.parts import PartFailed, Parts, alone, free_port, run_flask
from deploy.samples import Sandbox
from store import database, keys, lists
from store.settings import BadSetting, Settings, local_master_key, local_secret_key
from store.start import VAR, CannotStart, reachable_database, read_settings
from store.vault import Vault

WORKERS = 3
LOOK_SECONDS = 1.0
STOP_SECONDS = 10.0
ADMINISTRATOR = "admin@example.com"


def main() -> int:
    """Run everything until Ctrl-C or SIGTERM; returns the exit code: 0 after an orderly stop."""
    parser = argparse.ArgumentParser(
        prog="make run", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    try:
        settings = read_settings()
        address = f"http://127.0.0.1:{settings.port}"
        with alone(VAR / "run.lock", f"`make run` ({address})"):
            _refuse_busy_port(settings.port)
            with _stopped_by_signals(), reachable_database(settings) as url:
                _Run(settings, url, address).run()
    except (CannotStart, BadSetting, PartFailed) as error:
        print(f"run: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        _say("Stopped.")
    return 0


class _Run:
    """All parts on the database at `url`, with the console at `address`."""

    def __init__(self, settings: Settings, url: str, address: str) -> None:
        self.settings = settings
        self.url = url
        self.address = address
        self.folder = VAR / "run"
        self.has_greeted = False
        self.master_keys = _master_keys(settings)
        self.environment = {
            "DATABASE_URL": url,
            "PORT": str(settings.port),
            "SLUICE_MASTER_KEYS": ",".join(self.master_keys),
            "SLUICE_SECRET_KEY": os.environ.get("SLUICE_SECRET_KEY") or local_secret_key(VAR),
            "FLASK_APP": "wsgi",
        }

    def run(self) -> None:
        """Until a signal comes. All parts are started anew when other services are to be asked."""
        _say("Starting …")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        run_flask(self.environment, "db", "upgrade")
        while True:
            with database.connect(self.url, "sluice run") as conn:
                is_sample = sandbox_plays(conn, self.settings)
                if not is_sample:
                    put_samples_away(conn)
            sandbox = Sandbox() if is_sample else None
            asked = {"SLUICE_SERVICES_URL": sandbox.url} if sandbox else {}
            with Parts(self.folder / "log", self.environment | asked, STOP_SECONDS) as parts:
                try:
                    self._start(parts, sandbox)
                    self._greet(is_sample)
                    self._watch(parts, is_sample)
                finally:  # whoever asks the sandbox is gone before it
                    parts.stop([part for part in parts.parts if part.name != "sandbox"])

    def _start(self, parts: Parts, sandbox: Sandbox | None) -> None:
        """What others need is started first."""
        if sandbox:
            sandbox.start(parts, self.folder, samples.COMPANIES_IN_A_SAMPLE_LIST)
        parts.start("web", "-m", "gunicorn", "-c", "deploy/gunicorn.conf.py", "wsgi:app")
        parts.start("monitor", "-m", "monitor")
        if sandbox:
            self._add_samples(sandbox)
        key_set = ("--slots", "4", "--key-set", samples.KEY_SET) if sandbox else ()
        for number in range(1, WORKERS + 1):
            parts.start(f"worker-{number}", "-m", "worker", *key_set)
        samples.wait_for(f"{self.address}/healthz", parts, "web")

    def _add_samples(self, sandbox: Sandbox) -> None:
        """The first list runs, so that something moves; the others wait for somebody to press Resume."""
        with database.connect(self.url, "sluice run") as conn:
            samples.add_keys(conn, Vault(self.master_keys))
            there = {one.name for one in lists.see(conn)}
            for place, sample in enumerate(samples.RUN_LISTS):
                if sample.name not in there:
                    samples.import_list(self.environment, sandbox, sample, self.folder)
                    if place > 0:
                        lists.pause(conn, lists.see(conn, sample.name)[0].id)

    def _greet(self, is_sample: bool) -> None:
        """Who plays the services; the first time also where the console is, and last how to sign in."""
        if is_sample:
            _say("The sandbox plays the services until you add a key of your own (make run ARGS=--help).")
        else:
            _say(f"Services are asked at {self.settings.services_url or 'their own addresses'}.")
        if not self.has_greeted:
            self.has_greeted = True
            _say(f"Sluice runs at {self.address}. Logs: {self.folder / 'log'}. Ctrl-C stops everything.")
            self._invite()

    def _invite(self) -> None:
        """A link for the administrator, alone on the last line. Where only others are, nobody is added."""
        there = {one["email"] for one in json.loads(run_flask(self.environment, "users", "list", "--json"))}
        if there and ADMINISTRATOR not in there:
            _say("Sign in there as always. For a forgotten password: flask users link EMAIL")
            return
        words = ("link", ADMINISTRATOR) if there else ("add", ADMINISTRATOR, "--role", "administrator")
        link = run_flask(self.environment, "users", *words).splitlines()[-1]
        _say(f"To sign in as {ADMINISTRATOR}, once:")
        _say(link)

    def _watch(self, parts: Parts, is_sample: bool) -> None:
        """Start again what dies, also the database; back when other services are to be asked."""
        while True:
            for name in parts.watch():
                _say(f"{name} died and was started again.")
            try:
                with database.connect(self.url, "sluice run") as conn:
                    if sandbox_plays(conn, self.settings) != is_sample:
                        _say("There is a key of your own now: all starts again, without the sandbox.")
                        _say("Lists of yours that ran before hold the sandbox's answers: run them again.")
                        return
            except psycopg.OperationalError:
                self._revive_database()
            time.sleep(LOOK_SECONDS)

    def _revive_database(self) -> None:
        """The embedded server is started again; somebody else's is waited for."""
        with suppress(CannotStart), reachable_database(self.settings):
            _say("The database died and is there again.")


def sandbox_plays(conn: psycopg.Connection, settings: Settings) -> bool:
    """Whether the sandbox plays the services: the rule of this module's docstring."""
    if settings.services_url:
        return False
    there = keys.see(conn)
    return all(map(samples.is_sample_key, there)) if there else not lists.see(conn)


def put_samples_away(conn: psycopg.Connection) -> None:
    """No sample list runs on, and no sample key is ever sent to a real service."""
    for one in filter(samples.is_sample_list, lists.see(conn)):
        lists.pause(conn, one.id)
    for key in filter(samples.is_sample_key, keys.see(conn)):
        keys.disable(conn, key.id)


def _master_keys(settings: Settings) -> tuple[str, ...]:
    with suppress(BadSetting):
        return settings.master_keys()
    return (local_master_key(VAR),)


def _refuse_busy_port(port: int) -> None:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
            listener.listen()
        except OSError as error:
            raise PartFailed(
                f"Port {port} cannot be used ({error.strerror}). Choose another: make run PORT={free_port()}"
            ) from None


@contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """The first SIGINT or SIGTERM ends what the body does; all further ones are too late."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        _say("Stopping …")
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    yield


def _say(line: str) -> None:
    with suppress(BrokenPipeError):
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
