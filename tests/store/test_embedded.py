"""Real servers, real programs, real kills."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

from store.embedded import Binaries, EmbeddedError, Server, database, wheel
from store.embedded.cluster import Cluster
from store.embedded.server import home_away
from store.settings import read

ROOT = Path(__file__).resolve().parents[2]
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root cannot run PostgreSQL itself")

PROGRAM = """
import os, sys
from pathlib import Path
from store.embedded import Server
server = Server(Path(sys.argv[1]))
print(os.geteuid(), server.start(), server.home, flush=True)
if sys.argv[2:] == ["fork"] and os.fork() == 0:
    print(os.getpid(), flush=True)
sys.stdin.readline()
print(server.stop(), flush=True)
"""


class Program:
    """A program that uses the server until it is told to leave."""

    def __init__(self, var: Path, *arguments: str, before: tuple[str, ...] = ()) -> None:
        command = [*before, sys.executable, "-W", "error", "-c", PROGRAM, str(var), *arguments]
        self.process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def line(self) -> str:
        assert self.process.stdout
        return self.process.stdout.readline().strip()

    def leave(self) -> str:
        """`True` when it stopped the server."""
        assert self.process.stdin
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.line()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def program(var: Path) -> Iterator[Callable[..., Program]]:
    with ExitStack() as stack:

        def run(*arguments: str, before: tuple[str, ...] = ()) -> Program:
            made = Program(var, *arguments, before=before)
            stack.callback(made.close)
            return made

        yield run


@contextmanager
def checkout(directory: Path) -> Iterator[Path]:
    """The `var/` of a checkout that nobody else can enter; its server is gone afterwards."""
    directory.chmod(0o700)
    var = directory / "var"
    yield var
    for home in (var / "postgres", home_away(var)):
        with suppress(FileNotFoundError, ProcessLookupError):
            os.kill(postmaster(home), signal.SIGQUIT)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def var(tmp_path: Path) -> Iterator[Path]:
    """That of a new checkout."""
    with checkout(tmp_path) as var:
        yield var


@pytest.fixture(scope="module")
def kept_var(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """That of a checkout with a database, for tests that do it no harm."""
    with checkout(tmp_path_factory.mktemp("kept")) as var:
        yield var


@pytest.fixture
def open_checkout() -> Iterator[Path]:
    """A checkout that everybody can enter, with programs that everybody can run."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as made:
        Path(made).chmod(0o755)
        yield Path(made)


def postmaster(home: Path) -> int:
    return int((home / "data" / "postmaster.pid").read_text().split("\n")[0])


def ask(url: str, query: str) -> object:
    with psycopg.connect(url) as conn:
        row = conn.execute(query.encode()).fetchone()
    assert row
    return row[0] if len(row) == 1 else row


def is_gone(url: str) -> bool:
    with suppress(psycopg.OperationalError):
        psycopg.connect(url, connect_timeout=2).close()
        return False
    return True


def test_the_first_start_makes_a_durable_database_of_an_ordinary_role(kept_var: Path) -> None:
    with Server(kept_var) as server:
        assert ask(server.url, "SELECT current_database(), current_user") == ("sluice", "sluice")
        assert ask(server.url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is False
        assert ask(server.admin_url, "SELECT rolsuper FROM pg_roles WHERE rolname = current_user") is True
        assert (
            ask(server.url, "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'sluice'")
            == "sluice"
        )
        ask(server.url, "SELECT count(*) FROM pg_stat_statements")
        assert ask(server.url, "SELECT lower('ÅÉ')") == "åé"
        wanted = {
            "fsync": "on",
            "synchronous_commit": "on",
            "max_connections": "200",
            "client_connection_check_interval": "500ms",
            "TimeZone": "UTC",
            "server_encoding": "UTF8",
            "listen_addresses": "127.0.0.1",
        }
        for name, value in wanted.items():
            assert ask(server.url, f"SELECT current_setting('{name}')") == value


def test_a_login_without_the_password_is_refused(kept_var: Path) -> None:
    with Server(kept_var) as server:
        open_door = server.url.split(":")[0] + "://sluice@" + server.url.split("@")[1]
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(open_door)
        for secret in (server.home / "password", server.home / "server.log"):
            assert secret.stat().st_mode & 0o077 == 0


@only_root
def test_root_in_a_closed_checkout_runs_it_elsewhere_and_opens_nothing(var: Path) -> None:
    closed = wheel().copied_to(var.parent / "closed")
    with Server(var, closed) as server:
        assert server.home == home_away(var)
        assert ask(server.url, "SELECT 1") == 1
        assert (server.home / "data").stat().st_uid == pwd.getpwnam("nobody").pw_uid
        assert (server.home / "data").stat().st_mode & 0o077 == 0
    assert var.parent.stat().st_mode & 0o777 == 0o700
    assert not (var / "postgres").exists()


@only_root
def test_root_in_an_open_checkout_keeps_the_data_in_it(open_checkout: Path) -> None:
    with Server(open_checkout / "var", wheel().copied_to(open_checkout / "postgresql")) as server:
        assert server.home == open_checkout / "var" / "postgres"
        assert ask(server.url, "SELECT 1") == 1


def test_data_is_found_again_when_the_checkout_was_opened_or_closed(open_checkout: Path) -> None:
    var, binaries = open_checkout / "var", wheel().copied_to(open_checkout / "postgresql")
    open_checkout.chmod(0o700)
    with Server(var, binaries) as server:
        home = server.home
    open_checkout.chmod(0o755)
    try:
        with Server(var, binaries) as server:
            assert server.home == home
    finally:
        shutil.rmtree(home)


@only_root
def test_data_in_a_checkout_that_was_closed_gives_no_empty_database(open_checkout: Path) -> None:
    binaries = wheel().copied_to(open_checkout / "postgresql")
    with Server(open_checkout / "var", binaries):
        pass
    open_checkout.chmod(0o700)
    with pytest.raises(EmbeddedError, match=r"can no longer enter.*chmod"):
        Server(open_checkout / "var", binaries).start()


@pytest.fixture
def as_ordinary_user() -> tuple[str, ...]:
    """What to put before a command so that it is not root's."""
    if os.geteuid() != 0:
        return ()
    mapped = ("unshare", "--user", "--map-user=1000", "--map-group=1000")
    nobody = ("setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups")
    for before in (mapped, nobody):
        with suppress(FileNotFoundError):
            tried = subprocess.run(
                [*before, sys.executable, "-c", "import psycopg"], capture_output=True, check=False
            )
            if tried.returncode == 0:
                return before
    pytest.skip("no way here to run this interpreter as an ordinary user")


def test_an_ordinary_user_runs_it_in_place(
    var: Path, program: Callable[..., Program], as_ordinary_user: tuple[str, ...]
) -> None:
    var.mkdir()
    if "setpriv" in as_ordinary_user:
        nobody = pwd.getpwnam("nobody")
        os.chown(var, nobody.pw_uid, nobody.pw_gid)
    used = program(before=as_ordinary_user)
    uid, url, home = used.line().split()
    assert uid != "0"
    assert home == str(var / "postgres")
    assert ask(url, "SELECT 1") == 1
    assert used.leave() == "True"


def test_three_programs_share_one_server_and_the_last_stops_it(program: Callable[..., Program]) -> None:
    programs = [program() for _ in range(3)]
    (started,) = {used.line() for used in programs}
    url = started.split()[1]
    assert programs[0].leave() == "False"
    assert programs[2].leave() == "False"
    assert ask(url, "SELECT 1") == 1
    assert programs[1].leave() == "True"
    assert is_gone(url)


def test_a_killed_program_holds_no_lock_even_when_its_child_lives_on(
    var: Path, program: Callable[..., Program]
) -> None:
    killed = program("fork")
    killed.line()
    child = int(killed.line())
    server = Server(var)
    server.start()
    killed.process.kill()
    killed.process.wait()
    os.kill(child, 0)
    try:
        assert server.stop() is True
    finally:
        os.kill(child, signal.SIGKILL)


def test_kill_9_of_the_server_loses_nothing_and_the_url_stays(kept_var: Path) -> None:
    with Server(kept_var) as server:
        url = server.url
        with psycopg.connect(url) as conn:
            conn.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        client = psycopg.connect(url)
        os.kill(postmaster(server.home), signal.SIGKILL)
        with Server(kept_var) as restarted:
            assert restarted.url == url
            assert ask(url, "SELECT answer FROM kept") == 42
        client.close()


def test_a_stopped_server_comes_back_at_the_same_url(kept_var: Path) -> None:
    with Server(kept_var) as server:
        url = server.url
    with Server(kept_var) as server:
        assert server.url == url


def test_another_port_is_taken_when_the_usual_one_is(kept_var: Path) -> None:
    with Server(kept_var) as server:
        url = server.url
    with (
        socket.create_server(("127.0.0.1", int(url.split(":")[-1].split("/")[0]))),
        Server(kept_var) as server,
    ):
        assert server.url != url
        assert ask(server.url, "SELECT 1") == 1


def test_half_a_data_directory_is_never_used(var: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Cluster, "_say", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Server(var).start()
    with Server(var) as server:
        assert ask(server.url, "SELECT 1") == 1
        assert sorted(path.name for path in server.home.glob("data*")) == ["data"]


def test_a_full_server_still_counts_as_running(kept_var: Path) -> None:
    with Server(kept_var) as server, ExitStack() as clients:
        with suppress(psycopg.OperationalError):
            for _ in range(200):
                clients.enter_context(psycopg.connect(server.url))
        another = Server(kept_var)
        assert another.start(timeout_seconds=2) == server.url
        assert another.stop() is False


def test_data_of_another_major_version_is_refused_with_what_to_do(var: Path) -> None:
    with Server(var) as server:
        home = server.home
    (home / "data" / "PG_VERSION").write_text("14\n")
    with pytest.raises(EmbeddedError) as refused:
        Server(var).start()
    for word in ("PostgreSQL 14", "PostgreSQL 18", str(home / "data"), "pg_dump", "move that directory away"):
        assert word in str(refused.value)


def test_data_of_debians_postgresql_is_refused_by_the_wheels(var: Path, debian_binaries: Binaries) -> None:
    with Server(var, debian_binaries) as server:
        assert str(ask(server.url, "SHOW server_version")).startswith("15.")
        assert ask(server.url, "SELECT lower('ÅÉ')") == "åé"
    with pytest.raises(EmbeddedError, match="made by PostgreSQL 15"):
        Server(var).start()


@pytest.mark.parametrize("tamper", ["writable", "link", "file"])
def test_a_directory_that_is_not_ours_alone_is_refused(var: Path, tmp_path: Path, tamper: str) -> None:
    var.mkdir()
    home = home_away(var) if os.geteuid() == 0 else var / "postgres"
    if tamper == "writable":
        home.mkdir()
        home.chmod(0o777)
    elif tamper == "link":
        home.symlink_to(tmp_path)
    else:
        home.touch()
    try:
        with pytest.raises(EmbeddedError, match=r"(?s)may change.*DATABASE_URL"):
            Server(var).start()
    finally:
        if tamper != "writable":
            home.unlink()


def test_a_start_that_cannot_work_fails_at_once_with_the_end_of_the_log(var: Path) -> None:
    with Server(var) as server:
        home = server.home
    with (home / "data" / "postgresql.conf").open("a") as conf:
        conf.write("work_mem = much\n")
    began = time.monotonic()
    with pytest.raises(EmbeddedError, match=r'(?s)does not start.*server\.log.*"work_mem": "much"'):
        Server(var).start()
    assert time.monotonic() - began < 10


def test_a_server_that_was_not_started_can_be_left(var: Path) -> None:
    server = Server(var)
    assert server.stop() is False
    with pytest.raises(EmbeddedError, match="was not started"):
        server.url  # noqa: B018


def test_without_the_wheel_database_url_is_named(var: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(EmbeddedError, match=r"not installed.*DATABASE_URL"):
        Server(var).start()


def test_a_system_without_glibc_is_told_so(var: Path, tmp_path: Path) -> None:
    foreign = Binaries(tmp_path, "bin")
    foreign.program("postgres").parent.mkdir()
    foreign.program("postgres").write_text("#!/lib/no-such-loader\n")
    foreign.program("postgres").chmod(0o755)
    with pytest.raises(EmbeddedError, match=r"cannot run here.*glibc.*DATABASE_URL"):
        Server(var, foreign).start()


def test_database_url_wins_over_the_embedded_server(var: Path) -> None:
    with database(read({"DATABASE_URL": "postgres://me@db/x"}), var) as url:
        assert url == "postgresql://me@db/x"
    assert not var.exists()


def test_without_database_url_the_embedded_server_runs_meanwhile(kept_var: Path) -> None:
    with database(read({}), kept_var) as url:
        assert ask(url, "SELECT 1") == 1
    assert is_gone(url)


def test_a_place_that_cannot_be_written_to_is_named_with_what_to_do(tmp_path: Path) -> None:
    var = tmp_path / "var"
    var.write_text("no directory")
    with pytest.raises(EmbeddedError, match=r"var: .*DATABASE_URL"):
        Server(var).start()
