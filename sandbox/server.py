"""A small HTTP/1.1 server of one thread per connection: exact about arrivals and about what left.

Written here because the judge has to know two things that frameworks hide: the moment a request
arrived, before anything is done with it, and whether its answer left in full.
"""

from __future__ import annotations

import email.utils
import http
import socket
import socketserver
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol
from urllib.parse import parse_qsl, unquote

from sandbox.answers import Answer
from sandbox.counts import Moment

_MAX_HEADERS = 100
_MAX_LINE = 65536
_MAX_BODY = 1_000_000
_DRIPS = 20


class BadRequest(Exception):
    """What came is no HTTP request that this server understands."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it came. Header names are lower case; path and parameters are decoded."""

    moment: Moment
    method: str
    path: str
    params: tuple[tuple[str, str], ...]
    headers: Mapping[str, str]
    body: bytes

    @property
    def asked(self) -> str:
        """Method, path and sorted query: the same for the same question."""
        query = "&".join(f"{name}={value}" for name, value in sorted(self.params))
        method = "" if self.method == "GET" else f"{self.method} "
        return f"{method}{self.path}?{query}" if query else f"{method}{self.path}"

    def param(self, name: str) -> str | None:
        return dict(self.params).get(name)


class Application(Protocol):
    """Answers requests. `left` hears of every answer, and whether it left in full."""

    def answer(self, request: Request) -> tuple[Answer, object]: ...

    def left(self, answer: Answer, note: object, in_full: bool) -> None: ...


class Server(socketserver.ThreadingTCPServer):
    """Listens on 127.0.0.1 only. Raises `OSError` when the port is taken."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def __init__(self, port: int, application: Application) -> None:
        self.application = application
        super().__init__(("127.0.0.1", port), _Connection)

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """A connection that breaks is the client's business; everything else must be seen."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _Connection(socketserver.StreamRequestHandler):
    server: Server
    disable_nagle_algorithm = True

    def handle(self) -> None:
        while self._serve_one():
            pass

    def _serve_one(self) -> bool:
        """Whether the connection goes on."""
        line = self.rfile.readline(_MAX_LINE)
        moment = Moment(time.monotonic(), time.time())
        if not line.strip():
            return bool(line)
        try:
            request = self._read(line, moment)
        except BadRequest as error:
            self._write(Answer(400, str(error).encode(), "text/plain"), keep_alive=False)
            return False
        answer, note = self.server.application.answer(request)
        keep_alive = request.headers.get("connection", "").lower() != "close" and not answer.is_cut
        in_full = False
        try:
            in_full = self._write(answer, keep_alive)
        except OSError:
            keep_alive = False
        finally:
            self.server.application.left(answer, note, in_full)
        return keep_alive and in_full

    def _read(self, line: bytes, moment: Moment) -> Request:
        try:
            method, target, version = line.decode("latin-1").split()
        except ValueError:
            raise BadRequest("the request line is broken") from None
        if version != "HTTP/1.1" or not target.startswith("/"):
            raise BadRequest("only HTTP/1.1 and paths are understood")
        headers = self._headers()
        if "transfer-encoding" in headers or not headers.get("content-length", "0").isdigit():
            raise BadRequest("a body needs a Content-Length")
        size = int(headers.get("content-length", "0"))
        if size > _MAX_BODY:
            raise BadRequest(f"the body is larger than {_MAX_BODY} bytes")
        path, _, query = target.partition("?")
        params = tuple(parse_qsl(query, keep_blank_values=True))
        body = self.rfile.read(size) if size else b""
        return Request(moment, method, unquote(path), params, headers, body)

    def _headers(self) -> dict[str, str]:
        headers: dict[str, str] = {}
        for _ in range(_MAX_HEADERS):
            line = self.rfile.readline(_MAX_LINE)
            if line in {b"\r\n", b"\n", b""}:
                return headers
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        raise BadRequest("too many headers")

    def _write(self, answer: Answer, keep_alive: bool) -> bool:
        """Whether everything was handed to a client that was still there."""
        if self._client_is_gone():
            return False
        head = _head(answer, keep_alive)
        if answer.is_cut:
            self.connection.sendall(head + answer.body[: len(answer.body) // 2])
            return False
        if answer.drip_seconds:
            self.connection.sendall(head)
            self._drip(answer.body, answer.drip_seconds)
        else:
            self.connection.sendall(head + answer.body)
        return True

    def _drip(self, body: bytes, seconds: float) -> None:
        size = max(1, -(-len(body) // _DRIPS))
        for start in range(0, len(body), size):
            time.sleep(seconds / _DRIPS)
            self.connection.sendall(body[start : start + size])

    def _client_is_gone(self) -> bool:
        try:
            return not self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False


def _head(answer: Answer, keep_alive: bool) -> bytes:
    lines = [
        f"HTTP/1.1 {answer.status} {_phrase(answer.status)}",
        f"Date: {_http_date(int(time.time()))}",
        f"Content-Type: {answer.content_type}",
        f"Content-Length: {len(answer.body)}",
        *(f"{name}: {value}" for name, value in answer.headers.items()),
        "Connection: " + ("keep-alive" if keep_alive else "close"),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return "Unknown"


@lru_cache(maxsize=2)
def _http_date(epoch: int) -> str:
    return email.utils.formatdate(epoch, usegmt=True)
