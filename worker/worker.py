"""The worker: claims as many jobs as it has free slots, runs each in a thread, drains when it is told to."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
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
from worker.outcomes import given_up
from worker.permits import SOON_SECONDS
from worker.running import Runner
from worker.work import Work
from worker.writer import Writer

log = logging.getLogger(__name__)

SHORTEST_PAUSE_SECONDS = 0.25
LONGEST_PAUSE_SECONDS = 1.0
DRAIN_SECONDS = 20.0
HALT_SECONDS = 8.0
# A call may come back so long after its job's time; what is later still does not come back at all.
HUNG_SECONDS = 35.0
RATE_WINDOW_SECONDS = 60.0


class Pace:
    """How many jobs were settled, in all and per minute."""

    def __init__(self) -> None:
        self.total = 0
        self._recent: deque[float] = deque()
        self._since = time.monotonic()

    def count(self) -> None:
        self.total += 1
        self._recent.append(time.monotonic())

    def per_minute(self) -> float:
        now = time.monotonic()
        while self._recent and self._recent[0] < now - RATE_WINDOW_SECONDS:
            self._recent.popleft()
        return len(self._recent) * 60.0 / min(RATE_WINDOW_SECONDS, max(now - self._since, 1.0))


class Worker:
    """`run` claims until `drain`. `vitals`, `heard`, `woken` and `lost` are the heartbeat's side of it."""

    def __init__(
        self, callers: Mapping[str, Caller], connections: Connections, *, slots: int, key_set: str | None
    ) -> None:
        self._callers = callers
        self._connections = connections
        self._slots = slots
        self._key_set = key_set
        self._side_by_side = ThreadPoolExecutor(slots * 2, thread_name_prefix="call")
        self._runner = Runner(callers, self._side_by_side)
        self._pace = Pace()
        self._changed = threading.Condition()
        self._held: dict[int, Work] = {}
        self._held_at_beat: dict[int, Work] = {}
        self._unknown: dict[int, int] = {}
        self._running = 0
        self._blocked = 0
        self._writer: Writer | None = None
        self._due: set[str] = set()
        self._draining = False
        self._halted = False

    def run(self, identity: Callable[[], UUID], is_believed: Callable[[], bool], writer: Writer) -> bool:
        """Claim and start jobs until `drain`, then wait until every held job is settled.

        False: some could not be settled in time, and others will find them lost; or as many threads hang as
        there are slots, and a new process is needed.
        """
        self._writer = writer
        pause = SHORTEST_PAUSE_SECONDS
        while self._wait_for_work():
            if is_believed() and self._claim_round(identity(), is_believed, writer):
                pause = SHORTEST_PAUSE_SECONDS
            else:
                self._pause(pause)
                pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        return self._finish() and self._blocked < self._slots

    def drain(self) -> None:
        """Claim nothing more; running jobs may finish."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()

    def halt(self) -> None:
        """Put running jobs back at their next call."""
        with self._changed:
            self._draining = self._halted = True
            for work in self._held.values():
                work.halt.set()
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
                    work.lost.set()
                elif job in pulse.cancelled:
                    work.cancelled.set()
            self._unknown = {job: no for job, no in pulse.held.items() if job not in self._held}
            self._changed.notify_all()
        for service in pulse.stopped:
            if service in self._callers:
                self._callers[service].breaker.stop()
        self._give_up_hung()
        if pulse.state == "draining":
            self.drain()

    def _give_up_hung(self) -> None:
        """End the jobs whose threads do not come back, and go on without these threads.

        Looked at with each beat: a database that cannot be beaten to cannot be settled to either.
        """
        now = time.monotonic()
        with self._changed:
            hung = [w for w in self._held.values() if w.is_running and now > w.deadline + HUNG_SECONDS]
            for work in hung:
                work.is_running = False
                self._running -= 1
                self._blocked += 1
            self._changed.notify_all()
        for work in hung:
            log.error("job %d (%s) does not end: its slot is given up", work.claim.id, work.claim.company)
            if self._writer:
                self._writer.settle(given_up(work.claim), at_once=True)
        if self._blocked >= self._slots:
            log.error("%d threads hang: the worker stops, to be started anew", self._blocked)
            self.drain()

    def woken(self) -> None:
        """Somebody added work: look at every service."""
        with self._changed:
            self._due |= set(self._callers)
            self._changed.notify_all()

    def lost(self) -> None:
        """The worker was declared lost: all its claims are others' now."""
        with self._changed:
            for work in self._held.values():
                work.lost.set()

    def gone(self, settlement: Settlement, won: bool) -> None:
        """The writer has decided a settlement: written, or refused by the fence."""
        if not won:
            log.warning("lost claim: job %d, claim %d", settlement.id, settlement.claim_no)
        elif settlement.status is not Status.PENDING:
            self._pace.count()
        with self._changed:
            held = self._held.get(settlement.id)
            if held and held.claim.claim_no == settlement.claim_no:  # else it is ours again already
                del self._held[settlement.id]
            self._changed.notify_all()

    def _wait_for_work(self) -> bool:
        with self._changed:
            self._changed.wait_for(
                lambda: self._draining or self._unknown or (self._due and self._running < self._slots)
            )
            return not self._draining

    def _claim_round(self, worker: UUID, is_believed: Callable[[], bool], writer: Writer) -> int:
        """Claim once for every service that is due; returns how many jobs were started."""
        started = 0
        try:
            self._release_unknown(worker)
            for service in sorted(self._due):
                works = self._claim(worker, service, is_believed)
                for work in works:
                    self._start(work, writer)
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
        free = self._slots - self._running
        if free <= 0:
            return []
        permits = self._callers[service].permits
        with self._changed:
            self._due.discard(service)  # before the look: what is added from now on says so
            waiting = sum(
                work.waits and work.claim.key_id is None  # a test takes none of what the others wait for
                for work in self._held.values()
                if work.claim.service == service
            )
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
                    tokens=permits.usual_tokens,
                    locked=permits.locked,
                    keyless=not self._callers[service].service.needs_key,
                )
                seen_before = [claim.id for claim in got.claims if claim.claim_no > 1]
                stored = answers.of_jobs(conn, seen_before) if seen_before else {}
            may_be_more = len(got.claims) >= min(free, got.room)
        finally:
            if may_be_more:
                with self._changed:
                    self._due.add(service)
        return [Work.begin(claim, stored.get(claim.id, {}), is_believed) for claim in got.claims]

    def _start(self, work: Work, writer: Writer) -> None:
        with self._changed:
            self._held[work.claim.id] = work
            self._running += 1
            if self._halted:
                work.halt.set()
        # A thread of its own that nobody waits for: a parser that never ends must not keep the process.
        threading.Thread(target=self._work, args=(work, writer), name="job", daemon=True).start()

    def _work(self, work: Work, writer: Writer) -> None:
        settlement = self._runner.run(work)
        work.waits = False
        with self._changed:
            if not work.is_running:
                self._blocked -= 1
                return
            work.is_running = False
            self._running -= 1
            self._changed.notify_all()
        writer.settle(settlement, at_once=self._running == 0)

    def _pause(self, seconds: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._draining, seconds)

    def _finish(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._halted or not self._held, DRAIN_SECONDS)
            if self._held:
                self.halt()
            finished = self._changed.wait_for(lambda: not self._held, HALT_SECONDS)
        if not finished:
            log.error("%d jobs could not be settled; others will find them lost", len(self._held))
        self._side_by_side.shutdown(wait=finished)
        return finished
