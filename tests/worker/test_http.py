"""One request: what is bounded, what follows a redirect, and what is said when it fails."""

from __future__ import annotations

import base64
import gzip
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from services.extraction import Get
from worker import http
from worker.http import Http, Received, Unreachable, described

SECRET = "11111111-aaaa-4111-8111-222222222222"
HEADERS = {"authorization": "Basic " + base64.b64encode(f"{SECRET}:".encode()).decode()}
CALL = Get("/company/7", (("category", "accounts"),))

Handler = BaseHTTPRequestHandler
Serve = Callable[[Callable[[Handler], None]], str]
Send = Callable[..., None]


def _ask(url: str, call: Get = CALL, seconds: float = 20.0) -> Received | Unreachable:
    return Http(threads=2).get(url + call.path, call, lambda: HEADERS, seconds)


def test_the_call_goes_out_as_it_was_asked_and_comes_back_whole(serve: Serve, send: Send) -> None:
    seen: list[Any] = []

    def answer(handler: Handler) -> None:
        seen.append((handler.path, handler.headers["Accept"], handler.headers["Authorization"]))
        send(handler, 404, b'{"error": "unknown"}', Content_Type="application/json", X_Odd="1")

    came = _ask(serve(answer), Get("/a b/ü", (("q", "x&y"), ("q", "z")), accept="text/csv"))
    assert seen == [("/a%20b/%C3%BC?q=x%26y&q=z", "text/csv", HEADERS["authorization"])]
    assert isinstance(came, Received)
    assert (came.status, came.body) == (404, b'{"error": "unknown"}')
    assert (came.headers["content-type"], came.headers["x-odd"]) == ("application/json", "1")


def test_connections_are_used_again(serve: Serve, send: Send) -> None:
    ports = []

    def answer(handler: Handler) -> None:
        ports.append(handler.client_address)
        if handler.path.startswith("/company"):
            send(handler, 302, b"over there", Location="/stored")
        else:
            send(handler, 200, b"{}")

    url, client = serve(answer), Http(threads=2)
    for _ in range(3):
        assert client.get(url + CALL.path, CALL, lambda: HEADERS, 5.0) == Received(200, ANY, b"{}")
    assert (len(ports), len(set(ports))) == (6, 1)


class _Any:
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


ANY: Any = _Any()


@pytest.mark.parametrize("framing", ["length", "chunks", "close"])
def test_an_answer_above_the_size_limit_is_dropped(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, framing: str
) -> None:
    monkeypatch.setattr(http, "MAX_BODY_BYTES", 1_000_000)
    sent = 0

    def answer(handler: Handler) -> None:
        nonlocal sent
        handler.send_response(200)
        names = {"length": ("Content-Length", "900000000"), "chunks": ("Transfer-Encoding", "chunked")}
        handler.send_header(*names.get(framing, ("Connection", "close")))
        handler.end_headers()
        block = bytes(100_000)
        for _ in range(9000):
            if framing == "chunks":
                handler.wfile.write(b"%x\r\n%b\r\n" % (len(block), block))
            else:
                handler.wfile.write(block)
            sent += len(block)

    assert _ask(serve(answer)) == Unreachable("too_large", "an answer of more than 1,000,000 bytes")
    assert sent < 20_000_000


def test_an_answer_of_exactly_the_limit_is_taken(
    serve: Serve, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_BODY_BYTES", 1_000_000)
    came = _ask(serve(lambda handler: send(handler, 200, bytes(1_000_000))))
    assert isinstance(came, Received)
    assert len(came.body) == 1_000_000


def test_a_gzip_bomb_is_refused_before_it_goes_off(
    serve: Serve, send: Send, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_BODY_BYTES", 2_000_000)
    bomb = gzip.compress(bytes(200_000_000), 9)
    assert len(bomb) < 250_000
    url = serve(lambda handler: send(handler, 200, bomb, Content_Encoding="gzip"))
    tracemalloc.start()
    try:
        came = _ask(url)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert came == Unreachable("too_large", "an answer of more than 2,000,000 bytes")
    assert peak < 10_000_000


def test_a_packed_answer_is_unpacked(serve: Serve, send: Send) -> None:
    body = b'{"facts": ' + b"1" * 300_000 + b"}"
    packed = gzip.compress(body)
    came = _ask(serve(lambda handler: send(handler, 200, packed, Content_Encoding="gzip")))
    assert came == Received(200, ANY, body)


def test_a_body_that_drips_is_given_up_when_the_time_is_over(serve: Serve) -> None:
    def answer(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        for _ in range(200):
            handler.wfile.write(b".")
            time.sleep(0.02)

    began = time.monotonic()
    came = _ask(serve(answer), seconds=0.3)
    assert came == Unreachable("bad_answer", "the answer came too slowly")
    assert time.monotonic() - began < 1.0


def test_silence_is_given_up_when_the_time_is_over(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "READ_SECONDS", 0.2)
    over = threading.Event()

    def silent(_handler: Handler) -> None:
        over.wait(10)

    def stuck(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        silent(handler)

    for answer in (silent, stuck):
        came = _ask(serve(answer))
        assert isinstance(came, Unreachable)
        assert came.cause == "service_unreachable"
    over.set()


@pytest.mark.parametrize("framing", ["length", "chunks", "gzip", "not gzip"])
def test_a_body_that_is_cut_or_garbled_is_no_answer(serve: Serve, framing: str) -> None:
    def answer(handler: Handler) -> None:
        handler.send_response(200)
        match framing:
            case "length":
                handler.send_header("Content-Length", "1000")
                body = b"half"
            case "chunks":
                handler.send_header("Transfer-Encoding", "chunked")
                body = b"ff\r\nhalf"
            case "gzip":
                handler.send_header("Content-Encoding", "gzip")
                handler.send_header("Content-Length", "1000")
                body = gzip.compress(b"whole")[:-12]
            case _:
                handler.send_header("Content-Encoding", "gzip")
                handler.send_header("Content-Length", "5")
                body = b"plain"
        handler.end_headers()
        handler.wfile.write(body)
        handler.close_connection = True

    assert _ask(serve(answer)) == Unreachable("bad_answer", "the answer was cut short or garbled")


def test_a_connection_that_closes_without_a_word_is_no_answer(serve: Serve) -> None:
    def answer(handler: Handler) -> None:
        handler.close_connection = True

    assert _ask(serve(answer)) == Unreachable("service_unreachable", "the connection failed: ConnectionError")


def test_a_refused_connection_is_unreachable() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        came = _ask(f"http://127.0.0.1:{nobody.getsockname()[1]}")
    assert came == Unreachable("service_unreachable", "the connection failed: ConnectionError")


def test_a_redirect_to_another_host_is_followed_without_the_key(serve: Serve, send: Send) -> None:
    seen = []

    def store(handler: Handler) -> None:
        seen.append((handler.path, handler.headers["Authorization"], handler.headers["Accept"]))
        send(handler, 200, b"document")

    there = serve(store) + "/stored?signature=x"
    api = serve(lambda handler: send(handler, 302, b"", Location=there))
    assert _ask(api) == Received(200, ANY, b"document")
    assert seen == [("/stored?signature=x", None, "application/json")]


def test_a_redirect_to_the_same_host_keeps_the_key(serve: Serve, send: Send) -> None:
    seen = []

    def answer(handler: Handler) -> None:
        seen.append((handler.path, handler.headers["Authorization"]))
        if len(seen) == 1:
            send(handler, 301, b"", Location="/moved?to=here")
        else:
            send(handler, 200, b"{}")

    assert _ask(serve(answer)) == Received(200, ANY, b"{}")
    assert seen[1] == ("/moved?to=here", HEADERS["authorization"])


def test_a_key_once_dropped_does_not_come_back(serve: Serve, send: Send) -> None:
    seen = []

    def third(handler: Handler) -> None:
        seen.append(handler.headers["Authorization"])
        send(handler, 200, b"{}")

    def start(handler: Handler) -> None:
        if handler.path.startswith("/again"):
            third(handler)
        else:
            send(handler, 302, b"", Location=elsewhere)

    api = serve(start)
    elsewhere = serve(lambda handler: send(handler, 302, b"", Location=api + "/again"))
    assert _ask(api) == Received(200, ANY, b"{}")
    assert seen == [None]


def test_five_redirects_are_followed_and_no_more(serve: Serve, send: Send) -> None:
    seen = 0

    def answer(handler: Handler) -> None:
        nonlocal seen
        seen += 1
        if handler.path.startswith("/end") or seen == 6:
            send(handler, 200, b"{}")
        else:
            send(handler, 307, b"", Location="/next")

    url = serve(answer)
    assert _ask(url) == Received(200, ANY, b"{}")
    seen = -100
    assert _ask(url) == Unreachable("bad_answer", "more than 5 redirects")
    assert seen == -94


@pytest.mark.parametrize("target", ["ftp://elsewhere/x", "file:///etc/passwd", "http://[::1", "mailto:a@b"])
def test_a_redirect_to_what_is_no_address_is_a_bad_answer(serve: Serve, send: Send, target: str) -> None:
    came = _ask(serve(lambda handler: send(handler, 302, b"", Location=target)))
    assert came == Unreachable("bad_answer", "a redirect to what is no address")


def test_a_redirect_may_not_bring_a_flood(serve: Serve, send: Send) -> None:
    def flood(handler: Handler) -> None:
        if handler.path == "/end":
            return send(handler, 200, b"{}")
        handler.send_response(302)
        handler.send_header("Location", "/end")
        handler.send_header("Content-Length", "900000000")
        handler.end_headers()
        for _ in range(9000):
            handler.wfile.write(bytes(100_000))
            sent.append(100_000)
        return None

    sent: list[int] = []
    assert _ask(serve(flood)) == Received(200, ANY, b"{}")
    assert sum(sent) < 20_000_000


def test_cookies_are_not_kept(serve: Serve, send: Send) -> None:
    seen = []

    def answer(handler: Handler) -> None:
        seen.append(handler.headers["Cookie"])
        moved = {"Location": "/next"} if handler.path.startswith("/company") else {}
        send(handler, 302 if moved else 200, b"{}", Set_Cookie="session=1; Path=/", **moved)

    url, client = serve(answer), Http(threads=2)
    for _ in range(2):
        client.get(url + CALL.path, CALL, lambda: HEADERS, 5.0)
    assert seen == [None] * 4


def test_what_cannot_be_sent_is_the_requests_fault(serve: Serve, send: Send) -> None:
    url = serve(lambda handler: send(handler, 200, b"{}"))
    came = Http(threads=1).get(url, CALL, lambda: {"authorization": f"Basic {SECRET}\r\nX: y"}, 5.0)
    assert came == Unreachable("bad_request", "the request cannot be sent: ValueError")


def test_the_permit_is_asked_for_when_the_connection_is_open(serve: Serve, send: Send) -> None:
    accepted: list[str] = []

    class Counting(socket.socket):
        def connect(self, address: Any) -> None:
            super().connect(address)
            accepted.append("connected")

    url = serve(lambda handler: send(handler, 200, b"{}"))

    def authorize() -> dict[str, str]:
        accepted.append("asked")
        return HEADERS

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "socket", Counting)
        assert isinstance(Http(threads=1).get(url, CALL, authorize, 5.0), Received)
    assert accepted == ["connected", "asked"]


def test_no_permit_is_spent_where_nobody_answers() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        spent: list[int] = []
        came = Http(threads=1).get(url, CALL, lambda: spent.append(1) or HEADERS, 5.0)  # type: ignore[func-returns-value]
    assert (came, spent) == (ANY, [])
    assert isinstance(came, Unreachable)


@pytest.mark.parametrize("address", ["http://127.0.0.1:1", "http://no-such-host.invalid", "http://[bad"])
def test_no_message_holds_the_key_or_the_address(address: str, caplog: pytest.LogCaptureFixture) -> None:
    call = Get(f"/company?key={SECRET}", (("key", SECRET),))
    came = Http(threads=1).get(address + call.path, call, lambda: HEADERS, 5.0)
    assert isinstance(came, Unreachable)
    said = f"{came.message} {caplog.text}"
    assert SECRET not in said
    assert HEADERS["authorization"] not in said


def test_a_call_is_described_by_path_and_parameters_as_postgres_takes_them() -> None:
    assert described(CALL) == "/company/7?category=accounts"
    assert described(Get("/a\x00b\ud800")) == "/ab?"
