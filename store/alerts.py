"""Alerts: episodes of something that is wrong. At most one is open per rule and subject.

A finding is watched first and opens an episode when it lasts; `told` counts how often people were told and
is the guard of every telling, so that two monitors tell once. When to do which is `monitor.episodes`'.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import psycopg
from psycopg.rows import class_row

from store.cleaning import MAX_MESSAGE, text
from store.deliveries import PENDED, Kind


class Severity(StrEnum):
    """How soon a person should look, least urgent first."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


# A mute outlives its episode. `flaps`: episodes of the last day, by which the damping grows.
WATCH = """
INSERT INTO alert (rule, subject, severity, message, link, seen_from, last_seen_at, flaps, muted_until,
                   mute_reason, muted_by)
SELECT g.rule, g.subject, g.severity, g.message, g.link, %(now)s, %(now)s,
       (SELECT count(*) FROM alert a WHERE a.rule = g.rule AND a.subject = g.subject
        AND a.opened_at > %(now)s - interval '1 day'),
       m.muted_until, m.mute_reason, m.muted_by
FROM unnest(%(rule)s::text[], %(subject)s::text[], %(severity)s::text[], %(message)s::text[],
            %(link)s::text[]) AS g(rule, subject, severity, message, link)
LEFT JOIN LATERAL (
    SELECT * FROM (SELECT * FROM alert a WHERE a.rule = g.rule AND a.subject = g.subject
                   ORDER BY a.opened_at DESC, a.id DESC LIMIT 1) last
    WHERE last.muted_until > %(now)s) m ON true
ON CONFLICT (rule, subject) WHERE resolved_at IS NULL DO NOTHING
"""

SEEN_AGAIN = """
UPDATE alert a SET last_seen_at = %(now)s, seen = a.seen + 1, clear_from = NULL, severity = g.severity,
    message = g.message, link = g.link, seen_from = CASE WHEN g.anew THEN %(now)s ELSE a.seen_from END
FROM unnest(%(id)s::bigint[], %(severity)s::text[], %(message)s::text[], %(link)s::text[],
            %(anew)s::boolean[])
  AS g(id, severity, message, link, anew)
WHERE a.id = g.id AND a.resolved_at IS NULL
"""

NOT_SEEN = """
UPDATE alert SET clear_from = %(now)s WHERE id = ANY (%(id)s) AND resolved_at IS NULL AND clear_from IS NULL
"""

FORGET_IF_UNOPENED = "DELETE FROM alert WHERE id = ANY (%s) AND opened_at IS NULL"

OPEN_QUIETLY = "UPDATE alert SET opened_at = %(now)s WHERE id = %(id)s AND opened_at IS NULL"

TELL_IF_UNTOLD = f"""
WITH told AS (
    UPDATE alert SET opened_at = coalesce(opened_at, %(now)s), told = told + 1, told_at = %(now)s
    WHERE id = %(id)s AND told = %(told)s AND resolved_at IS NULL
    RETURNING id),
{PENDED}
SELECT id FROM told
"""

RESOLVE_IF_OPEN = f"""
WITH resolved AS (
    UPDATE alert SET resolved_at = %(now)s
    WHERE id = %(id)s AND resolved_at IS NULL AND opened_at IS NOT NULL AND clear_from IS NOT NULL
    RETURNING id),
told AS (SELECT id FROM resolved WHERE %(tells)s),
{PENDED}
SELECT id FROM resolved
"""

UNRESOLVED = """
SELECT id, rule, subject, severity, flaps, seen_from, last_seen_at, clear_from, opened_at, told, told_at,
       acknowledged_at IS NOT NULL AS is_acknowledged,
       coalesce(muted_until > %(now)s, false) AS is_muted
FROM alert WHERE resolved_at IS NULL ORDER BY id
"""

SEE = """
SELECT a.id, a.rule, a.subject, a.severity, a.message, a.link, a.seen, a.opened_at, a.last_seen_at,
       a.clear_from, a.told, a.told_at, a.acknowledged_at, a.acknowledged_by, a.muted_until, a.mute_reason,
       a.muted_by, a.resolved_at, r.meaning, r.advice
FROM alert a LEFT JOIN alert_rule r ON r.name = a.rule
"""

SEE_OPEN = f"""
{SEE} WHERE a.resolved_at IS NULL AND a.opened_at IS NOT NULL
ORDER BY array_position(ARRAY['critical', 'warning', 'info'], a.severity), a.opened_at DESC, a.id
"""

SEE_RESOLVED = f"{SEE} WHERE a.resolved_at IS NOT NULL ORDER BY a.resolved_at DESC, a.id DESC LIMIT %s"

SEE_ONE = f"{SEE} WHERE a.id = %s AND a.opened_at IS NOT NULL"

ACKNOWLEDGE = """
UPDATE alert SET acknowledged_at = clock_timestamp(), acknowledged_by = %(by)s
WHERE id = %(id)s AND resolved_at IS NULL AND acknowledged_at IS NULL
"""

MUTE = """
UPDATE alert SET muted_until = %(until)s, mute_reason = %(reason)s, muted_by = %(by)s
WHERE id = %(id)s AND %(until)s > clock_timestamp()
"""

UNMUTE = """
UPDATE alert SET muted_until = NULL, mute_reason = NULL, muted_by = NULL
WHERE id = %s AND muted_until IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Found:
    """Something that a rule found. `subject` is the same as long as it is the same thing: `key:5`."""

    rule: str
    subject: str
    severity: Severity
    message: str
    link: str


@dataclass(frozen=True, slots=True)
class Episode:
    """An unresolved row as the monitor judges it; `opened_at` None: only watched so far."""

    id: int
    rule: str
    subject: str
    severity: str
    flaps: int
    seen_from: datetime
    last_seen_at: datetime
    clear_from: datetime | None
    opened_at: datetime | None
    told: int
    told_at: datetime | None
    is_acknowledged: bool
    is_muted: bool


@dataclass(frozen=True, slots=True)
class AlertSeen:
    """An opened alert as people see it. `meaning` and `advice` are None for a rule that is gone."""

    id: int
    rule: str
    subject: str
    severity: str
    message: str
    link: str
    seen: int
    opened_at: datetime
    last_seen_at: datetime
    clear_from: datetime | None
    told: int
    told_at: datetime | None
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    muted_until: datetime | None
    mute_reason: str | None
    muted_by: str | None
    resolved_at: datetime | None
    meaning: str | None
    advice: str | None


def unresolved(conn: psycopg.Connection, now: datetime) -> list[Episode]:
    """What is open or watched, oldest first."""
    with conn.cursor(row_factory=class_row(Episode)) as cursor:
        return cursor.execute(UNRESOLVED, {"now": now}).fetchall()


def watch(conn: psycopg.Connection, found: Sequence[Found], now: datetime) -> int:
    """Begin to watch these; returns how many are new. What is watched or open already is left alone."""
    return conn.execute(WATCH, {"now": now, **_columns(found)}).rowcount


def seen_again(conn: psycopg.Connection, seen: Sequence[tuple[int, Found, bool]], now: datetime) -> int:
    """These (id, what was found, whether its time begins anew) were found; returns for how many it counts."""
    columns = _columns([found for _, found, _ in seen])
    ids, anew = [id_ for id_, _, _ in seen], [begins for _, _, begins in seen]
    return conn.execute(SEEN_AGAIN, {"now": now, "id": ids, "anew": anew, **columns}).rowcount


def not_seen(conn: psycopg.Connection, ids: Sequence[int], now: datetime) -> int:
    """These were not found; returns for how many that is new."""
    return conn.execute(NOT_SEEN, {"id": list(ids), "now": now}).rowcount


def forget(conn: psycopg.Connection, ids: Sequence[int]) -> int:
    """Drop those that never opened; returns how many."""
    return conn.execute(FORGET_IF_UNOPENED, (list(ids),)).rowcount


def open_quietly(conn: psycopg.Connection, alert_id: int, now: datetime) -> bool:
    """Open and tell nobody. False: it is open already."""
    return conn.execute(OPEN_QUIETLY, {"id": alert_id, "now": now}).rowcount == 1


def tell(
    conn: psycopg.Connection, alert_id: int, told: int, kind: Kind, channels: Sequence[str], now: datetime
) -> bool:
    """Open it if need be and put one delivery per channel into the outbox, in one statement.

    False: it is resolved, or was told more than `told` times; nothing has changed.
    """
    values = {"id": alert_id, "told": told, "kind": kind, "channels": list(channels), "now": now}
    return conn.execute(TELL_IF_UNTOLD, values).fetchone() is not None


def resolve(
    conn: psycopg.Connection, alert_id: int, channels: Sequence[str], now: datetime, *, tells: bool
) -> bool:
    """End the episode, and tell so in the same statement if `tells`. False: it is over, or was seen again."""
    values = {"id": alert_id, "tells": tells, "kind": Kind.RESOLVED, "channels": list(channels), "now": now}
    return conn.execute(RESOLVE_IF_OPEN, values).fetchone() is not None


def see_open(conn: psycopg.Connection) -> list[AlertSeen]:
    """Open alerts, the most severe and newest first."""
    with conn.cursor(row_factory=class_row(AlertSeen)) as cursor:
        return cursor.execute(SEE_OPEN).fetchall()


def see_resolved(conn: psycopg.Connection, most: int) -> list[AlertSeen]:
    """The alerts that were resolved last."""
    with conn.cursor(row_factory=class_row(AlertSeen)) as cursor:
        return cursor.execute(SEE_RESOLVED, (most,)).fetchall()


def see_one(conn: psycopg.Connection, alert_id: int) -> AlertSeen | None:
    """One alert that has opened, resolved or not."""
    with conn.cursor(row_factory=class_row(AlertSeen)) as cursor:
        return cursor.execute(SEE_ONE, (alert_id,)).fetchone()


def acknowledge(conn: psycopg.Connection, alert_id: int, by: str) -> bool:
    """Somebody takes care: no more reminders. False: it is resolved or acknowledged already."""
    return conn.execute(ACKNOWLEDGE, {"id": alert_id, "by": text(by, 200)}).rowcount == 1


def mute(conn: psycopg.Connection, alert_id: int, until: datetime, reason: str, by: str) -> bool:
    """Tell nobody of this rule and subject until then, new episodes included. False: `until` is past."""
    values = {"id": alert_id, "until": until, "reason": text(reason, MAX_MESSAGE), "by": text(by, 200)}
    return conn.execute(MUTE, values).rowcount == 1


def unmute(conn: psycopg.Connection, alert_id: int) -> bool:
    """Tell again; an open alert that nobody was told of is told now. False: it was not muted."""
    return conn.execute(UNMUTE, (alert_id,)).rowcount == 1


def _columns(found: Sequence[Found]) -> dict[str, list[str]]:
    """The findings as arrays."""
    columns = {name: [str(getattr(f, name)) for f in found] for name in Found.__slots__}
    return columns | {"message": [text(f.message, MAX_MESSAGE) for f in found]}
