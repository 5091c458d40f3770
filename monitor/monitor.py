"""A monitor's life: wait for the lead, look, send, check the counts, until it is told to stop."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from uuid import uuid4

import psycopg

from monitor.channels.notice import Channel
from monitor.look import look
from monitor.rules import RULES
from monitor.schedule import Schedule
from monitor.sending import send_due
from store import __version__, alert_rules, database, deliveries, pulse, tally
from store.alert_rules import RuleText
from store.notify import ALIVE, READY, notify
from store.pulse import Leader

log = logging.getLogger(__name__)

LOOKS_PER_LEASE = 3
CHECK_SECONDS = 600.0
CHECK_ASK_SECONDS = 30.0
GOODBYE_SECONDS = 0.5


class Monitor:
    """One process's monitor. Each step has a connection of its own, so none inherits a broken one."""

    def __init__(
        self,
        url: str,
        channels: Sequence[Channel],
        *,
        every_seconds: float,
        public_url: str,
        disk: Path,
    ) -> None:
        self._url = url
        self._channels = channels
        self._every_seconds = every_seconds
        self._public_url = public_url
        self._disk = disk
        name = f"{socket.gethostname()} · {os.getpid()}"
        self.who = Leader(uuid4(), name, __version__, [channel.name for channel in channels])
        self._leads_until = 0.0
        self._has_waited = False
        self._stop = threading.Event()
        self._schedule = Schedule()

    def stop(self) -> None:
        """End `run`."""
        self._stop.set()

    def run(self) -> None:
        """Look again and again until `stop`, while the lead is ours."""
        self._schedule.every(self._every_seconds, "look", self._turn)
        for channel in self._channels:
            send = partial(self._step, channel.name, partial(self._send, channel))
            self._schedule.every(self._every_seconds, channel.name, send)
        self._schedule.every(CHECK_ASK_SECONDS, "counts", partial(self._step, "counts", self._check_counts))
        self._schedule.start()
        notify(READY)
        self._stop.wait()
        self._schedule.stop()
        self._step_down()

    def once(self) -> bool:
        """Look, send what is due and give the lead away. False: another monitor leads."""
        with database.connect(self._url, "sluice monitor") as conn:
            if not self._leads(conn):
                return False
            self._look(conn)
            self._check_counts(conn)
            for channel in self._channels:
                self._leads(conn)
                self._send(channel, conn)
            pulse.step_down(conn, self.who.id)
        return True

    def _turn(self) -> None:
        """A look, and the sign of life: a database that is away is no reason to be restarted."""
        self._step("look", self._look_and_wake)
        notify(ALIVE)

    def _step(self, name: str, run: Callable[[psycopg.Connection], None]) -> None:
        """One turn of a job; what stops it is said in one line, and its next turn comes."""
        try:
            with database.connect(self._url, "sluice monitor") as conn:
                run(conn)
        except (psycopg.OperationalError, psycopg.errors.ReadOnlySqlTransaction) as error:
            if not self._stop.is_set():
                log.warning("%s: the database is away: %s", name, " ".join(str(error).split()))

    def _look_and_wake(self, conn: psycopg.Connection) -> None:
        if self._leads(conn) and self._look(conn):
            for channel in self._channels:
                self._schedule.soon(channel.name)

    def _leads(self, conn: psycopg.Connection) -> bool:
        """Take or renew the lead."""
        asked_at, lease_seconds = time.monotonic(), LOOKS_PER_LEASE * self._every_seconds
        led = self._is_leader()
        if not pulse.lead(conn, self.who, lease_seconds):
            if led or not self._has_waited:
                log.info("another monitor leads; waiting to take over")
            self._leads_until, self._has_waited = 0.0, True
            return False
        self._leads_until, self._has_waited = asked_at + lease_seconds, False
        if not led:
            log.info("%s leads", self.who.name)
            alert_rules.keep(conn, rule_texts())
            deliveries.abandon(conn, self.who.channels)
        return True

    def _is_leader(self) -> bool:
        """Whether the lead still holds as far as this process can know."""
        return time.monotonic() < self._leads_until

    def _look(self, conn: psycopg.Connection) -> bool:
        is_news = look(conn, self.who.channels, self._disk)
        pulse.looked(conn, self.who.id)
        return is_news

    def _send(self, channel: Channel, conn: psycopg.Connection) -> None:
        if self._is_leader():
            send_due(conn, channel, self._public_url)

    def _check_counts(self, conn: psycopg.Connection) -> None:
        """Compare the counts with the table, seldom: it reads the whole of it."""
        if not self._is_leader() or not pulse.check_if_due(conn, self.who.id, CHECK_SECONDS):
            return
        off = [count.n for count in tally.check(conn)]
        jobs_off = max(sum(n for n in off if n > 0), -sum(n for n in off if n < 0))
        pulse.checked(conn, jobs_off)
        if jobs_off:
            log.warning("the counts were off by %d jobs and have been corrected", jobs_off)

    def _step_down(self) -> None:
        """Leave the lead to another at once; without the database its lease runs out by itself."""

        def leave(conn: psycopg.Connection) -> None:
            pulse.step_down(conn, self.who.id)

        thread = threading.Thread(target=self._step, args=("goodbye", leave), daemon=True)
        thread.start()
        thread.join(GOODBYE_SECONDS)


def rule_texts() -> list[RuleText]:
    """The rules as pages show them."""
    return [
        RuleText(
            rule.name,
            rule.meaning,
            rule.advice,
            int(rule.damping.for_seconds),
            int(rule.damping.clear_seconds),
        )
        for rule in RULES.values()
    ]
