"""A mail server and a webhook receiver on real sockets, the monitor as a process, and rows to look at."""

from __future__ import annotations

import os
import socketserver
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import psycopg
import pytest

from store import database

ROOT = Path(__file__).resolve().parents[2]
SECRET = "a secret of the tests"


@dataclass
class Received:
    """A request as the receiver got it."""

    headers: dict[str, str]
    body: bytes


@dataclass
class Hook:
    """A receiver of webhooks: `status` is its answer, which it holds back while `go_on` is not set."""

    port: int = 0
    status: int = 204
    received: list[Received] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/T1/hidden"


@dataclass
class Mail:
    """A mail server: `refused` are addresses that it does not take, `after` its answer to a message."""

    port: int = 0
    refused: frozenset[str] = frozenset()
    after: bytes = b"250 kept"
    goodbye: bytes = b"221 bye"
    password: str = ""
    messages: list[EmailMessage] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


@contextmanager
def _serving(server: socketserver.TCPServer) -> Iterator[int]:
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield int(server.server_address[1])
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def hook_on(hook: Hook) -> Iterator[Hook]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            hook.received.append(Received(dict(self.headers), body))
            hook.go_on.wait(20)
            self.send_response(hook.status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    class Quiet(ThreadingHTTPServer):
        def handle_error(self, *_: Any) -> None:
            """A client that was killed is no error here."""

    with _serving(Quiet(("127.0.0.1", hook.port), Handler)) as hook.port:
        yield hook
        hook.go_on.set()


class _MailHandler(socketserver.StreamRequestHandler):
    """Just enough of SMTP; what it does is in its server's `mail`."""

    def handle(self) -> None:
        self.kept: Mail = self.server.mail  # type: ignore[attr-defined]
        self.say(b"220 test")
        while line := self.rfile.readline():
            verb, _, rest = line.decode().strip().partition(" ")
            getattr(self, f"on_{verb.lower()}", self.on_rset)(rest)
            if verb == "QUIT":
                return

    def say(self, line: bytes) -> None:
        self.wfile.write(line + b"\r\n")

    def on_ehlo(self, _: str) -> None:
        self.say(b"250-test\r\n250 AUTH PLAIN")

    def on_auth(self, _: str) -> None:
        self.say(f"535 no, {self.kept.password} is wrong".encode())

    def on_rcpt(self, rest: str) -> None:
        address = rest.partition("<")[2].rstrip(">")
        self.kept.recipients.append(address)
        self.say(b"550 unknown" if address in self.kept.refused else b"250 ok")

    def on_data(self, _: str) -> None:
        self.say(b"354 go on")
        content = bytearray()
        while (line := self.rfile.readline()) != b".\r\n":
            content += line
        made = message_from_bytes(bytes(content), _class=EmailMessage, policy=policy.default)
        self.kept.messages.append(made)
        self.say(self.kept.after)

    def on_rset(self, _: str) -> None:
        self.say(b"250 ok")

    def on_quit(self, _: str) -> None:
        self.say(self.kept.goodbye)


@contextmanager
def mail_on(mail: Mail) -> Iterator[Mail]:
    server = _Server(("127.0.0.1", mail.port), _MailHandler)
    server.mail = mail  # type: ignore[attr-defined]
    with _serving(server) as mail.port:
        yield mail


@pytest.fixture
def hook() -> Iterator[Hook]:
    """A receiver that answers at once."""
    receiver = Hook()
    receiver.go_on.set()
    with hook_on(receiver):
        yield receiver


@pytest.fixture
def mail() -> Iterator[Mail]:
    with mail_on(Mail()) as server:
        yield server


@pytest.fixture
def serve_mail() -> Callable[[Mail], Any]:
    """`with serve_mail(mail):` a mail server that is up for that long, on its `port` when that is set."""
    return mail_on


@pytest.fixture(scope="session")
def until() -> Callable[..., None]:
    """`until(condition, seconds)`: wait for something that another thread or process does."""

    def wait(condition: Callable[[], bool], seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"did not happen within {seconds:g} s"
            time.sleep(0.01)

    return wait


@pytest.fixture(scope="session")
def room_dsn(make_database: Callable[[], str]) -> str:
    """The database of this room's tests: one for all, since making and dropping one takes a second."""
    return make_database()


@pytest.fixture
def db(room_dsn: str) -> Iterator[psycopg.Connection]:
    """An autocommit connection to the room's database, emptied."""
    with database.connect(room_dsn, "test") as conn:
        conn.execute("TRUNCATE service, worker, call, alert, alert_rule, tally_delta, monitor CASCADE")
        conn.execute("INSERT INTO monitor DEFAULT VALUES")
        yield conn


@pytest.fixture(scope="session")
def a_key() -> Callable[..., int]:
    """`a_key(conn, label, state, service=…)`: a key with a limit of 600/5m; returns its id."""

    def make(conn: psycopg.Connection, label: str, state: str = "active", service: str = "uk") -> int:
        conn.execute("INSERT INTO service (name) VALUES (%s) ON CONFLICT DO NOTHING", (service,))
        (key,) = conn.execute(
            """WITH a AS (INSERT INTO account (service, name) VALUES (%(s)s, %(l)s) RETURNING id),
               w AS (INSERT INTO allowance (account_id, no, amount, per_seconds, guard_seconds)
                     SELECT id, 0, 600, 300, 0.5 FROM a)
               INSERT INTO key (account_id, service, label, secret, fingerprint, state)
               SELECT id, %(s)s, %(l)s, 'x', %(l)s, %(state)s FROM a RETURNING id""",
            {"s": service, "l": label, "state": state},
        ).fetchall()
        return int(key[0])

    return make


@dataclass
class Process:
    """`python -m monitor`, and what it has written so far."""

    popen: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8")


@pytest.fixture
def start(db: psycopg.Connection, room_dsn: str, tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """`start(*arguments, SETTING=…)`: one more monitor on the room's database; killed at the end."""
    started: list[Process] = []

    def one(*arguments: str, **environ: str) -> Process:
        log = tmp_path / f"monitor{len(started)}.log"
        with log.open("wb") as output:
            popen = subprocess.Popen(
                [sys.executable, "-m", "monitor", *arguments],
                cwd=ROOT,
                env={
                    **{k: v for k, v in os.environ.items() if k not in {"SMTP_URL", "ALERT_WEBHOOK_URL"}},
                    "DATABASE_URL": room_dsn,
                    "MONITOR_SECONDS": "0.2",
                    "ALERT_WEBHOOK_SECRET": SECRET if "ALERT_WEBHOOK_URL" in environ else "",
                    **environ,
                },
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        started.append(Process(popen, log))
        return started[-1]

    yield one
    for process in started:
        process.popen.kill()
        process.popen.wait()


@pytest.fixture(scope="session")
def unused_port() -> Callable[[], int]:
    """A port on which nobody listens."""

    def port() -> int:
        with _Server(("127.0.0.1", 0), socketserver.BaseRequestHandler) as server:
            return int(server.server_address[1])

    return port


@pytest.fixture
def other(room_dsn: str) -> Iterator[psycopg.Connection]:
    """One more connection, as another monitor has it."""
    with database.connect(room_dsn, "test") as conn:
        yield conn
