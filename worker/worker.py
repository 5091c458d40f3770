"""The worker: claims what its slots can soon run, keeps them busy, drains when it is told to.

Jobs of services with keys are claimed when a slot is free. Jobs without calls end within microseconds, so
some are claimed ahead and stand in line while those before them run.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import psutil
import psycopg

from store import answers, claims
from store.claims import Settlement
from store.states import Status
from store.workers import Pulse, Vitals
from worker.calling import Caller
from worker.connections import Connections
from worker.outcomes import given_up, returned
from worker.outlook import SOON_SECONDS
from worker.pace import Pace
from worker.room import Room
from worker.running import Runner
from worker.slots import Slots
from worker.work import Work
from worker.writer import Writer

log = logging.getLogger(__name__)

SHORTEST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 1.0
DRAIN_SECONDS = 20.0
HALT_SECONDS = 8.0
LONGEST_IN_LINE_SECONDS = 2.0
# Results that the database has not taken yet are held too: it may take claims and no results.
MOST_HELD = 3000
# A call may come back so long after its job's time; what is later still does not come back at all.
HUNG_SECONDS = 35.0


class Worker:
    """`run` claims until `drain`. `vitals`, `heard`, `woken` and `lost` are the heartbeat's side of it."""

    def __init__(
        self, callers: Mapping[str, Caller], connections: Connections, *, slots: int, key_set: str | None
    ) -> None:
        self._callers = callers
        self._connections = connections
        self._slots = Slots(slots, self._work)
        self._key_set = key_set
        self._side_by_side = ThreadPoolExecutor(slots * 2, thread_name_prefix="call")
        self._runner = Runner(callers, self._side_by_side)
        self._writer: Writer | None = None
        self._pace = Pace()
        self._room = Room(callers, slots)
        self._changed = threading.Condition()
        self._held: dict[int, Work] = {}
        self._held_at_beat: dict[int, Work] = {}
        self._unknown: dict[int, int] = {}
        self._blocked = 0
        self._due: set[str] = set()
        self._draining = False
        self._halt = threading.Event()

    def run(self, identity: Callable[[], UUID], is_believed: Callable[[], bool], writer: Writer) -> bool:
        """Claim and start jobs until `drain`, then wait until every held job is settled.

        False: some could not be settled in time, and others will find them lost; or as many threads hang as
        there are slots, and a new process is needed.
        """
        self._writer = writer
        self._slots.start()
        pause = SHORTEST_PAUSE_SECONDS
        while self._wait_for_work():
            if is_believed() and self._claim_round(identity(), is_believed):
                pause = SHORTEST_PAUSE_SECONDS
            else:
                self._pause(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        return self._finish() and self._blocked < self._slots.count

    def drain(self) -> None:
        """Claim nothing more; running jobs may finish."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()

    def halt(self) -> None:
        """Put running jobs back at their next call."""
        with self._changed:
            self._draining = True
            self._halt.set()
            self._changed.notify_all()

    def vitals(self) -> Vitals:
        """What the next beat says."""
        with self._changed:
            self._held_at_beat = self._held.copy()
        return Vitals(
            draining=self._draining,
            held=len(self._held_at_beat),
            settled=self._pace.total,
            rows_per_minute=self._pace.per_minute(),
            memory_bytes=psutil.Process().memory_info().rss,
            keys_in_use=sorted(set().union(*(c.permits.keys_in_use for c in self._callers.values()))),
            blocked=self._blocked,
        )

    def heard(self, pulse: Pulse) -> None:
        """A beat came back: what is due, and where the table and this worker disagree on what it holds."""
        with self._changed:
            self._due |= set(pulse.due)
            for job, work in self._held_at_beat.items():
                if pulse.held.get(job) != work.claim.claim_no:
                    work.is_lost = True
                elif job in pulse.cancelled:
                    work.is_cancelled = True
            self._unknown = {job: no for job, no in pulse.held.items() if job not in self._held}
            self._changed.notify_all()
        for service in pulse.stopped:
            if service in self._callers:
                self._callers[service].breaker.stop()
        self._give_up_hung()
        self._give_back_late()
        if pulse.state == "draining":
            self.drain()

    def _give_up_hung(self) -> None:
        """End the jobs whose threads do not come back; others take the threads' places.

        Looked at with each beat: a database that cannot be beaten to cannot be settled to either.
        """
        now = time.monotonic()
        with self._changed:
            hung = [w for w in self._held.values() if w.is_running and now > w.deadline + HUNG_SECONDS]
        for work in hung:
            if self._ended(work, given_up(work.claim)):
                log.error("job %d (%s) does not end: its slot is given up", work.claim.id, work.claim.company)
                with self._changed:
                    self._blocked += 1
                self._slots.add()
        if self._blocked >= self._slots.count:
            log.error("%d threads hang: the worker stops, to be started anew", self._blocked)
            self.drain()

    def _give_back_late(self) -> None:
        """Leave to others what was claimed ahead when all slots have turned slow."""
        longest = time.monotonic() - LONGEST_IN_LINE_SECONDS
        with self._changed:
            is_late = any(not w.is_begun and w.claimed_at < longest for w in self._held.values())
            if is_late:
                self._room.slowed()
        if is_late:
            self._give_back("its worker had no slot for it")

    def _give_back(self, why: str) -> None:
        for work in self._slots.take_back():
            with self._changed:
                self._room.give_back(work.claim.service)
            self._settle(work, returned(work.claim, "shutdown", why))

    def woken(self) -> None:
        """Somebody added work: look at every service."""
        with self._changed:
            self._due |= set(self._callers)
            self._changed.notify_all()

    def lost(self) -> None:
        """The worker was declared lost: all its claims are others' now."""
        with self._changed:
            for work in self._held.values():
                work.is_lost = True

    def gone(self, settlements: Sequence[Settlement], lost: Collection[int]) -> None:
        """The writer has decided these: written, or refused by the fence because the claim was `lost`."""
        for settlement in settlements:
            if settlement.id in lost:
                log.warning("lost claim: job %d, claim %d", settlement.id, settlement.claim_no)
        self._pace.count(sum(s.status is not Status.PENDING and s.id not in lost for s in settlements))
        with self._changed:
            for settlement in settlements:
                held = self._held.get(settlement.id)
                if held and held.claim.claim_no == settlement.claim_no:  # else it is ours again already
                    del self._held[settlement.id]
            self._changed.notify_all()

    def _wait_for_work(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._draining or self._unknown or self._has_room())
            return not self._draining

    def _has_room(self) -> bool:
        return len(self._held) < MOST_HELD and any(map(self._room.of, self._due))

    def _claim_round(self, worker: UUID, is_believed: Callable[[], bool]) -> int:
        """Claim once for every service that is due; returns how many jobs were started."""
        started = 0
        try:
            self._release_unknown(worker)
            for service in sorted(self._due):
                works = self._claim(worker, service, is_believed)
                self._start(works)
                started += len(works)
        except psycopg.OperationalError as error:
            log.warning("the database is away, nothing is claimed: %s", error)
            return 0
        return started

    def _release_unknown(self, worker: UUID) -> None:
        """Give back what the table says is ours and nobody works on: the answer to a claim was lost.

        Looked at between claims: what had been claimed and not started at the beat has been started now.
        """
        with self._changed:
            unknown = {job: no for job, no in self._unknown.items() if job not in self._held}
            self._unknown = {}
        if unknown:
            with self._connections() as conn:
                released = claims.release(conn, worker, unknown)
            if released:
                log.warning("%d jobs that were claimed when a connection broke are given back", released)

    def _claim(self, worker: UUID, service: str, is_believed: Callable[[], bool]) -> list[Work]:
        caller = self._callers[service]
        with self._changed:
            free = self._room.of(service)
            if free <= 0:
                return []
            self._due.discard(service)  # before the look: what is added from now on says so
            waiting = self._waiting(service) if caller.service.needs_key else 0
        may_be_more = True
        try:
            with self._connections() as conn:
                got = claims.claim(
                    conn,
                    worker,
                    service,
                    self._key_set,
                    n=free,
                    soon_seconds=SOON_SECONDS,
                    waiting=waiting,
                    tokens=caller.permits.usual_tokens,
                    locked=caller.permits.locked,
                    keyless=not caller.service.needs_key,
                )
                seen_before = [claim.id for claim in got.claims if claim.claim_no > 1]
                stored = answers.of_jobs(conn, seen_before) if seen_before else {}
            may_be_more = len(got.claims) >= min(free, got.room)
        finally:
            if may_be_more:
                with self._changed:
                    self._due.add(service)
        return [Work.begin(claim, stored.get(claim.id, {}), is_believed, self._halt) for claim in got.claims]

    def _waiting(self, service: str) -> int:
        """The jobs without a permit; a test of a key takes none of what the others wait for."""
        held = (work for work in self._held.values() if work.claim.service == service)
        return sum(work.waits and work.claim.key_id is None for work in held)

    def _start(self, works: Sequence[Work]) -> None:
        with self._changed:
            for work in works:
                self._held[work.claim.id] = work
                self._room.take(work.claim.service)
        self._slots.put(works)

    def _work(self, work: Work) -> bool:
        work.start()
        settlement = self._runner.run(work)
        if self._ended(work, settlement):
            return True
        with self._changed:  # it hung, and was given up
            self._blocked -= 1
        return False

    def _ended(self, work: Work, settlement: Settlement) -> bool:
        """False: the work was given up before it ended."""
        with self._changed:
            if not work.is_running:
                return False
            work.is_running = False
            self._room.end(work.claim.service, time.monotonic() - work.began)
            if self._has_room():
                self._changed.notify_all()
        self._settle(work, settlement)
        return True

    def _settle(self, work: Work, settlement: Settlement) -> None:
        work.waits = False
        assert self._writer  # noqa: S101 - there before the first work
        self._writer.settle(settlement, at_once=self._room.is_idle)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._draining, seconds)

    def _finish(self) -> bool:
        self._give_back("the worker is stopping")
        self._slots.stop()
        with self._changed:
            self._changed.wait_for(lambda: self._halt.is_set() or not self._held, DRAIN_SECONDS)
            if self._held:
                self.halt()
            finished = self._changed.wait_for(lambda: not self._held, HALT_SECONDS)
        if not finished:
            log.error("%d jobs could not be settled; others will find them lost", len(self._held))
        self._side_by_side.shutdown(wait=finished)
        return finished
