"""When a finding becomes an alert, when people are told, and when it is over: pure, so that it can be tested.

Damping: a finding opens an alert when every look of `for_seconds` has seen it, and an alert ends when no look
of `clear_seconds` has. The latter doubles with every episode of the last day, so a subject that flaps all
day is told of about ten times and not a hundred.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from store.alerts import Episode, Found, Severity
from store.deliveries import Kind

LONGEST_CLEAR_SECONDS = 4 * 3600.0
UNWATCHED_SECONDS = 900.0
REMIND_SECONDS: Mapping[str, float] = {Severity.CRITICAL: 4 * 3600.0, Severity.WARNING: 24 * 3600.0}
RANK: Mapping[str, int] = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class Damping:
    """How long a rule's finding must last, and be gone. `tells_end` False: its end is no news."""

    for_seconds: float
    clear_seconds: float
    tells_end: bool = True


# For what a rule left behind that is there no more.
GONE = Damping(0.0, 60.0)


@dataclass(frozen=True, slots=True)
class Watch:
    """A finding that nobody watches yet."""

    found: Found


@dataclass(frozen=True, slots=True)
class SeenAgain:
    """`anew`: nobody looked for so long that its time begins again."""

    id: int
    found: Found
    anew: bool


@dataclass(frozen=True, slots=True)
class NotSeen:
    id: int


@dataclass(frozen=True, slots=True)
class Forget:
    """It was gone before it opened."""

    id: int


@dataclass(frozen=True, slots=True)
class OpenQuietly:
    """It lasts, and it is muted."""

    id: int


@dataclass(frozen=True, slots=True)
class Tell:
    id: int
    told: int
    kind: Kind
    message: str


@dataclass(frozen=True, slots=True)
class Resolve:
    id: int
    tells: bool


Change: TypeAlias = Watch | SeenAgain | NotSeen | Forget | OpenQuietly | Tell | Resolve


def changes(
    episodes: Sequence[Episode], found: Sequence[Found], dampings: Mapping[str, Damping], now: datetime
) -> list[Change]:
    """What a look changes. `now` is the moment of the look on the database's clock.

    Watch what this says first and ask again: only what has a row can be seen, opened or told.
    """
    by_subject = {(f.rule, f.subject): f for f in found}
    known = {(e.rule, e.subject) for e in episodes}
    result: list[Change] = [Watch(f) for subject, f in by_subject.items() if subject not in known]
    for episode in episodes:
        damping = dampings.get(episode.rule, GONE)
        there = by_subject.get((episode.rule, episode.subject))
        result += _lasts(episode, there, damping, now) if there else _gone(episode, damping, now)
    return result


def clear_seconds(damping: Damping, flaps: int) -> float:
    """How long a subject that had `flaps` episodes within a day must be gone before it counts as over."""
    longest = max(LONGEST_CLEAR_SECONDS, damping.clear_seconds)
    return float(min(damping.clear_seconds * 2.0 ** min(flaps, 16), longest))


def _lasts(episode: Episode, found: Found, damping: Damping, now: datetime) -> list[Change]:
    is_open = episode.opened_at is not None
    anew = not is_open and now - episode.last_seen_at > timedelta(
        seconds=max(UNWATCHED_SECONDS, damping.for_seconds)
    )
    worst = max(episode.severity if is_open else found.severity, found.severity, key=RANK.__getitem__)
    since = now if anew else episode.seen_from
    kept = Found(found.rule, found.subject, Severity(worst), found.message, found.link)
    changed: list[Change] = [SeenAgain(episode.id, kept, anew)]
    if is_open or now - since >= timedelta(seconds=damping.for_seconds):
        changed += _told(episode, kept, now)
    return changed


def _told(episode: Episode, found: Found, now: datetime) -> list[Change]:
    """Tell once that it opened, again when it got worse, and from time to time until somebody cares."""
    if episode.is_muted:
        return [] if episode.opened_at else [OpenQuietly(episode.id)]
    if episode.told_at is None:
        return [Tell(episode.id, 0, Kind.OPENED, found.message)]
    got_worse = RANK[found.severity] > RANK[episode.severity]
    remind = REMIND_SECONDS.get(found.severity)
    is_time = (
        remind is not None
        and not episode.is_acknowledged
        and now - episode.told_at >= timedelta(seconds=remind)
    )
    again = Tell(episode.id, episode.told, Kind.REMINDER, found.message)
    return [again] if got_worse or is_time else []


def _gone(episode: Episode, damping: Damping, now: datetime) -> list[Change]:
    if episode.opened_at is None:
        return [Forget(episode.id)]
    needed = timedelta(seconds=clear_seconds(damping, episode.flaps))
    changed: list[Change] = [] if episode.clear_from else [NotSeen(episode.id)]
    if now - (episode.clear_from or now) >= needed:
        tells = damping.tells_end and episode.told > 0 and not episode.is_muted
        changed.append(Resolve(episode.id, tells))
    return changed
