"""A run of chaos: the plan is carried out while workers work, then calm, then the verdict."""

from __future__ import annotations

import heapq
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from uuid import UUID

from bench.chaos.plan import Event, Kind, events
from bench.chaos.proxy import Proxy
from bench.chaos.stage import LEASE_SECONDS, SLOTS, UK, US, Actor, Size, Stage, stage
from bench.chaos.verdict import Harm, Line, judge

CALM_SECONDS = 180.0
SOME_SESSIONS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'sluice worker%%'
AND md5(pid::text || %s) < '6'
"""
# A worker whose session the others believe: it beats, and the server has been up for long enough.
SURE_TO_BE_MISSED = """
SELECT id FROM worker WHERE pid = %s AND state = 'running' AND backend_pid IS NOT NULL
AND seen_at > clock_timestamp() - interval '1 second'
AND pg_postmaster_start_time() < now() - interval '7 seconds'
"""
# What an operator does after a storm: the answers asked for rests of minutes.
END_RESTS = """
WITH accounts AS (UPDATE account SET rest_until = 0, rest_cause = NULL)
UPDATE service SET rest_until = now(), rest_cause = NULL WHERE rest_until > now()
"""
RULES: dict[Kind, dict[str, object]] = {
    Kind.STORM: {"kind": "rate_storm", "share": 0.1},
    Kind.ERRORS: {"kind": "status", "status": 500, "share": 0.3},
    Kind.SLOW: {"kind": "slow", "seconds": 1.5, "share": 0.3},
    Kind.CUT_BODIES: {"kind": "cut", "share": 0.3},
    Kind.GARBAGE: {"kind": "garbage", "share": 0.3, "match": "^/(company/|api/|document/[^/]*$)"},
    Kind.NO_DOCUMENT: {"kind": "garbage", "share": 0.8, "match": "^/storage/"},
    Kind.KEY_INVALID: {"kind": "key_invalid", "key": "UK 1"},
    Kind.KEY_EXHAUSTED: {"kind": "key_exhausted", "key": "UK 2"},
}


SHORT = Size(3, ((UK, 90), (UK, 60), (US, 150)), "60/10s", 26.0)
LONG = Size(6, ((UK, 700), (UK, 500), (US, 800)), "120/10s", 210.0)


@dataclass(frozen=True, slots=True)
class Report:
    """What was done how often, which share of the jobs ended meanwhile, and the verdict."""

    done: Counter[Kind]
    share: float
    lines: Sequence[Line]

    @property
    def holds(self) -> bool:
        return all(line.holds for line in self.lines)


def run(
    folder: Path, seed: int, size: Size, say: Callable[[str], None], pgbouncer: Sequence[str] = ()
) -> Report:
    """Set the stage in `folder`, which is emptied, and carry out the seed's plan; see `stage`."""
    with stage(folder, seed, size, pgbouncer) as set_up:
        director = _Director(set_up, seed, say)
        director.perform(events(seed, size.workers, LEASE_SECONDS), size.seconds)
        director.calm()
        lost_at_most = director.cut_off * SLOTS
        harm = Harm(
            SLOTS, director.woken_at, lost_at_most, director.stopped, director.killed, director.began_at
        )
        lines = list(judge(set_up.conn, set_up.url, set_up.list_ids, harm))
        return Report(director.done, director.share, lines)


@dataclass(slots=True)
class _Director:
    """Carries out events. `cut_off`: how often a worker lost what it had in flight, at most.

    `stopped`: process ids. `killed`: workers whose end the database must have noticed by their session.
    `share`: of the jobs, what ended while things went wrong.
    """

    stage: Stage
    seed: int
    say: Callable[[str], None]
    done: Counter[Kind] = field(default_factory=Counter)
    woken_at: list[float] = field(default_factory=list)
    stopped: list[int] = field(default_factory=list)
    killed: list[UUID] = field(default_factory=list)
    share: float = 0.0
    began_at: float = field(default_factory=time.time)
    cut_off: int = 0
    _ends: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)
    _number: Iterator[int] = field(default_factory=count)

    def perform(self, plan: Iterator[Event], seconds: float) -> None:
        """Until the time is over, or every job has ended."""
        began = time.monotonic()
        event = next(plan)
        while time.monotonic() < began + seconds and (left := self.stage.jobs_left()):
            if time.monotonic() >= began + event.at_seconds:
                self.say(f"{event.at_seconds:6.1f} s  {left:5} left  {event.kind}, worker {event.worker + 1}")
                self._carry_out(event)
                self.done[event.kind] += 1
                event = next(plan)
            self._go_on()
        left = self.stage.jobs_left()
        self.share = 1 - left / self.stage.jobs
        self.say(f"{time.monotonic() - began:6.1f} s  {left:5} left  calm")

    def calm(self) -> None:
        """End everything that lasts and let the workers finish."""
        while self._ends:
            heapq.heappop(self._ends)[2]()
        self.stage.conn.execute(END_RESTS)
        deadline = time.monotonic() + CALM_SECONDS
        while self.stage.jobs_left() and time.monotonic() < deadline:
            self._go_on()

    def _go_on(self) -> None:
        while self._ends and self._ends[0][0] <= time.monotonic():
            heapq.heappop(self._ends)[2]()
        self.stage.watch()
        time.sleep(0.05)

    def _later(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._ends, (time.monotonic() + seconds, next(self._number), what))

    def _carry_out(self, event: Event) -> None:
        actor = self.stage.actors[event.worker]
        match event.kind:
            case Kind.KILL:
                self.cut_off += 1
                self._kill(actor)
            case Kind.STOP:
                self._stop(event)
            case Kind.CUT | Kind.DEAF | Kind.LATE | Kind.LOST:
                self._cut_off(event, actor.proxy)
            case Kind.TERMINATE:
                self.cut_off += len(self.stage.actors)
                self.stage.conn.execute(SOME_SESSIONS, (f"{self.seed} {event.at_seconds}",))
            case Kind.RESTART:
                self.cut_off += len(self.stage.actors)
                self.stage.crash()
            case _:
                self._trouble_service(event)

    def _kill(self, actor: Actor) -> None:
        if not actor.is_stopped and not actor.proxy.is_troubled:
            sure = self.stage.conn.execute(SURE_TO_BE_MISSED, (actor.part.process.pid,))
            self.killed += [row[0] for row in sure]
        actor.is_stopped = False
        actor.part.process.kill()
        actor.part.process.wait()

    def _cut_off(self, event: Event, proxy: Proxy) -> None:
        self.cut_off += 1
        begin = {Kind.CUT: proxy.cut, Kind.DEAF: proxy.deafen}.get(event.kind, proxy.mute)
        begin()
        self._later(event.seconds, proxy.drop if event.kind is Kind.LOST else proxy.heal)

    def _stop(self, event: Event) -> None:
        actor = self.stage.actors[event.worker]
        if actor.is_stopped:
            return
        self.cut_off += 1
        process = actor.part.process
        actor.is_stopped = True
        self.stopped.append(process.pid)
        process.send_signal(signal.SIGSTOP)

        def go_on() -> None:
            if process is actor.part.process and actor.is_stopped:
                self.woken_at.append(time.time())
                actor.is_stopped = False
                process.send_signal(signal.SIGCONT)

        self._later(event.seconds, go_on)

    def _trouble_service(self, event: Event) -> None:
        rule = RULES[event.kind]
        if not self.stage.add_fault(rule):
            return
        if event.kind not in {Kind.KEY_INVALID, Kind.KEY_EXHAUSTED}:
            seconds = event.seconds * (2 if event.kind is Kind.NO_DOCUMENT else 0.5)  # it meets few calls
            self._later(seconds, lambda: self._end_trouble(event.kind))

    def _end_trouble(self, kind: Kind) -> None:
        self.stage.end_fault(RULES[kind])
        if kind is Kind.STORM:
            self.stage.conn.execute(END_RESTS)
