"""The monitor's one row: who leads, until when, when it last looked, and what the last count check found.

A lease in a row and not an advisory lock: behind a pooler a session's lock outlives its client. The lease
decides who works; that nothing happens twice rests on the guards of `store.alerts` and `store.deliveries`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row

LEAD = """
UPDATE monitor SET leader = %(id)s, name = %(name)s, version = %(version)s, channels = %(channels)s,
    lease_until = clock_timestamp() + %(lease)s * interval '1 second'
WHERE leader = %(id)s OR lease_until <= clock_timestamp()
"""

STEP_DOWN = """
UPDATE monitor SET leader = NULL, name = NULL, version = NULL, lease_until = 'epoch' WHERE leader = %s
"""

LOOKED = "UPDATE monitor SET looked_at = clock_timestamp() WHERE leader = %s"

CHECK_IF_DUE = """
UPDATE monitor SET checked_at = clock_timestamp()
WHERE leader = %(id)s
  AND (checked_at IS NULL OR checked_at <= clock_timestamp() - %(every)s * interval '1 second')
"""

CHECKED = "UPDATE monitor SET counts_off = %s"

AGE = "SELECT extract(epoch FROM clock_timestamp() - looked_at) FROM monitor"

SEE = "SELECT leader, name, version, lease_until, looked_at, channels, checked_at, counts_off FROM monitor"


@dataclass(frozen=True, slots=True)
class Leader:
    """Who a monitor is from its start to its end, and the channels that it tells."""

    id: UUID
    name: str
    version: str
    channels: Sequence[str]


@dataclass(frozen=True, slots=True)
class MonitorSeen:
    """The row as people see it. `counts_off`: by how many jobs the counts were off at `checked_at`."""

    leader: UUID | None
    name: str | None
    version: str | None
    lease_until: datetime
    looked_at: datetime | None
    channels: list[str]
    checked_at: datetime | None
    counts_off: int


def lead(conn: psycopg.Connection, who: Leader, lease_seconds: float) -> bool:
    """Take or renew the lead. False: another monitor leads."""
    values = {
        "id": who.id,
        "name": who.name,
        "version": who.version,
        "channels": list(who.channels),
        "lease": lease_seconds,
    }
    return conn.execute(LEAD, values).rowcount == 1


def step_down(conn: psycopg.Connection, leader: UUID) -> bool:
    """Leave the lead to whoever asks next. False: another leads already."""
    return conn.execute(STEP_DOWN, (leader,)).rowcount == 1


def looked(conn: psycopg.Connection, leader: UUID) -> bool:
    """A whole look has been judged and written. False: the lead was lost meanwhile."""
    return conn.execute(LOOKED, (leader,)).rowcount == 1


def check_if_due(conn: psycopg.Connection, leader: UUID, every_seconds: float) -> bool:
    """Take the turn to check the counts. False: not the leader, or the last check is younger."""
    return conn.execute(CHECK_IF_DUE, {"id": leader, "every": every_seconds}).rowcount == 1


def checked(conn: psycopg.Connection, counts_off: int) -> None:
    """Note by how many jobs the counts were off."""
    conn.execute(CHECKED, (counts_off,))


def see(conn: psycopg.Connection) -> MonitorSeen:
    """The monitor's row."""
    with conn.cursor(row_factory=class_row(MonitorSeen)) as cursor:
        (row,) = cursor.execute(SEE).fetchall()
    return row


def monitor_pulse(conn: psycopg.Connection) -> datetime | None:
    """When a monitor last finished a look; None: never."""
    return see(conn).looked_at


def age_seconds(conn: psycopg.Connection) -> float | None:
    """How long ago a monitor last finished a look, by the database's clock; None: never."""
    ((age,),) = conn.execute(AGE).fetchall()
    return None if age is None else float(age)
