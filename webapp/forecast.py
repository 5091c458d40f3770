"""How fast a list moves, when it will be ready, and what holds it back. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

LOOK_BACK_MINUTES = 30
# The slowest and the fastest of these say how sure the pace is; the middle one is the pace that is shown.
WINDOWS_MINUTES = (2, 5, LOOK_BACK_MINUTES)
SHOWN_MINUTES = 5
LEAST_ENDED = 20
LEAST_SPREAD = 0.05
FULL = 0.9
SLOW_CALL_MS = 1500

Minutes = Sequence[tuple[datetime, int]]


@dataclass(frozen=True, slots=True)
class Pace:
    """Ended jobs per minute as shown, and the slowest and fastest of the looks back."""

    per_minute: float
    slowest: float
    fastest: float


@dataclass(frozen=True, slots=True)
class Ready:
    """Between which two moments a list will be ready; the seconds are from now."""

    low_seconds: float
    high_seconds: float
    earliest: datetime
    latest: datetime


class Due(StrEnum):
    """Whether a list will be ready by when it is due."""

    ON_TIME = "on time"
    MAY_BE_LATE = "may be late"
    WILL_BE_LATE = "will be late"
    IS_LATE = "is late"
    UNKNOWN = "too early to say"


@dataclass(frozen=True, slots=True)
class Crew:
    """What a service has to work with. `slots` and `held` are of the living workers that know it."""

    workers: int
    slots: int
    held: int
    keys: int
    usable_keys: int
    ready_keys: int
    fullest: float
    """The share of its limit that the least used of the ready keys has used: 1.0 is all."""
    first_back: datetime | None
    rests_until: datetime | None
    needs_key: bool
    took_ms: float | None

    @property
    def can_move(self) -> bool:
        """Whether a job of the service can run at all, now or after a rest."""
        return self.workers > 0 and (self.usable_keys > 0 or not self.needs_key)


@dataclass(frozen=True, slots=True)
class Held:
    """What holds a list back: a word for it, and until when, if that is known."""

    by: str
    words: str
    until: datetime | None = None


def pace(minutes: Minutes, now: datetime) -> Pace:
    """From how many jobs ended in which minute; `now` may be within the last of them."""
    busy = [(at, n) for at, n in minutes if n > 0]
    if not busy:
        return Pace(0.0, 0.0, 0.0)
    first = busy[0][0]
    seen = {}
    for window in WINDOWS_MINUTES:
        start = max(now.replace(second=0, microsecond=0) - timedelta(minutes=window), first)
        elapsed = max((now - start).total_seconds() / 60, 0.5)
        seen[window] = sum(n for at, n in busy if at >= start) / elapsed
    return Pace(seen[SHOWN_MINUTES], min(seen.values()), max(seen.values()))


def ready(left: int, ended: int, of: Pace, now: datetime) -> Ready | None:
    """When `left` jobs will have ended. None: too early to say, or nothing moves."""
    if left <= 0 or ended < LEAST_ENDED or of.slowest <= 0:
        return None
    low = 60 * left / of.fastest * (1 - LEAST_SPREAD)
    high = 60 * left / of.slowest * (1 + LEAST_SPREAD)
    return Ready(low, high, now + timedelta(seconds=low), now + timedelta(seconds=high))


def due(due_by: datetime | None, left: int, when: Ready | None, now: datetime) -> Due | None:
    """What is to be expected of a list that is due. None: it is not, or nothing of it is left."""
    if due_by is None or left <= 0:
        return None
    if due_by <= now:
        return Due.IS_LATE
    if when is None:
        return Due.UNKNOWN
    if when.earliest > due_by:
        return Due.WILL_BE_LATE
    return Due.MAY_BE_LATE if when.latest > due_by else Due.ON_TIME


def held_back(
    state: str, left: int, crew: Crew, *, start_at: datetime | None = None, now: datetime | None = None
) -> Held | None:
    """What a list with this crew waits for most. None: nothing holds it."""
    if state == "paused":
        return Held("paused", "paused by a person")
    if left == 0 or state != "active":
        return None
    if start_at and now and start_at > now:
        return Held("start", "starts", start_at)
    return _stops(crew) or _slows(crew)


def _stops(crew: Crew) -> Held | None:
    """What keeps everything of this service from running."""
    if crew.rests_until is not None:
        return Held("service", "the service rests until", crew.rests_until)
    if crew.workers == 0:
        return Held("workers", "no worker is running")
    if not crew.needs_key:
        return None
    if crew.usable_keys == 0:
        return Held("keys", "no usable key" if crew.keys else "no key yet")
    if crew.ready_keys == 0:
        return Held("keys", "keys rest until", crew.first_back)
    return None


def _slows(crew: Crew) -> Held | None:
    """What more of would make it faster."""
    if crew.fullest >= FULL:
        return Held("keys", "keys")
    if crew.slots == 0 or crew.held < FULL * crew.slots:
        return None
    if crew.took_ms is not None and crew.took_ms >= SLOW_CALL_MS:
        return Held("service", f"service: {crew.took_ms / 1000:.1f} s a call")
    return Held("workers", "workers")
