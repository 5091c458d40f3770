"""Connections that are open before a call gets its permit, so that nothing slow lies between the two.

A permit is good for some tens of milliseconds; looking up a host, connecting and TLS take longer. So the
adapter first has a connection, then asks for the headers (which waits for the permit), then writes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from requests.adapters import HTTPAdapter
from requests.structures import CaseInsensitiveDict
from urllib3 import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.util.connection import is_connection_dropped

Authorize = Callable[[], Mapping[str, str]]

_sending = threading.local()


@contextmanager
def authorized_by(authorize: Authorize | None) -> Iterator[None]:
    """In the body, this thread's requests take their last headers from here, on an open connection."""
    _sending.authorize = authorize
    try:
        yield
    finally:
        _sending.authorize = None


class WireAdapter(HTTPAdapter):
    """Sends over such connections."""

    def init_poolmanager(self, *arguments: Any, **named: Any) -> None:
        super().init_poolmanager(*arguments, **named)
        self.poolmanager.pool_classes_by_scheme = {"http": _Pool, "https": _SecurePool}


class _Ready(HTTPConnection):
    def request(self, method: str, url: str, body: Any = None, headers: Any = None, **named: Any) -> None:
        authorize: Authorize | None = getattr(_sending, "authorize", None)
        if authorize:
            headers = CaseInsensitiveDict(headers or {})
            headers.update(self._last_headers(authorize))
        super().request(method, url, body, headers, **named)

    def _last_headers(self, authorize: Authorize) -> Mapping[str, str]:
        """The peer may close an idle connection while the permit is waited for: then once more."""
        while True:
            if is_connection_dropped(self):
                self.close()
                self.connect()
            headers = authorize()
            if not is_connection_dropped(self):
                return headers


class _SecureReady(_Ready, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Ready


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _SecureReady
