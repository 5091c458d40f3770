"""One request over HTTP: bounded in time and size, redirects followed inside, faults turned into words."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

import requests
from urllib3.exceptions import HTTPError, ReadTimeoutError

from services.extraction import Get
from services.service import Service
from store.cleaning import text
from worker.wire import Authorize, WireAdapter, authorized_by

CONNECT_SECONDS = 5.0
READ_SECONDS = 30.0
TOTAL_SECONDS = 120.0
MAX_BODY_BYTES = 50_000_000
MAX_REDIRECTS = 5
CHUNK_BYTES = 1 << 16

# What extractors and people may want to see of an answer later; the rest is not kept.
KEPT_HEADERS = frozenset({"content-type", "last-modified", "etag", "date", "content-location"})


@dataclass(frozen=True, slots=True)
class Received:
    """The last answer after redirects, in full. Header names are lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Unreachable:
    """No answer, or not all of it. `cause` is one of `services.causes`."""

    cause: str
    message: str


class _Unfit(Exception):
    """What comes is not read to its end: the answer is this."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.answer = Unreachable(cause, message)


def address(service: Service, call: Get, services_url: str | None) -> str:
    """Where the call goes: the service's own host, or the stand-in that plays all of them."""
    return (services_url or service.hosts[call.host]) + call.path


def described(call: Get) -> str:
    """The call as it is logged and kept: path and parameters, no host and no secret."""
    query = "&".join(f"{name}={value}" for name, value in call.params)
    return text(f"{call.path}?{query}" if query else call.path)


class Http:
    """Sends requests over connections that stay open. Safe to use from several threads."""

    def __init__(self, threads: int) -> None:
        self._session = requests.Session()
        self._session.trust_env = False
        adapter = WireAdapter(pool_connections=16, pool_maxsize=threads, pool_block=False)
        self._session.mount("https://", adapter)
        self._session.mount("http://", adapter)

    def get(self, url: str, call: Get, authorize: Authorize, seconds: float) -> Received | Unreachable:
        """Ask once. `authorize` is called when there is nothing left to do but to write; it returns headers.

        `Authorization` does not follow a redirect to another host. Raises what `authorize` raises.
        """
        try:
            return self._follow(url, call, authorize, time.monotonic() + min(seconds, TOTAL_SECONDS))
        except _Unfit as unfit:
            return unfit.answer
        except requests.exceptions.ConnectTimeout:
            return Unreachable("service_unreachable", f"no connection within {CONNECT_SECONDS:.0f} s")
        except (requests.exceptions.Timeout, ReadTimeoutError):
            return Unreachable("service_unreachable", f"no answer within {READ_SECONDS:.0f} s")
        except HTTPError:
            return Unreachable("bad_answer", "the answer was cut short or garbled")
        except ValueError as error:
            # Here and below: its text may hold the whole address; the class says enough.
            return Unreachable("bad_request", f"the request cannot be sent: {type(error).__name__}")
        except requests.exceptions.RequestException as error:
            return Unreachable("service_unreachable", f"the connection failed: {type(error).__name__}")

    def _follow(self, url: str, call: Get, authorize: Authorize, end: float) -> Received:
        params, sent = list(call.params), {"Accept": call.accept}

        def permitted() -> Mapping[str, str]:
            sent.update(authorize())
            return sent

        for hop in range(MAX_REDIRECTS + 1):
            with (
                authorized_by(None if hop else permitted),  # the permit is for the call, redirects and all
                self._send(requests.Request("GET", url, sent, params=params), end) as response,
            ):
                target = self._session.get_redirect_target(response)
                if target is None:
                    lower = {name.lower(): value for name, value in response.headers.items()}
                    return Received(response.status_code, lower, _body(response, end, MAX_BODY_BYTES))
                here, url, params = response.url, _joined(response.url, target), []
                with suppress(_Unfit):  # read, so that the connection can be used again
                    _body(response, end, CHUNK_BYTES)
            if self._session.should_strip_auth(here, url):  # type: ignore[no-untyped-call]
                sent = {name: value for name, value in sent.items() if name.lower() != "authorization"}
        raise _Unfit("bad_answer", f"more than {MAX_REDIRECTS} redirects")

    def _send(self, request: requests.Request, end: float) -> requests.Response:
        """Not by the session's `send`: it keeps cookies, and reads what comes with a redirect unbounded."""
        prepared = self._session.prepare_request(request)
        timeout = (CONNECT_SECONDS, min(READ_SECONDS, max(end - time.monotonic(), 0.1)))
        adapter = self._session.get_adapter(prepared.url or "")
        return adapter.send(prepared, stream=True, timeout=timeout)


def _body(response: requests.Response, end: float, longest: int) -> bytes:
    """The body, unpacked. Takes what has come and not full chunks, so that a slow drip is noticed."""
    body = bytearray()
    while chunk := response.raw.read1(CHUNK_BYTES, decode_content=True):
        body += chunk
        if len(body) > longest:
            raise _Unfit("too_large", f"an answer of more than {longest:,} bytes")
        if time.monotonic() > end:
            raise _Unfit("bad_answer", "the answer came too slowly")
    return bytes(body)


def _joined(here: str, target: str) -> str:
    try:
        url = urljoin(here, target)
        if urlsplit(url).scheme in {"http", "https"}:
            return url
    except ValueError:
        pass
    raise _Unfit("bad_answer", "a redirect to what is no address")
