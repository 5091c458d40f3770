"""The far sides of a worker: a service on a socket, a database behind a proxy; and what a slot holds."""

from __future__ import annotations

import base64
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import psycopg
import pytest
from cryptography.fernet import Fernet

from services.extraction import Company, Extraction, Fields, Get, Options, Value
from services.service import Field, Kind, Service
from services.verdicts import (
    KeyExhausted,
    KeyInvalid,
    KeyRests,
    Refused,
    ServiceFailed,
    ServiceRests,
    Usable,
    Verdict,
)
from store import database, jobs, keys, limits, lists
from store.claims import Claim
from store.jobs import NewJob
from store.lists import NewList
from store.vault import Vault
from store.workers import Identity
from worker import connections
from worker.calling import Caller
from worker.connections import Connections
from worker.heartbeat import Heartbeat
from worker.http import Http
from worker.permits import Permits
from worker.reading import Files
from worker.work import Work
from worker.worker import Worker
from worker.writer import Writer

REGISTRY = "registry"
_number = count(1)


@pytest.fixture(scope="session")
def vault() -> Vault:
    return Vault([Fernet.generate_key().decode()])


@pytest.fixture(scope="session")
def until() -> Callable[..., None]:
    """`until(condition, seconds)`: wait for something that another thread does."""

    def wait(condition: Callable[[], object], seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"did not happen within {seconds:g} s"
            time.sleep(0.005)

    return wait


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[BaseHTTPRequestHandler], None]], str]]:
    """`serve(answer)`: a service whose every GET is answered by `answer(handler)`; gives its base URL."""
    with ExitStack() as running:

        def start(answer: Callable[[BaseHTTPRequestHandler], None]) -> str:
            return running.enter_context(_served(answer))

        yield start


@contextmanager
def _served(answer: Callable[[BaseHTTPRequestHandler], None]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            try:
                answer(self)
            except OSError:  # the client has gone: its business
                self.close_connection = True

        def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - as it is named there
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="session")
def send() -> Callable[..., None]:
    """`send(handler, status, body, **headers)`: one whole answer; `_` in a name stands for `-`."""

    def answer(handler: BaseHTTPRequestHandler, status: int = 200, body: bytes = b"", **headers: str) -> None:
        handler.send_response(status)
        for name, value in {"content_length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return answer


@pytest.fixture(scope="session")
def a_claim() -> Callable[..., Claim]:
    """`a_claim(attempts=4)`: a claim that nobody else holds."""

    def make(**more: Any) -> Claim:
        usual: dict[str, Any] = {
            "id": 7,
            "worker": uuid4(),
            "claim_no": 1,
            "list_id": 1,
            "company": "00000007",
            "name": "Seven Ltd",
            "extra": {},
            "attempts": 0,
            "losses": 0,
            "faults": 0,
            "service": "registry",
            "options": {},
            "fields": ["name", "total"],
            "required": ["name"],
            "max_attempts": 5,
            "max_faults": 20,
            "run_seconds": 20,  # what hangs ends, and the test fails
        }
        return Claim(**(usual | more))

    return make


@pytest.fixture(scope="session")
def a_work(a_claim: Callable[..., Claim]) -> Callable[..., Work]:
    """`a_work(stored={…}, is_believed=…, **claim)`: a job in a slot's hands."""

    def make(*, stored: Any = None, is_believed: Callable[[], bool] = lambda: True, **claim: Any) -> Work:
        return Work.begin(a_claim(**claim), stored or {}, is_believed, threading.Event())

    return make


def _one_call(company: Company, options: Options) -> Extraction:
    answer = yield Get(f"/company/{company.number}")
    return Fields({"name": Value(answer.body.decode())})


def _judge(status: int, headers: Mapping[str, str], body: bytes, now: float) -> Verdict:
    words = body.decode()
    verdicts: dict[int, Verdict] = {
        400: Refused(words),
        401: KeyInvalid(words),
        402: KeyExhausted(words),
        403: ServiceRests(30.0, words),
        429: KeyRests(float(headers.get("retry-after", 30)), words),
        500: ServiceFailed("service_error", words),
    }
    return verdicts.get(status, Usable())


@pytest.fixture(scope="session")
def a_service() -> Callable[..., Service]:
    """`a_service(extract)`: a register that tells by its status what it thinks of the key and of itself.

    200 and 404 are answers, 400 refuses the request, 401 the key, 402 is its quota, 403 a pause for all,
    429 one for the key, 500 an error; the body holds the words.
    """

    def make(extract: Callable[[Company, Options], Extraction] = _one_call) -> Service:
        return Service(
            name=REGISTRY,
            title="Registry",
            key_is="key",
            hosts={"api": "https://registry.invalid"},
            headers=lambda secret: {"authorization": "Basic " + _encoded(secret)},
            check_secret=lambda _secret: None,
            limits=("100/s",),
            fields=(Field("name", Kind.TEXT, required=True), Field("total", Kind.NUMBER)),
            identify=str,
            extract=extract,
            judge=_judge,
            probe="00000006",
        )

    return make


def _encoded(secret: str) -> str:
    return base64.b64encode(secret.encode()).decode()


@pytest.fixture(scope="session")
def a_list() -> Callable[..., int]:
    """`a_list(conn, 5, priority=…)`: a list of so many companies of the register; returns its id."""

    def make(conn: psycopg.Connection, size: int = 1, **columns: Any) -> int:
        list_id = lists.create(conn, NewList(f"list {next(_number)}", REGISTRY, ["name", "total"], ["name"]))
        for column, value in columns.items():
            conn.execute(f"UPDATE list SET {column} = %s WHERE id = %s", (value, list_id))
        with conn.transaction():
            jobs.enqueue(conn, list_id, (NewJob(f"{line:08}", line=line) for line in range(1, size + 1)))
        return list_id

    return make


@pytest.fixture(scope="session")
def a_key(vault: Vault) -> Callable[..., int]:
    """`a_key(conn, "10/s", label=…)`: a key of the register; returns its id."""

    def make(conn: psycopg.Connection, limit: str = "100000/m", **more: Any) -> int:
        number = next(_number)
        usual = {"label": f"key {number}", "secret": f"secret-{number:08}"}
        with conn.transaction():
            return keys.add(conn, vault, service=REGISTRY, limits=[limits.parse(limit)], **(usual | more))

    return make


@pytest.fixture
def dsn(empty_dsn: str) -> str:
    """Few tests of this room need a database of their own; making and dropping many takes long."""
    return empty_dsn


@pytest.fixture
def connect(dsn: str) -> Iterator[Callable[[], psycopg.Connection]]:
    """Each call one more autocommit connection to this test's own database, as another program has it."""
    with ExitStack() as made:
        yield lambda: made.enter_context(database.connect(dsn, "test"))


@pytest.fixture
def db(connect: Callable[[], psycopg.Connection]) -> psycopg.Connection:
    """One such connection."""
    return connect()


@pytest.fixture
def borrow() -> Iterator[Callable[[str], Connections]]:
    """`borrow(url)`: connections of a pool as a worker has it."""
    with ExitStack() as pools:
        yield lambda url: connections.of_pool(pools.enter_context(database.pool(url, "sluice worker", 4)))


@pytest.fixture(scope="session")
def alongside() -> Callable[..., AbstractContextManager[threading.Thread]]:
    """`with alongside(run, stop):` a thread that runs meanwhile, and has ended afterwards."""

    @contextmanager
    def run_it(run: Callable[[], Any], stop: Callable[[], None]) -> Iterator[threading.Thread]:
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield thread
        finally:
            stop()
            thread.join(20)
            assert not thread.is_alive(), "it does not end"

    return run_it


@pytest.fixture
def a_worker(
    vault: Vault,
    borrow: Callable[[str], Connections],
    alongside: Callable[..., AbstractContextManager[threading.Thread]],
) -> Callable[..., AbstractContextManager[Any]]:
    """`with a_worker(url, service, services_url, slots=4) as parts:` a whole worker, in threads.

    `parts` has `worker`, `writer`, `heartbeat` and `thread`, in which the worker runs.
    """

    @contextmanager
    def start(
        url: str,
        service: Service,
        services_url: str,
        *,
        slots: int = 4,
        lease: float = 30.0,
        beat: float = 0.2,
    ) -> Iterator[Any]:
        borrowed = borrow(url)
        writer = Writer(borrowed)
        permits = Permits(REGISTRY, None, borrowed, vault)
        caller = Caller(service, services_url, Http(slots * 3), permits, writer, borrowed, Files(None))
        worker = Worker({REGISTRY: caller}, borrowed, slots=slots, key_set=None)
        new = uuid4()
        who = Identity(new, f"test · {new.hex[-4:]}", "test", os.getpid(), "0", None, [REGISTRY], slots)
        heartbeat = Heartbeat(
            url,
            who,
            lease_seconds=lease,
            interval_seconds=beat,
            vitals=worker.vitals,
            heard=worker.heard,
            woken=worker.woken,
            lost=worker.lost,
        )

        def run() -> None:
            is_believed = lambda: heartbeat.is_believed()  # noqa: E731, PLW0108 - so that a test can replace it
            if not worker.run(lambda: heartbeat.identity.id, is_believed, writer):
                writer.abandon()

        with (
            alongside(heartbeat.run, heartbeat.stop),
            alongside(lambda: writer.run(worker.gone), writer.stop),
            alongside(permits.run, permits.stop),
            alongside(run, worker.halt) as thread,
        ):
            yield SimpleNamespace(worker=worker, writer=writer, heartbeat=heartbeat, thread=thread)

    return start


class Proxy:
    """Stands between a worker and its database: can cut, refuse, and lose the answer to one statement."""

    def __init__(self, dsn: str) -> None:
        parts = urlsplit(dsn)
        self._server = (parts.hostname or "", parts.port or 5432)
        self._listener = socket.create_server(("127.0.0.1", 0))
        port = self._listener.getsockname()[1]
        self.url = dsn.replace(f"@{parts.hostname}:{parts.port}/", f"@127.0.0.1:{port}/")
        self.lost_answers = 0
        self._lose: bytes | None = None
        self._is_open = True
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        """Break every connection and let no new one through."""
        self._is_open = False
        for pair in list(self._pairs):
            for end in pair:
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)

    def mend(self) -> None:
        self._is_open = True

    def lose_answer_to(self, words: bytes) -> None:
        """The next statement with these words reaches the server; its answer is lost with the connection."""
        self._lose = words

    def close(self) -> None:
        self.cut()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                self._pairs.add((client, server))
                if not self._is_open:
                    self.cut()
                threading.Thread(target=self._pass_on, args=(client, server), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        loses = False
        try:
            while True:
                readable, _, _ = select.select([client, server], [], [])
                for source, target in ((client, server), (server, client)):
                    if source in readable:
                        data = source.recv(1 << 16)
                        if not data:
                            return
                        if source is server and loses:  # it has been done
                            self.lost_answers += 1
                            return
                        target.sendall(data)
                        if source is client and self._lose and self._lose in data:
                            self._lose, loses = None, True
        except OSError:
            pass
        finally:
            self._pairs.discard((client, server))
            client.close()
            server.close()


@pytest.fixture
def proxy(dsn: str) -> Iterator[Proxy]:
    """A proxy to this test's own database: `url`, `cut()`, `mend()`, `lose_answer_to(words)`."""
    made = Proxy(dsn)
    yield made
    made.close()
