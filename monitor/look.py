"""One look: snapshot, rules, episodes, and what follows for the alerts."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import assert_never

import psycopg

from monitor import snapshot
from monitor.episodes import (
    Change,
    Forget,
    NotSeen,
    OpenQuietly,
    Resolve,
    SeenAgain,
    Tell,
    Watch,
    changes,
)
from monitor.rule import Judged, dampings, judge
from monitor.rules import RULES
from store import alerts

log = logging.getLogger(__name__)


def look(conn: psycopg.Connection, channels: Sequence[str], disk: Path) -> bool:
    """Look once. True: something is to be told. Every change is guarded, so a second looker does no harm."""
    seen = snapshot.take(conn, disk)
    judged = judge(seen, RULES.values())
    wanted = _changes(conn, judged, seen.now)
    if new := [change.found for change in wanted if isinstance(change, Watch)]:
        alerts.watch(conn, new, seen.now)
        wanted = _changes(conn, judged, seen.now)
    return apply(conn, wanted, channels, seen.now)


def _changes(conn: psycopg.Connection, judged: Judged, now: datetime) -> list[Change]:
    episodes = [e for e in alerts.unresolved(conn, now) if e.rule not in judged.broken]
    return changes(episodes, judged.found, dampings(RULES), now)


def apply(conn: psycopg.Connection, wanted: Sequence[Change], channels: Sequence[str], now: datetime) -> bool:
    """Write the changes; what is seen and not seen goes first, in one statement each."""
    alerts.seen_again(conn, [(c.id, c.found, c.anew) for c in wanted if isinstance(c, SeenAgain)], now)
    alerts.not_seen(conn, [c.id for c in wanted if isinstance(c, NotSeen)], now)
    alerts.forget(conn, [c.id for c in wanted if isinstance(c, Forget)])
    told = [_applied(conn, change, channels, now) for change in wanted]
    return any(told)


def _applied(conn: psycopg.Connection, change: Change, channels: Sequence[str], now: datetime) -> bool:
    match change:
        case Tell():
            told = alerts.tell(conn, change.id, change.told, change.kind, channels, now)
            if told:
                log.info("alert %d %s: %s", change.id, change.kind, change.message)
            return told
        case Resolve():
            resolved = alerts.resolve(conn, change.id, channels, now, tells=change.tells)
            if resolved:
                log.info("alert %d: resolved", change.id)
            return resolved and change.tells
        case OpenQuietly():
            alerts.open_quietly(conn, change.id, now)
            return False
        case Watch() | SeenAgain() | NotSeen() | Forget():
            return False
        case _:
            assert_never(change)
