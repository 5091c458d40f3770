"""Rendered panels, kept for a moment and shared by everybody of one role who looks at the same."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime

import psycopg
from flask import current_app, render_template
from markupsafe import Markup
from psycopg.errors import QueryCanceled
from werkzeug.exceptions import NotFound

from webapp.database import snapshot
from webapp.panels.panel import Args, Panel
from webapp.questions import Look, Memory

MOST_KEPT = 512
ERROR_HOLDS_SECONDS = 5.0

Key = tuple[str, str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True, slots=True)
class Rendered:
    """A panel's HTML as of a moment, which was at `made` on this process's monotonic clock.

    `version` is the same for the same bytes.
    """

    name: str
    html: Markup
    version: str
    as_of: datetime
    made: float
    holds_seconds: float
    status: int = 200
    """What its own URL answers: 404 when what it shows is not there, 500 when it could not be read."""

    @property
    def tag(self) -> str:
        return f"{self.name}:{self.version}"


class Shelf:
    """The panels that were rendered lately. Threads that want the same panels wait for the first."""

    def __init__(self, panels: Mapping[str, Panel]) -> None:
        self._panels = panels
        self._kept: OrderedDict[Key, Rendered] = OrderedDict()
        self._locks: dict[object, threading.Lock] = {}
        self._changing = threading.Lock()
        self._memory = Memory()

    def take(self, names: Sequence[str], args: Args, role: str) -> list[Rendered]:
        """These panels for a viewer of this role: what still holds as it is, the rest from one look."""
        keys = {name: self._key(name, args, role) for name in names}
        found = self._fresh(keys)
        if len(found) < len(keys):
            with self._lock(tuple(keys.values())):
                found = self._fresh(keys)
                missing = [name for name in names if name not in found]
                for one in self._render(missing, args) if missing else ():
                    self._keep(keys[one.name], one)
                    found[one.name] = one
        return [found[name] for name in names]

    def clear(self) -> None:
        """Somebody changed something: what was shown before must not be shown after it."""
        with self._changing:
            self._kept.clear()

    def _key(self, name: str, args: Args, role: str) -> Key:
        return name, role, tuple((arg, args[arg]) for arg in self._panels[name].args if arg in args)

    def _fresh(self, keys: Mapping[str, Key]) -> dict[str, Rendered]:
        now = time.monotonic()
        with self._changing:
            kept = {name: self._kept.get(key) for name, key in keys.items()}
        return {
            name: one for name, one in kept.items() if one is not None and now < one.made + one.holds_seconds
        }

    def _keep(self, key: Key, one: Rendered) -> None:
        with self._changing:
            self._kept[key] = one
            self._kept.move_to_end(key)
            while len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)

    def _lock(self, wanted: object) -> threading.Lock:
        with self._changing:
            if len(self._locks) > MOST_KEPT:
                self._locks = {key: lock for key, lock in self._locks.items() if lock.locked()}
            return self._locks.setdefault(wanted, threading.Lock())

    def _render(self, names: Sequence[str], args: Args) -> Iterator[Rendered]:
        """Each panel from the same look; one that cannot be read is replaced and the rest goes on."""
        with ExitStack() as stack:
            look = stack.enter_context(self._look())
            for name in names:
                try:
                    yield self._one(name, args, look)
                except NotFound:
                    yield self._gone(name, look.as_of)
                except Exception as error:
                    if isinstance(error, psycopg.OperationalError) and not isinstance(error, QueryCanceled):
                        raise
                    as_of = look.as_of
                    stack.close()  # its transaction may have failed
                    yield self._instead(name, args, error, as_of)
                    look = stack.enter_context(self._look())

    @contextmanager
    def _look(self) -> Iterator[Look]:
        with snapshot() as conn:
            look = Look(conn, self._memory)
            _ = look.as_of  # asked first: a panel that fails still says as of when
            yield look

    def _one(self, name: str, args: Args, look: Look) -> Rendered:
        panel = self._panels[name]
        asked = {arg: args[arg] for arg in panel.args if arg in args}
        html = render_template(panel.template, args=asked, as_of=look.as_of, **panel.question(look, asked))
        return _rendered(name, html, look.as_of, panel.least_seconds)

    def _gone(self, name: str, as_of: datetime) -> Rendered:
        """What stands in the place of a panel whose subject is not there any more."""
        html = render_template("errors/_gone.html", name=name)
        return _rendered(name, html, as_of, ERROR_HOLDS_SECONDS, 404)

    def _instead(self, name: str, args: Args, error: Exception, as_of: datetime) -> Rendered:
        """What stands in the place of a panel that cannot be read."""
        where = f"{name} {type(error).__name__} {error}"
        code = hashlib.sha256(where.encode("utf-8", "replace")).hexdigest()[:4]
        current_app.logger.error("panel %s could not be read (code %s)", name, code, exc_info=error)
        asked = {arg: args[arg] for arg in self._panels[name].args if arg in args}
        html = render_template("errors/_panel.html", name=name, code=code, args=asked)
        return _rendered(name, html, as_of, ERROR_HOLDS_SECONDS, 500)


def _rendered(name: str, html: str, as_of: datetime, seconds: float, status: int = 200) -> Rendered:
    html = html.strip()
    version = hashlib.sha256(html.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return Rendered(name, Markup(html), version, as_of, time.monotonic(), seconds, status)  # noqa: S704
