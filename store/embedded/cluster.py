"""One data directory and the PostgreSQL that runs on it: made, started, asked, stopped."""

from __future__ import annotations

import secrets
import shutil
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psycopg

from store.embedded.binaries import Account, Binaries, EmbeddedError

_OPTIONS = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",  # a deep checkout's path is longer than a socket's may be
    "fsync=on",
    "synchronous_commit=on",
    "max_connections=200",
    "shared_preload_libraries=pg_stat_statements",
    "client_connection_check_interval=500ms",
    "log_min_messages=warning",
    "timezone=UTC",
    "log_timezone=UTC",
)

_HBA = "host all all 127.0.0.1/32 scram-sha-256\n"

_ROLES = """\
ALTER ROLE postgres PASSWORD '{password}'
CREATE ROLE sluice LOGIN PASSWORD '{password}'
GRANT pg_monitor TO sluice
CREATE DATABASE sluice OWNER sluice
"""

_PASSING = ("lock file", "shared memory", "could not bind")
"""In the log of a failed start: a killed server is not quite gone, or somebody else took the port."""

_FIRST_WITH_BUILTIN_LOCALE = 17
_BETWEEN_TRIES_SECONDS = 0.1
_LOG_LINES = 15


@dataclass(frozen=True, slots=True)
class Cluster:
    """The PostgreSQL in `home`: `data`, `password`, `port`, `server.log`. Its callers take turns."""

    home: Path
    binaries: Binaries
    account: Account

    @property
    def data(self) -> Path:
        """Its data directory: complete, or not there."""
        return self.home / "data"

    def url(self, role: str, database: str, port: int) -> str:
        """Where `role` finds `database`."""
        password = (self.home / "password").read_text()
        return f"postgresql://{role}:{password}@127.0.0.1:{port}/{database}"

    def create(self) -> None:
        """Make the data directory, role and database. Half of it is never seen: the rename comes last."""
        new = self.home / "data.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        self.account.own(new)
        if _major(self.binaries.version()) >= _FIRST_WITH_BUILTIN_LOCALE:
            locale = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        else:
            locale = ["--locale=C.UTF-8"]
        self._run("initdb", "-D", new, "-U", "postgres", "-A", "reject", "-E", "UTF8", *locale)
        (new / "pg_hba.conf").write_text(_HBA)
        password = secrets.token_urlsafe(24)
        self._say(new, "postgres", _ROLES.format(password=password))
        self._say(new, "sluice", "CREATE EXTENSION pg_stat_statements\n")
        kept = self.home / "password"
        kept.touch(mode=0o600)
        kept.write_text(password)
        new.rename(self.data)

    def refuse_other_major(self) -> None:
        """Raises `EmbeddedError` when another major version made the data directory."""
        theirs = _major((self.data / "PG_VERSION").read_text())
        ours = _major(self.binaries.version())
        if theirs != ours:
            raise EmbeddedError(
                f"{self.data} was made by PostgreSQL {theirs}; the embedded one is PostgreSQL {ours} "
                "and cannot read it. Either move that directory away (a new, empty database is made), or run "
                f"PostgreSQL {theirs} on it, save it with pg_dump, move it away and load it into the new one."
            )

    def answers(self) -> int | None:
        """The port where a login works. A pid may be a zombie's; a killed server's port still connects."""
        try:
            lines = (self.data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return None
        if len(lines) < 8 or lines[7].strip() != "ready":  # noqa: PLR2004 (the file's format)
            return None
        port = int(lines[3])
        try:  # as the superuser, for whom some connections are kept free
            psycopg.connect(self.url("postgres", "postgres", port), connect_timeout=2).close()
        except psycopg.OperationalError:
            return None
        return port

    def start(self, deadline: float) -> int:
        """Have it running and return its port. Raises `EmbeddedError`; tries until `deadline` (monotonic)."""
        while (port := self.answers()) is None:
            self._try_to_start(deadline)
        return port

    def stop(self) -> None:
        """Stop it if it runs; its clients are cut off, what they had committed stays."""
        if self.answers():
            self._run("pg_ctl", "stop", "-D", self.data, "-m", "fast", "-w")

    def _try_to_start(self, deadline: float) -> None:
        log = self.home / "server.log"
        log.touch(mode=0o600)
        self.account.own(log)
        seen_bytes = log.stat().st_size
        port = self._usual_port()
        options = " ".join(f"-c {option}" for option in (f"port={port}", *_OPTIONS))
        seconds = str(max(1, round(deadline - time.monotonic())))
        try:
            self._run("pg_ctl", "start", "-D", self.data, "-l", log, "-w", "-t", seconds, "-o", options)
        except EmbeddedError as error:
            said = log.read_bytes()[seen_bytes:].decode(errors="replace")
            if time.monotonic() < deadline and any(reason in said for reason in _PASSING):
                time.sleep(_BETWEEN_TRIES_SECONDS)
                return
            end = "\n".join(said.splitlines()[-_LOG_LINES:])
            raise EmbeddedError(f"PostgreSQL does not start. {error}\nThe end of {log}:\n{end}") from error
        (self.home / "port").write_text(str(port))

    def _usual_port(self) -> int:
        """The port it had before, so that programs that lost it find it again; else a free one."""
        with suppress(OSError, ValueError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port = int((self.home / "port").read_text())
            probe.bind(("127.0.0.1", port))
            return port
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    def _say(self, data: Path, database: str, statements: str) -> None:
        # A line is a statement. A failed one is neither passed over nor does it bring a password into a log.
        strict = ("-c", "exit_on_error=on", "-c", "log_min_error_statement=panic")
        self._run("postgres", "--single", "-D", data, *strict, database, text=statements)

    def _run(self, program: str, *arguments: str | Path, text: str = "") -> None:
        command = [self.binaries.program(program), *arguments]
        done = self.account.run(command, self.binaries.environment(), text)
        if done.returncode:
            raise EmbeddedError(f"{program} failed in {self.home}: {(done.stderr or done.stdout).strip()}")


def _major(version: str) -> int:
    return int(version.split(".", maxsplit=1)[0])
