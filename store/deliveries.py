"""What is to be told through which channel: an outbox that is written with the alert and emptied afterwards.

A delivery is marked sent after the channel has accepted it, never before, so a kill in between sends it
twice with the same idempotency key. Deliveries of one alert leave in order, channel by channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from store.cleaning import text

MAX_ERROR = 500


class Kind(StrEnum):
    """What a delivery says of its alert. A test has no alert."""

    OPENED = "opened"
    REMINDER = "reminder"
    RESOLVED = "resolved"
    TEST = "test"


# For a statement with a CTE `told(id)` of alerts: one delivery each through every channel.
PENDED = """
pended AS (
    INSERT INTO delivery (alert_id, channel, kind)
    SELECT told.id, c.channel, %(kind)s FROM told CROSS JOIN unnest(%(channels)s::text[]) AS c(channel))
"""

ORDER_TEST = """
INSERT INTO delivery (channel, kind) SELECT %(channel)s, 'test'
WHERE NOT EXISTS (SELECT FROM delivery
                  WHERE channel = %(channel)s AND kind = 'test' AND state = 'pending')
RETURNING id
"""

# `next_try_at` moves ahead of the try: a sender that dies meanwhile leaves it to be tried again after that.
TAKE = """
WITH next AS MATERIALIZED (
    SELECT d.id FROM delivery d
    WHERE d.channel = %(channel)s AND d.state = 'pending' AND d.next_try_at <= clock_timestamp()
      AND NOT EXISTS (SELECT FROM delivery e WHERE e.alert_id = d.alert_id AND e.channel = d.channel
                      AND e.state = 'pending' AND e.id < d.id)
    ORDER BY d.id LIMIT 1 FOR UPDATE SKIP LOCKED),
taken AS (
    UPDATE delivery d SET tries = d.tries + 1,
        next_try_at = clock_timestamp() + %(hold)s * interval '1 second'
    FROM next WHERE d.id = next.id
    RETURNING d.id, d.alert_id, d.kind, d.tries, d.created_at, d.idempotency_key)
SELECT t.id, t.kind, t.tries, t.created_at, t.idempotency_key, t.alert_id, a.rule, a.subject, a.severity,
       a.message, a.link, a.opened_at, a.resolved_at, r.meaning, r.advice
FROM taken t LEFT JOIN alert a ON a.id = t.alert_id LEFT JOIN alert_rule r ON r.name = a.rule
"""

SENT = """
UPDATE delivery SET state = 'sent', sent_at = clock_timestamp(), last_error = %(remark)s
WHERE id = %(id)s AND state = 'pending'
"""

FAILED = """
UPDATE delivery SET last_error = %(error)s,
    next_try_at = clock_timestamp() + %(pause)s * interval '1 second',
    state = CASE WHEN created_at <= clock_timestamp() - %(give_up)s * interval '1 second'
            THEN 'failed' ELSE state END
WHERE id = %(id)s AND state = 'pending' AND tries = %(tries)s
RETURNING state
"""

ABANDON = """
UPDATE delivery SET state = 'failed', last_error = 'The channel is not set up any more.'
WHERE state = 'pending' AND channel <> ALL (%s)
"""

OF_ALERTS = """
SELECT id, alert_id, channel, kind, state, tries, created_at, next_try_at, last_error, sent_at
FROM delivery WHERE alert_id = ANY (%s) ORDER BY id
"""

LAST = """
SELECT d.id, d.alert_id, d.channel, d.kind, d.state, d.tries, d.created_at, d.next_try_at, d.last_error,
       d.sent_at
FROM unnest((SELECT channels FROM monitor)) AS c(channel)
CROSS JOIN LATERAL (SELECT * FROM delivery WHERE channel = c.channel ORDER BY id DESC LIMIT 1) d
ORDER BY d.channel
"""


LATEST = """
SELECT id, alert_id, channel, kind, state, tries, created_at, next_try_at, last_error, sent_at
FROM delivery ORDER BY id DESC LIMIT %s
"""


@dataclass(frozen=True, slots=True)
class Taken:
    """A delivery to try now, with what it tells. Of a test all fields of the alert are None."""

    id: int
    kind: str
    tries: int
    created_at: datetime
    idempotency_key: UUID
    alert_id: int | None
    rule: str | None
    subject: str | None
    severity: str | None
    message: str | None
    link: str | None
    opened_at: datetime | None
    resolved_at: datetime | None
    meaning: str | None
    advice: str | None


@dataclass(frozen=True, slots=True)
class DeliverySeen:
    """A delivery as people see it."""

    id: int
    alert_id: int | None
    channel: str
    kind: str
    state: str
    tries: int
    created_at: datetime
    next_try_at: datetime
    last_error: str | None
    sent_at: datetime | None


def order_test(conn: psycopg.Connection, channel: str) -> int | None:
    """Ask for a test message through `channel`; the monitor sends it. Returns the delivery's id.

    None: one waits to be sent already.
    """
    row = conn.execute(ORDER_TEST, {"channel": channel}).fetchone()
    return None if row is None else int(row[0])


def take(conn: psycopg.Connection, channel: str, hold_seconds: float) -> Taken | None:
    """The oldest due delivery of a channel, nobody else's for `hold_seconds`. Commit before sending."""
    with conn.cursor(row_factory=class_row(Taken)) as cursor:
        return cursor.execute(TAKE, {"channel": channel, "hold": hold_seconds}).fetchone()


def sent(conn: psycopg.Connection, taken: Taken, remark: str | None = None) -> bool:
    """The channel has accepted it, perhaps not for everybody. False: another try was accepted before."""
    kept = text(remark, MAX_ERROR) if remark else None
    return conn.execute(SENT, {"id": taken.id, "remark": kept}).rowcount == 1


def failed(
    conn: psycopg.Connection, taken: Taken, error: str, *, pause_seconds: float, give_up_seconds: float
) -> bool:
    """The try failed: try again after a pause, or give up when the delivery is that old. True: given up."""
    values = {
        "id": taken.id,
        "tries": taken.tries,
        "error": text(error, MAX_ERROR),
        "pause": pause_seconds,
        "give_up": give_up_seconds,
    }
    row = conn.execute(FAILED, values).fetchone()
    return row is not None and row[0] == "failed"


def abandon(conn: psycopg.Connection, channels: Sequence[str]) -> int:
    """Give up what waits for other channels than these; returns how many."""
    return conn.execute(ABANDON, (list(channels),)).rowcount


def of_alerts(conn: psycopg.Connection, alert_ids: Sequence[int]) -> list[DeliverySeen]:
    """The deliveries of these alerts, oldest first."""
    with conn.cursor(row_factory=class_row(DeliverySeen)) as cursor:
        return cursor.execute(OF_ALERTS, (list(alert_ids),)).fetchall()


def last_of_channels(conn: psycopg.Connection) -> list[DeliverySeen]:
    """The newest delivery, tests too, of every channel that the monitor tells."""
    with conn.cursor(row_factory=class_row(DeliverySeen)) as cursor:
        return cursor.execute(LAST).fetchall()


def latest(conn: psycopg.Connection, most: int) -> list[DeliverySeen]:
    """The newest deliveries through any channel, tests too, newest first."""
    with conn.cursor(row_factory=class_row(DeliverySeen)) as cursor:
        return cursor.execute(LATEST, (most,)).fetchall()
