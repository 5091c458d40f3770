"""The PostgreSQL server that comes with Sluice, for a machine that has none (docs/decisions/0001)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from store.embedded.binaries import Binaries, EmbeddedError, wheel
from store.embedded.server import Server
from store.settings import Settings

__all__ = ["Binaries", "EmbeddedError", "Server", "database", "wheel"]


@contextmanager
def database(settings: Settings, var: Path) -> Iterator[str]:
    """The URL of the database: `DATABASE_URL`, or the embedded server, kept running meanwhile.

    `var` is the checkout's `var/`. Raises `EmbeddedError`.
    """
    if settings.database_url:
        yield settings.database_url
        return
    with Server(var) as server:
        yield server.url
