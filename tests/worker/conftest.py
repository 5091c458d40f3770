"""The far sides of a worker: a service on a socket, a database behind a proxy; and what a slot holds."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import pytest
from cryptography.fernet import Fernet

from store.claims import Claim
from store.vault import Vault
from worker.work import Work


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
        return Work.begin(a_claim(**claim), stored or {}, is_believed)

    return make
