"""The part of keeping house that no beat should wait for: partitions, and lists to be refreshed."""

from __future__ import annotations

import itertools
import logging
import random
import threading

import psycopg

from store import partitions, schedules
from worker.connections import Connections

log = logging.getLogger(__name__)

PAUSE_SECONDS = 600.0
RETRY_SECONDS = 30.0


class Upkeep:
    """`run` is a thread of every worker: whoever comes first does it."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._stop = threading.Event()

    def stop(self) -> None:
        """End `run`."""
        self._stop.set()

    def run(self) -> None:
        """Keep house now and then until `stop`."""
        while not self._stop.is_set():
            pause = PAUSE_SECONDS if self.keep() else RETRY_SECONDS
            self._stop.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311

    def keep(self) -> bool:
        """Do what is to be done. False: it could not be, and is to be tried again soon."""
        try:
            with self._connections() as conn:
                for done in itertools.chain(partitions.keep(conn), schedules.keep(conn)):
                    log.info("upkeep: %s", done)
        except psycopg.Error as error:
            log.warning("upkeep is put off: %s", " ".join(str(error).split()))
            return False
        return True
