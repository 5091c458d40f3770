"""Writes answers, calls and settlements back in groups, from one thread.

An answer waits at most 50 ms, a settlement at most 250 ms (100 when nothing else goes on). What is at hand
goes in one statement, so a job's last answer and its end are usually one. While the database is away
everything is kept here and tried again; a job whose answer waits makes no further call.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import psycopg

from store import claims
from store.answers import KeptAnswer
from store.calls import Call
from store.claims import Settlement
from store.states import Status
from worker.connections import Connections

log = logging.getLogger(__name__)

ANSWER_SECONDS = 0.05
SETTLE_SECONDS = 0.25
IDLE_SETTLE_SECONDS = 0.1
MAX_GROUP = 250
AWAY_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0)

# What a row is at fault for, and no waiting mends. psycopg counts the limits of Postgres as operational.
REFUSED = (
    psycopg.DataError,
    psycopg.IntegrityError,
    psycopg.errors.ProgramLimitExceeded,
    psycopg.errors.StatementTooComplex,
    ValueError,
)


@dataclass(slots=True)
class Group:
    """What waits to be written. `due_at` is when the first of it must go."""

    answers: list[KeptAnswer] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    settlements: list[Settlement] = field(default_factory=list)
    kept: list[threading.Event] = field(default_factory=list)
    due_at: float = float("inf")

    def __bool__(self) -> bool:
        return bool(self.answers or self.calls or self.settlements)

    @property
    def is_full(self) -> bool:
        return len(self.settlements) + len(self.answers) >= MAX_GROUP

    def due_within(self, seconds: float) -> bool:
        """Whether that moves when it must go: the writer sleeps until then."""
        due_at = time.monotonic() + seconds
        if due_at < self.due_at:
            self.due_at = due_at
            return True
        return self.is_full


# Told of settlements, and which of them (job ids) were refused by the fence.
Gone = Callable[[Sequence[Settlement], Collection[int]], None]


class Writer:
    """`run` is the writing thread; the rest is called from any other."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._group = Group()
        self._changed = threading.Condition()
        self._stopped = False
        self._abandoned = threading.Event()

    def keep(self, answer: KeptAnswer) -> threading.Event:
        """Store a paid answer; the event is set when it is committed."""
        kept = threading.Event()
        with self._changed:
            self._group.answers.append(answer)
            self._group.kept.append(kept)
            if self._group.due_within(ANSWER_SECONDS):
                self._changed.notify()
        return kept

    def log(self, call: Call) -> None:
        """Log a call with the next group."""
        with self._changed:
            self._group.calls.append(call)
            if self._group.due_within(SETTLE_SECONDS):
                self._changed.notify()

    def settle(self, settlement: Settlement, *, at_once: bool) -> None:
        """Write back how a job ended, or that it goes back; `at_once` when nothing else is going on."""
        with self._changed:
            self._group.settlements.append(settlement)
            if self._group.due_within(IDLE_SETTLE_SECONDS if at_once else SETTLE_SECONDS):
                self._changed.notify()

    def abandon(self) -> None:
        """Give up on a database that is away; what waits here runs again elsewhere."""
        self._abandoned.set()
        self.stop()

    def stop(self) -> None:
        """Write what is at hand and end `run`."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def run(self, gone: Gone) -> None:
        """Write groups until `stop`, then the last one; `gone` is told of every settlement once decided."""
        while (group := self._next()) is not None:
            self._write(group, gone)

    def _next(self) -> Group | None:
        with self._changed:
            while not self._stopped:
                pause = self._group.due_at - time.monotonic()
                if self._group and (pause <= 0 or self._group.is_full):
                    break
                self._changed.wait(min(pause, 3600.0))
            group, self._group = self._group, Group()
            return group if group or not self._stopped else None

    def _write(self, group: Group, gone: Gone) -> None:
        tries = 0
        while not self._abandoned.is_set():
            try:
                with self._connections() as conn:
                    self._write_in(conn, group, gone, again=tries > 0)
            except psycopg.OperationalError as error:
                pause = AWAY_SECONDS[min(tries, len(AWAY_SECONDS) - 1)]
                tries += 1
                log.warning("the database is away, %d results wait: %s", len(group.settlements), error)
                self._abandoned.wait(pause)
            else:
                return

    def _write_in(self, conn: psycopg.Connection, group: Group, gone: Gone, *, again: bool) -> None:
        try:
            lost = claims.settle(
                conn,
                group.settlements,
                answers=group.answers,
                calls=group.calls,
                now=time.monotonic(),
                again=again,
            )
        except REFUSED as error:
            log.warning("a row of %d was refused, writing one by one: %s", len(group.settlements), error)
            lost = _one_by_one(conn, group, again)
        for kept in group.kept:
            kept.set()
        gone(group.settlements, lost)


def _one_by_one(conn: psycopg.Connection, group: Group, again: bool) -> set[int]:
    """Write what can be written, all or nothing should the database go away meanwhile."""
    lost: set[int] = set()
    with conn.transaction():
        for answer in group.answers:
            with _refusal_logged(f"the answer to {answer.request!r}"), conn.transaction():
                claims.settle(conn, [], answers=[answer], again=again)
        for call in group.calls:
            with _refusal_logged(f"the call {call.request!r}"), conn.transaction():
                claims.settle(conn, [], calls=[call], now=time.monotonic(), again=again)
        for settlement in group.settlements:
            try:
                with conn.transaction():
                    lost |= claims.settle(conn, [settlement], again=again)
            except REFUSED as error:
                lost |= claims.settle(conn, [_refused(settlement, error)], again=again)
    return lost


@contextmanager
def _refusal_logged(what: str) -> Iterator[None]:
    try:
        yield
    except REFUSED as error:
        log.error("%s was refused by the database and is not kept: %s", what, error)  # noqa: TRY400


def _refused(settlement: Settlement, error: Exception) -> Settlement:
    words = error.diag.message_primary if isinstance(error, psycopg.Error) else None
    return replace(
        settlement,
        status=Status.FAILED,
        outcome=None,
        cause="bad_result",
        message=words or type(error).__name__,
        result=None,
        tried=1,
    )
