"""What the rules look at: one snapshot, as plain values. All ages are counted from `Snapshot.now`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

from store.workers import WorkerSeen

RECENT_SECONDS = 300.0
BEFORE_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class ListFacts:
    """An active list, or one that finished within a day. `oldest_due_at`: since when a job could run.

    `done_recent` and `failed_recent` ended in the last `RECENT_SECONDS`, `…_before` in the `BEFORE_SECONDS`
    before that. `last_end_at` is the minute in which a job last ended, within both.
    """

    id: int
    name: str
    service: str
    state: str
    priority: int
    start_at: datetime
    due_by: datetime | None
    finished_at: datetime | None
    oldest_due_at: datetime | None
    pending: int = 0
    in_progress: int = 0
    done: int = 0
    failed: int = 0
    done_recent: int = 0
    failed_recent: int = 0
    done_before: int = 0
    failed_before: int = 0
    last_end_at: datetime | None = None

    @property
    def left(self) -> int:
        return self.pending + self.in_progress

    @property
    def ended_recent(self) -> int:
        return self.done_recent + self.failed_recent

    @property
    def ended_before(self) -> int:
        return self.done_before + self.failed_before


@dataclass(frozen=True, slots=True)
class CauseFacts:
    """A cause of failure that ended jobs lately: how many of all that are failed with it now."""

    service: str
    cause: str
    recent: int
    total: int


@dataclass(frozen=True, slots=True)
class KeyFacts:
    """A key with its account's limits (`amounts` per `per_seconds`, `used` of them) and its last calls.

    Of at most the last 200 calls within `RECENT_SECONDS`: `calls` were sent for `jobs`, `limited` were
    answered with 429.
    """

    id: int
    service: str
    label: str
    account_id: int
    state: str
    last_error: str | None
    rest_seconds: float
    rest_cause: str | None
    amounts: Sequence[int] = ()
    per_seconds: Sequence[float] = ()
    used: Sequence[int] = ()
    calls: int = 0
    jobs: int = 0
    limited: int = 0

    @property
    def free(self) -> int:
        """Permits that its account could give now."""
        if self.state != "active" or self.rest_seconds > 0:
            return 0
        return max(0, min((a - u for a, u in zip(self.amounts, self.used, strict=True)), default=0))


@dataclass(frozen=True, slots=True)
class ServiceFacts:
    """`rest_seconds`: for how long nobody may call it; 0: it can be called.

    `open_seconds`: since when its circuit is open, because it does not answer; None: it answers.
    """

    name: str
    rest_seconds: float
    rest_cause: str | None
    open_seconds: float | None = None

    @property
    def is_awake(self) -> bool:
        return self.rest_seconds <= 0 and self.open_seconds is None


@dataclass(frozen=True, slots=True)
class Transaction:
    """The longest open transaction of the database."""

    seconds: float
    program: str
    pid: int


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """`dead_rows` and `live_rows` are the job table's, as autovacuum counts them."""

    longest: Transaction | None = None
    dead_rows: int = 0
    live_rows: int = 0
    connections: int = 0
    most_connections: int = 100


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    """What a channel has not delivered. `given_up`: within a day."""

    name: str
    waiting: int
    oldest_seconds: float
    tries: int
    given_up: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class OwnFacts:
    """The monitor itself. `clock_ahead_seconds`: its machine's clock against the database's."""

    looked_at: datetime | None = None
    counts_off: int = 0
    checked_at: datetime | None = None
    clock_ahead_seconds: float = 0.0
    disk_free_bytes: int | None = None
    disk_total_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`newest_claims`: for each worker that holds jobs, when it claimed the newest of them."""

    now: datetime
    lists: tuple[ListFacts, ...] = ()
    causes: tuple[CauseFacts, ...] = ()
    workers: tuple[WorkerSeen, ...] = ()
    newest_claims: Mapping[UUID, datetime] = field(default_factory=dict)
    keys: tuple[KeyFacts, ...] = ()
    services: tuple[ServiceFacts, ...] = ()
    database: DatabaseFacts = DatabaseFacts()
    channels: tuple[ChannelFacts, ...] = ()
    own: OwnFacts = OwnFacts()

    def age(self, at: datetime) -> float:
        """Seconds since `at`; negative for a moment to come."""
        return (self.now - at).total_seconds()

    def due_lists(self, service: str) -> list[ListFacts]:
        """Active lists of the service with a job that could run now."""
        return [
            seen
            for seen in self.lists
            if seen.service == service
            and seen.state == "active"
            and seen.start_at <= self.now
            and seen.oldest_due_at is not None
            and seen.oldest_due_at <= self.now
        ]

    def alive_workers(self, service: str) -> list[WorkerSeen]:
        """Workers that run jobs of the service."""
        return [worker for worker in self.workers if worker.is_alive and service in worker.services]

    def free_permits(self, service: str) -> int:
        """Permits that the keys of the service could give now; keys of one account share theirs."""
        return sum({key.account_id: key.free for key in self.keys if key.service == service}.values())

    def is_awake(self, service: str) -> bool:
        """Whether the service may be called at all."""
        return all(seen.is_awake for seen in self.services if seen.name == service)
