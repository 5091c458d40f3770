"""Start and stop of the embedded server: any of our programs may start it, the last one to leave stops it.

`start.lock` is held around every start and stop. Whoever uses the server holds `users.lock` shared; who
can have it alone was the last. Both are `flock`s, so the locks of a killed program vanish with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import socket
import stat
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

import psycopg

from store.embedded.binaries import Account, Binaries, EmbeddedError, wheel

AWAY = Path("/var/tmp")  # noqa: S108 (what lies there is refused unless it is ours alone)
"""Where root's server keeps its data when the account that runs it cannot enter the checkout."""

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


class Server:
    """The server of one checkout. Use it as a context manager, or `start` and `stop` it."""

    def __init__(self, checkout_var: Path, binaries: Binaries | None = None) -> None:
        """`binaries`: other ones than the wheel's, for tests. They need a `checkout_var` of their own."""
        self._var = checkout_var.resolve()
        self._binaries = binaries
        self._account = Account.of_server()
        self._home = self._var / "postgres"
        self._port = 0
        self._users: int | None = None  # the handles that hold the locks
        self._directory: int | None = None
        _servers.add(self)

    @property
    def home(self) -> Path:
        """Its directory: `data`, `server.log`, `password`, the locks. Known after `start`."""
        return self._home

    @property
    def url(self) -> str:
        """The database `sluice` as its owner, an ordinary role that may also see the server's statistics."""
        return self._url("sluice", "sluice")

    @property
    def admin_url(self) -> str:
        """The database `postgres` as the superuser."""
        return self._url("postgres", "postgres")

    def start(self, timeout_seconds: float = 30) -> str:
        """Have the server running and be one of its users; answers `url`, the same after a crash.

        Raises `EmbeddedError`.
        """
        deadline = time.monotonic() + timeout_seconds
        binaries = self._binaries or wheel()
        version = binaries.version()
        self._choose_home(binaries)
        with self._starting():
            if not self._account.may(binaries.program("postgres")):
                binaries = binaries.copied_to(self._home / f"postgresql-{version}")
            self._binaries = binaries
            self._join()
            try:
                if not self._data.exists():
                    self._create(version)
                self._refuse_other_major(version)
                while not self._answers():
                    self._try_to_start(deadline)
            except BaseException:
                self._leave()
                raise
        return self.url

    def stop(self) -> bool:
        """Leave. True when nobody else used the server: then it is stopped. Harmless without a start."""
        if self._users is None:
            return False
        with self._starting():
            try:
                fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            else:
                if self._answers():
                    self._run("pg_ctl", "stop", "-D", self._data, "-m", "fast", "-w")
                return True
            finally:
                self._leave()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Where it lives

    @property
    def _data(self) -> Path:
        return self._home / "data"

    @property
    def _log(self) -> Path:
        return self._home / "server.log"

    def _choose_home(self, binaries: Binaries) -> None:
        """In the checkout, unless only root can enter it. Data that exists is found again."""
        self._var.mkdir(parents=True, exist_ok=True)
        here = self._var / "postgres"
        away = AWAY / f"sluice-{hashlib.sha256(str(self._var).encode()).hexdigest()[:12]}"
        with_data = [home for home in (here, away) if (home / "data").exists()]
        enterable = self._account.may(self._var) and self._account.may(binaries.program("postgres"))
        self._home = with_data[0] if with_data else here if enterable else away
        with suppress(FileExistsError):
            self._home.mkdir()
        found = self._home.lstat()
        ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022
        if not ours:
            raise EmbeddedError(
                f"{self._home} is not a directory that only the present user (uid {os.geteuid()}) may change, "
                "so no database is kept there. Look who made it; move it away or set DATABASE_URL."
            )
        self._home.chmod(0o700 if self._account.uid is None else 0o711)

    # Who uses it

    def _lock(self, name: str, how: int) -> int:
        handle = os.open(self._home / name, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(handle, how)
        return handle

    @contextmanager
    def _starting(self) -> Iterator[None]:
        handle = self._lock("start.lock", fcntl.LOCK_EX)
        try:
            yield
        finally:
            os.close(handle)

    def _join(self) -> None:
        if self._users is None:
            self._users = self._lock("users.lock", fcntl.LOCK_SH)
            # systemd removes what is old under /var/tmp, but not from a directory that is locked.
            self._directory = os.open(self._home, os.O_RDONLY)
            fcntl.flock(self._directory, fcntl.LOCK_SH)

    def _leave(self) -> None:
        for handle in (self._users, self._directory):
            if handle is not None:
                os.close(handle)
        self._users = self._directory = None

    # The server itself

    def _url(self, role: str, name: str) -> str:
        return f"postgresql://{role}:{(self._home / 'password').read_text()}@127.0.0.1:{self._port}/{name}"

    def _run(self, program: str, *arguments: str | Path, text: str = "") -> None:
        assert self._binaries is not None  # noqa: S101 (start has set it)
        done = self._account.run(
            [self._binaries.program(program), *arguments], self._binaries.environment(), text
        )
        if done.returncode:
            raise EmbeddedError(
                f"{program} of the embedded PostgreSQL failed in {self._home}: {done.stderr.strip()}"
            )

    def _create(self, version: str) -> None:
        """Make the data directory, role and database. Half of it is never seen: the rename comes last."""
        new = self._home / "data.new"
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir(mode=0o700)
        self._account.own(new)
        builtin = _major(version) >= _FIRST_WITH_BUILTIN_LOCALE
        locale = ("--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C")
        self._run(
            "initdb", "-D", new, "-U", "postgres", "-A", "reject", "-E", "UTF8",
            *(locale if builtin else ("--locale=C.UTF-8",)),
        )  # fmt: skip
        (new / "pg_hba.conf").write_text(_HBA)
        password = secrets.token_urlsafe(24)
        self._speak_to(new, "postgres", _ROLES.format(password=password))
        self._speak_to(new, "sluice", "CREATE EXTENSION pg_stat_statements\n")
        kept = self._home / "password"
        kept.touch(mode=0o600)
        kept.write_text(password)
        new.rename(self._data)

    def _speak_to(self, data: Path, name: str, statements: str) -> None:
        # One line is one statement. A failed one must neither be passed over nor write the password to a log.
        strict = ("-c", "exit_on_error=on", "-c", "log_min_error_statement=panic")
        self._run("postgres", "--single", "-D", data, *strict, name, text=statements)

    def _refuse_other_major(self, version: str) -> None:
        theirs, ours = _major((self._data / "PG_VERSION").read_text()), _major(version)
        if theirs != ours:
            raise EmbeddedError(
                f"{self._data} was made by PostgreSQL {theirs}; the embedded one is PostgreSQL {ours} and cannot "
                f"read it. Either move that directory away (a new, empty database is made), or run PostgreSQL "
                f"{theirs} on it, save it with pg_dump, move it away, and load it into the new one."
            )

    def _answers(self) -> bool:
        """Whether a login works: a pid may be a zombie's, and a killed server's port connects for a while."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        if len(lines) < 8 or lines[7].strip() != "ready":  # noqa: PLR2004 (the file's format)
            return False
        self._port = int(lines[3])
        try:
            psycopg.connect(self.admin_url, connect_timeout=2).close()  # the superuser's seats are kept free
        except psycopg.OperationalError:
            return False
        return True

    def _try_to_start(self, deadline: float) -> None:
        """Start it once. Raises `EmbeddedError` when it failed for good or it is past `deadline`."""
        self._log.touch(mode=0o600)
        self._account.own(self._log)
        seen = self._log.stat().st_size
        port = self._usual_port()
        options = " ".join(f"-c {option}" for option in (f"port={port}", *_OPTIONS))
        seconds = max(1, round(deadline - time.monotonic()))
        try:
            self._run(
                "pg_ctl", "start", "-D", self._data, "-l", self._log, "-w", "-t", str(seconds), "-o", options
            )
        except EmbeddedError as error:
            with self._log.open("rb") as log:
                log.seek(seen)
                said = log.read().decode(errors="replace")
            if time.monotonic() < deadline and any(reason in said for reason in _PASSING):
                time.sleep(_BETWEEN_TRIES_SECONDS)
                return
            tail = "\n".join(said.splitlines()[-_LOG_LINES:])
            raise EmbeddedError(
                f"PostgreSQL does not start. {error}\nThe end of {self._log}:\n{tail}"
            ) from error
        (self._home / "port").write_text(str(port))

    def _usual_port(self) -> int:
        """The port it had before, so that programs that lost it find it again, or else a free one."""
        with suppress(OSError, ValueError), socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port = int((self._home / "port").read_text())
            probe.bind(("127.0.0.1", port))
            return port
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])


def _major(version: str) -> int:
    return int(version.split(".", maxsplit=1)[0])


_servers: weakref.WeakSet[Server] = weakref.WeakSet()


def _leave_it_to_the_parent() -> None:
    # A forked child shares its parent's lock and would hold it beyond the parent's end.
    for server in _servers:
        server._leave()


os.register_at_fork(after_in_child=_leave_it_to_the_parent)
