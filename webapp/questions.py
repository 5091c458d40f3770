"""What pages ask of the database: each question at most once for all panels, as of one moment."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TypeVar

import psycopg

from services.causes import CAUSES, Advice
from services.registry import needs_key
from store import alerts, calls, circuits, jobs, key_tests, key_use, list_pages, pulse, tally, workers
from store.alerts import AlertSeen
from store.calls import KeyCalls
from store.circuits import ServiceSeen
from store.key_tests import TestSeen
from store.key_use import KeyUse
from store.lists import ListSeen
from store.pulse import MonitorSeen
from store.states import Status
from store.tally import Count
from store.workers import WorkerSeen
from webapp.forecast import LOOK_BACK_MINUTES, Crew, Minutes

OPEN_LISTS = 15
ENDED_LISTS = 3
CALLS_SECONDS = 15.0

Answer = TypeVar("Answer")


@dataclass(slots=True)
class Counts:
    """Jobs by status, by outcome of the done ones, and by cause of the failed ones."""

    status: dict[str, int] = field(default_factory=lambda: dict.fromkeys(map(str, Status), 0))
    outcome: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    failed: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def add(self, one: Count) -> None:
        self.status[one.status] += one.n
        if one.status == Status.DONE:
            self.outcome[one.outcome] += one.n
        if one.status == Status.FAILED:
            self.failed[one.cause] += one.n

    @property
    def total(self) -> int:
        return sum(self.status.values())

    @property
    def ended(self) -> int:
        return self.status[Status.DONE] + self.status[Status.FAILED]

    @property
    def left(self) -> int:
        return self.status[Status.PENDING] + self.status[Status.IN_PROGRESS]

    @property
    def to_fix(self) -> dict[str, int]:
        """The failures that a person can do something about, by cause, the commonest first."""
        fixable = {
            cause: n
            for cause, n in self.failed.items()
            if cause not in CAUSES or CAUSES[cause].advice in (Advice.NOW, Advice.AFTER_FIX)
        }
        return dict(sorted(fixable.items(), key=lambda pair: (-pair[1], pair[0])))


class Memory:
    """Keeps the answers to questions that are too dear for every look, for all who ask in this process."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[float, object]] = {}

    def at_most_every(self, seconds: float, name: str, ask: Callable[[], Answer]) -> Answer:
        at, answer = self._kept.get(name, (-seconds, None))
        if time.monotonic() - at >= seconds or name not in self._kept:
            answer = ask()
            self._kept[name] = (time.monotonic(), answer)
        return answer  # type: ignore[return-value]


class Look:
    """One look at the database. Every attribute is a question that is asked when it is first read."""

    def __init__(self, conn: psycopg.Connection, memory: Memory) -> None:
        self.conn = conn
        self._memory = memory

    @cached_property
    def as_of(self) -> datetime:
        """The moment, on the database's clock, that everything in this look is as of."""
        (row,) = self.conn.execute("SELECT now()").fetchall()
        moment: datetime = row[0]
        return moment

    @cached_property
    def totals(self) -> Counts:
        """The jobs of all lists."""
        found = Counts()
        for one in tally.totals(self.conn):
            found.add(one)
        return found

    @cached_property
    def list_states(self) -> dict[str, int]:
        return list_pages.states(self.conn)

    @cached_property
    def lists(self) -> list[ListSeen]:
        """The lists that a dashboard has room for."""
        return list_pages.latest(self.conn, OPEN_LISTS, ENDED_LISTS)

    @cached_property
    def by_list(self) -> dict[int, Counts]:
        """The jobs of each of these lists."""
        found = {one.id: Counts() for one in self.lists}
        for one in tally.read(self.conn, list(found)):
            found[one.list_id].add(one)
        return found

    @cached_property
    def minutes(self) -> dict[int, Minutes]:
        """Jobs of each of these lists that ended lately, by minute."""
        return dict(tally.pace(self.conn, [one.id for one in self.lists], LOOK_BACK_MINUTES))

    @cached_property
    def oldest_due(self) -> datetime | None:
        return jobs.oldest_due(self.conn)

    @cached_property
    def services(self) -> set[str]:
        """The services of active lists."""
        return list_pages.waiting(self.conn)

    @cached_property
    def workers(self) -> list[WorkerSeen]:
        return workers.see(self.conn)

    @cached_property
    def keys(self) -> list[KeyUse]:
        return key_use.see(self.conn)

    @cached_property
    def held_services(self) -> list[ServiceSeen]:
        """The services that are not called freely: they do not answer, or asked everybody to pause."""
        return circuits.see(self.conn)

    @cached_property
    def calls(self) -> dict[int, KeyCalls]:
        """The last hour's calls by key, a quarter of a minute old at most."""
        return self._memory.at_most_every(CALLS_SECONDS, "calls", lambda: calls.last_hour(self.conn))

    @cached_property
    def alerts(self) -> list[AlertSeen]:
        """The open alerts, the most severe first."""
        return alerts.see_open(self.conn)

    @cached_property
    def monitor(self) -> MonitorSeen:
        return pulse.see(self.conn)

    @cached_property
    def key_tests(self) -> dict[int, TestSeen]:
        """The last test of each key that was tested."""
        return key_tests.last(self.conn)

    def crew(self, service: str) -> Crew:
        """What the service has to work with."""
        knows = [one for one in self.workers if one.is_alive and service in one.services]
        its = [one for one in self.keys if one.service == service]
        usable = [one for one in its if one.is_usable]
        ready = [one for one in usable if one.state == "active"]
        took = [c.took_ms for key in its if (c := self.calls.get(key.id)) and c.took_ms is not None]
        return Crew(
            workers=len(knows),
            slots=sum(one.slots for one in knows),
            held=sum(one.held for one in knows),
            keys=len(its),
            usable_keys=len(usable),
            ready_keys=len(ready),
            fullest=min((used / limit.amount for limit, used in (k.tightest for k in ready)), default=0.0),
            first_back=min((k.rest_until for k in usable if k.rest_until), default=None),
            rests_until=next((one.rest_until for one in self.held_services if one.name == service), None),
            needs_key=needs_key(service),
            took_ms=sum(took) / len(took) if took else None,
        )
