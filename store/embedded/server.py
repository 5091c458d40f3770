"""Who uses the embedded server: any of our programs may start it, the last one to leave stops it.

`start.lock` is held around every start and stop. Whoever uses the server holds `users.lock` shared; who
can have it alone was the last. Both are `flock`s, so the locks of a killed program vanish with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import stat
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Self

from store.embedded.binaries import Account, Binaries, EmbeddedError, wheel
from store.embedded.cluster import Cluster

AWAY = Path("/var/tmp")  # noqa: S108 (what lies there is refused unless it is ours alone)


class Server:
    """The server of one checkout. Use it as a context manager, or `start` and `stop` it."""

    def __init__(
        self, checkout_var: Path, binaries: Binaries | None = None, *, is_throwaway: bool = False
    ) -> None:
        """`binaries`: other ones than the wheel's, for tests. They need a `checkout_var` of their own.

        `is_throwaway`: whoever leaves last removes the data; also for tests.
        """
        self._var = checkout_var.resolve()
        self._binaries = binaries
        self._is_throwaway = is_throwaway
        self._cluster: Cluster | None = None
        self._port = 0
        self._handles: list[int] = []  # they hold our place among the users; the first is that of users.lock
        _servers.add(self)

    @property
    def home(self) -> Path:
        """Its directory: `data`, `server.log` and so on. Known after `start`, as are the URLs."""
        return self._started().home

    @property
    def url(self) -> str:
        """The database `sluice` as its owner, an ordinary role that may also see the server's statistics."""
        return self._started().url("sluice", "sluice", self._port)

    @property
    def admin_url(self) -> str:
        """The database `postgres` as the superuser."""
        return self._started().url("postgres", "postgres", self._port)

    def start(self, timeout_seconds: float = 30) -> str:
        """Have the server running and be one of its users; returns `url`, after a crash the same again.

        Raises `EmbeddedError`.
        """
        try:
            return self._start(time.monotonic() + timeout_seconds)
        except OSError as error:
            raise EmbeddedError(
                f"{error.filename or self._var}: {error.strerror}. The database of this checkout is kept in"
                f" {self._var}: let the present user write there, or set DATABASE_URL."
            ) from error

    def _start(self, deadline: float) -> str:
        binaries = self._binaries or wheel()
        version = binaries.version()
        account = Account.of_server()
        home = _home(self._var, binaries, account)
        with _held(home / "start.lock"):
            if not account.may(binaries.program("postgres")):
                binaries = binaries.copied_to(home / f"postgresql-{version}")
            self._cluster = Cluster(home, binaries, account)
            self._join()
            try:
                if not self._cluster.data.exists():
                    self._cluster.create()
                self._cluster.refuse_other_major()
                self._port = self._cluster.start(deadline)
            except BaseException:
                self._leave()
                raise
        return self.url

    def stop(self) -> bool:
        """Leave. True when nobody else used the server: then it is stopped. Harmless without a start."""
        if not self._handles:
            return False
        with _held(self.home / "start.lock"):
            try:
                fcntl.flock(self._handles[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            else:
                self._started().stop()
                if self._is_throwaway:
                    shutil.rmtree(self._started().data)
                return True
            finally:
                self._leave()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _started(self) -> Cluster:
        if self._cluster is None:
            raise EmbeddedError(f"The embedded server of {self._var} was not started by this program.")
        return self._cluster

    def _join(self) -> None:
        if self._handles:
            return
        self._handles.append(_open(self.home / "users.lock"))
        # systemd removes what is old under /var/tmp, but nothing in a directory that somebody locked.
        self._handles.append(os.open(self.home, os.O_RDONLY))
        for handle in self._handles:
            fcntl.flock(handle, fcntl.LOCK_SH)

    def _leave(self) -> None:
        for handle in self._handles:
            fcntl.flock(handle, fcntl.LOCK_UN)  # also for a child that was forked and still has it
        self._forget()

    def _forget(self) -> None:
        for handle in self._handles:
            os.close(handle)
        self._handles.clear()


def home_away(var: Path) -> Path:
    """Where the server of `var` (an absolute path) lives when the account that runs it can't enter that."""
    return AWAY / f"sluice-{hashlib.sha256(str(var).encode()).hexdigest()[:12]}"


def _home(var: Path, binaries: Binaries, account: Account) -> Path:
    """The server's directory, made if need be: in the checkout, unless only root can enter that.

    Where there is data already, there it stays. Raises `EmbeddedError` when its server cannot reach it, or
    others could tamper with it.
    """
    var.mkdir(parents=True, exist_ok=True)
    here = var / "postgres"
    away = home_away(var)
    if account.uid is None or (here / "data").exists():
        home = here
    elif (away / "data").exists() or not (account.may(var) and account.may(binaries.program("postgres"))):
        home = away
    else:
        home = here
    if home == here and not account.may(var):
        raise EmbeddedError(
            f"The database is in {here}, and nobody, as whom root's server runs, can no longer enter {var}. "
            "Let others enter that path again (chmod o+x), or move the database away: a new one is made."
        )
    with suppress(FileExistsError):
        home.mkdir(mode=0o700)
    found = home.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise EmbeddedError(
            f"{home} is not a directory that only the present user (uid {os.geteuid()}) may change, so no "
            "database is kept there. Look who made it; move it away or set DATABASE_URL."
        )
    home.chmod(0o700 if account.uid is None else 0o711)
    return home


def _open(lock: Path) -> int:
    return os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)


@contextmanager
def _held(lock: Path) -> Iterator[None]:
    handle = _open(lock)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        fcntl.flock(handle, fcntl.LOCK_UN)
        os.close(handle)


_servers: weakref.WeakSet[Server] = weakref.WeakSet()


def _leave_it_to_the_parent() -> None:
    # A forked child shares its parent's locks and would hold them beyond the parent's end.
    for server in _servers:
        server._forget()


os.register_at_fork(after_in_child=_leave_it_to_the_parent)
