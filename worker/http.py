"""One request over HTTP: bounded in time and size, redirects followed inside, faults turned into words."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from http.cookiejar import DefaultCookiePolicy

import requests
from requests.adapters import HTTPAdapter

from services.extraction import Get
from services.service import Service

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


def address(service: Service, call: Get, services_url: str | None) -> str:
    """Where the call goes: the service's own host, or the stand-in that plays all of them."""
    return (services_url or service.hosts[call.host]) + call.path


def described(call: Get) -> str:
    """The call as it is logged and kept: path and parameters, no host and no secret."""
    query = "&".join(f"{name}={value}" for name, value in call.params)
    return f"{call.path}?{query}" if query else call.path


class Http:
    """Sends requests over connections that stay open. Safe to use from several threads."""

    def __init__(self, threads: int) -> None:
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.max_redirects = MAX_REDIRECTS
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        adapter = HTTPAdapter(pool_connections=16, pool_maxsize=threads, pool_block=False)
        self._session.mount("https://", adapter)
        self._session.mount("http://", adapter)

    def get(self, url: str, call: Get, headers: Mapping[str, str], seconds: float) -> Received | Unreachable:
        """Ask once. `Authorization` does not follow a redirect to another host."""
        end = time.monotonic() + min(seconds, TOTAL_SECONDS)
        try:
            with self._session.get(
                url,
                params=list(call.params),
                headers={**headers, "Accept": call.accept},
                timeout=(CONNECT_SECONDS, min(READ_SECONDS, max(seconds, 1.0))),
                stream=True,
            ) as response:
                body = bytearray()
                for chunk in response.iter_content(CHUNK_BYTES):
                    body += chunk
                    if len(body) > MAX_BODY_BYTES:
                        return Unreachable("too_large", f"an answer of more than {MAX_BODY_BYTES:,} bytes")
                    if time.monotonic() > end:
                        return Unreachable(
                            "bad_answer", f"no full answer within {min(seconds, TOTAL_SECONDS):.0f} s"
                        )
                lower = {name.lower(): value for name, value in response.headers.items()}
                return Received(response.status_code, lower, bytes(body))
        except requests.exceptions.ConnectTimeout:
            return Unreachable("service_unreachable", f"no connection within {CONNECT_SECONDS:.0f} s")
        except requests.exceptions.Timeout:
            return Unreachable("service_unreachable", f"no answer within {READ_SECONDS:.0f} s")
        except (requests.exceptions.ChunkedEncodingError, requests.exceptions.ContentDecodingError):
            return Unreachable("bad_answer", "the answer was cut short or garbled")
        except requests.exceptions.TooManyRedirects:
            return Unreachable("bad_answer", f"more than {MAX_REDIRECTS} redirects")
        except requests.exceptions.RequestException as error:
            # Its text may hold the whole address; the class says enough.
            return Unreachable("service_unreachable", f"the connection failed: {type(error).__name__}")
