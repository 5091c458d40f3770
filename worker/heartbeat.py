"""The worker's sign of life: a thread and a connection of its own, started first and stopped last.

Each beat is one statement: it renews the lease, frees the jobs of workers that are gone, and says which
services have work. Between beats the connection listens, so that new work is heard at once.
"""

from __future__ import annotations

import logging
import os
import random
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

import psycopg
from psycopg.errors import ReadOnlySqlTransaction, UniqueViolation

from store import database, jobs, lists, tally, workers
from store.notify import ALIVE, READY, notify
from store.workers import Identity, Pulse, Vitals

log = logging.getLogger(__name__)

JITTER = 0.1
LONGEST_AWAY_SECONDS = 2.0


class Heartbeat:
    """`run` is the beating thread. `heard(pulse)` is told of every beat, `woken()` of every notification.

    `identity` is the worker's; it is replaced when the worker was declared lost, since whoever is declared
    lost must never again be believed under its old name.
    """

    def __init__(
        self,
        url: str,
        identity: Identity,
        *,
        lease_seconds: float,
        interval_seconds: float,
        vitals: Callable[[], Vitals],
        heard: Callable[[Pulse], None],
        woken: Callable[[], None],
        lost: Callable[[], None],
    ) -> None:
        self.identity = identity
        self._url = url
        self._lease_seconds = lease_seconds
        self._interval_seconds = interval_seconds
        self._vitals = vitals
        self._heard = heard
        self._woken = woken
        self._lost = lost
        self._believed_until = 0.0
        self._stop = threading.Event()
        self._wake_read, self._wake_write = os.pipe()

    def is_believed(self) -> bool:
        """Whether the lease still holds as far as this process can know."""
        return time.monotonic() < self._believed_until

    def stop(self) -> None:
        """Beat no more and leave."""
        os.write(self._wake_write, b"x")  # first: once told to stop, the thread closes the other end of this
        self._stop.set()

    def run(self) -> None:
        """Beat until `stop`, over as many connections as it takes."""
        away = 0
        is_registered = False
        while not self._stop.is_set():
            try:
                with database.connect(self._url, f"sluice worker {self.identity.name}") as conn:
                    if not is_registered:
                        with suppress(UniqueViolation):  # a try whose answer was lost on its way
                            workers.register(conn, self.identity, self._lease_seconds)
                        is_registered = True
                    away = 0
                    self._beat(conn)
            except (psycopg.OperationalError, ReadOnlySqlTransaction) as error:
                log.warning("heartbeat: the database is away: %s", error)
                notify(ALIVE)  # waiting is not hanging
                away += 1
                self._stop.wait(min(LONGEST_AWAY_SECONDS, 0.1 * 2.0**away) * random.uniform(0.5, 1.0))  # noqa: S311
        os.close(self._wake_read)
        os.close(self._wake_write)

    def _beat(self, conn: psycopg.Connection) -> None:
        is_direct = not database.is_pooled(conn)
        if is_direct:
            conn.execute(f"LISTEN {jobs.CHANNEL}")
        while not self._stop.is_set():
            self._tick(conn, is_direct)
            pause = self._interval_seconds * random.uniform(1, 1 + JITTER)  # noqa: S311
            self._listen(conn, time.monotonic() + pause)
        workers.leave(conn, self.identity.id)

    def _tick(self, conn: psycopg.Connection, is_direct: bool) -> None:
        asked_at = time.monotonic()
        pulse = workers.tick(
            conn, self.identity, self._vitals(), lease_seconds=self._lease_seconds, direct=is_direct
        )
        if pulse.state is None:
            log.error("declared lost while away; starting again under a new identity")
            self._lost()
            self.identity = renewed(self.identity)
            workers.register(conn, self.identity, self._lease_seconds)
        self._believed_until = asked_at + self._lease_seconds
        if pulse.recovered:
            log.warning("%d jobs of lost workers run again", pulse.recovered)
            self._woken()  # they are due now, which this beat has not seen yet
        if pulse.moves_wait:
            tally.fold(conn)
        if pulse.list_ended:
            lists.finish(conn)
        self._heard(pulse)
        notify(READY, ALIVE)

    def _listen(self, conn: psycopg.Connection, until: float) -> None:
        while not self._stop.is_set():
            said = {
                one.payload for one in conn.notifies(timeout=0)
            }  # first: some came with the answer to the beat
            if said:
                self._woken()
            if jobs.STOP_WORD in said:
                return
            pause = until - time.monotonic()
            if pause <= 0:
                return
            select.select([conn.fileno(), self._wake_read], [], [], pause)


def renewed(identity: Identity) -> Identity:
    """The same worker under an id that nobody has seen."""
    return replace(identity, id=(new := uuid4()), name=named(identity.host, new.hex))


def named(host: str, hex_id: str) -> str:
    """A worker's name as people see it: host and the last four of its id."""
    return f"{host} · {hex_id[-4:]}"
