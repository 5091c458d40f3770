"""The workers' own rows: they register, beat and leave. One statement beats, recovers and polls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from store.lists import HAS_ENDED
from store.recovery import FREED, SUSPECT_LOSSES

REGISTER = """
INSERT INTO worker (id, name, host, pid, version, key_set, services, slots, lease_until)
VALUES (%(id)s, %(name)s, %(host)s, %(pid)s, %(version)s, %(key_set)s, %(services)s, %(slots)s,
        clock_timestamp() + %(lease)s * interval '1 second')
"""

# A worker is gone when its lease has run out, or, sooner, when the database session that it beats on has
# ended. The session is believed only when it was seen for a while: a terminated session of a living worker
# looks the same until it has connected again, and after a restart of the server every session is new.
TICK = f"""
WITH me AS (
    UPDATE worker SET seen_at = clock_timestamp(),
        lease_until = clock_timestamp() + %(lease)s * interval '1 second',
        state = CASE WHEN %(draining)s THEN 'draining' ELSE state END,
        backend_pid = CASE WHEN %(direct)s THEN pg_backend_pid() END,
        backend_start = CASE WHEN %(direct)s THEN
            (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()) END,
        held = %(held)s, settled = %(settled)s, rows_per_minute = %(rows_per_minute)s,
        memory_bytes = %(memory_bytes)s, keys_in_use = %(keys_in_use)s, blocked = %(blocked)s
    WHERE id = %(id)s AND state IN ('running', 'draining')
    RETURNING state),
gone AS MATERIALIZED (  -- skips a row that is locked: its worker beats, or somebody else declares it lost
    SELECT w.id FROM worker w
    WHERE w.state IN ('running', 'draining') AND w.id <> %(id)s AND (
        w.lease_until <= clock_timestamp()
        OR w.seen_at < clock_timestamp() - interval '1 second'
           AND w.seen_at > pg_postmaster_start_time() + interval '5 seconds'
           AND w.backend_pid IS NOT NULL
           AND NOT EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = w.backend_pid
                           AND coalesce(a.backend_start, w.backend_start) = w.backend_start))
    FOR UPDATE SKIP LOCKED),
dead AS (
    UPDATE worker w SET state = 'lost', ended_at = clock_timestamp(), held = 0,
        lost_unsuspected = NOT EXISTS (SELECT FROM job j WHERE j.worker = w.id AND j.status = 'in_progress'
                                       AND j.losses >= {SUSPECT_LOSSES})
    FROM gone WHERE w.id = gone.id RETURNING w.id),
lost AS MATERIALIZED (
    SELECT id FROM dead
    UNION SELECT j.worker FROM job j WHERE j.status = 'in_progress' AND NOT EXISTS (
        SELECT FROM worker w WHERE w.id = j.worker AND w.state IN ('running', 'draining'))),
{FREED},
mine AS (  -- the list of each is looked up and not joined: see HAS_ENDED
    SELECT j.id, j.claim_no, (SELECT l.state = 'cancelled' FROM list l WHERE l.id = j.list_id) AS cancelled
    FROM job j WHERE j.worker = %(id)s AND j.status = 'in_progress')
SELECT (SELECT state FROM me),
    (SELECT count(*) FROM freed),
    (SELECT coalesce(jsonb_agg(jsonb_build_array(id, claim_no, cancelled)), '[]') FROM mine),
    ARRAY(SELECT DISTINCT l.service FROM list l JOIN service s ON s.name = l.service
          WHERE l.state = 'active' AND l.service = ANY (%(services)s)
            AND l.start_at <= now() AND s.rest_until <= now()
            AND EXISTS (SELECT FROM job j WHERE j.list_id = l.id AND j.status = 'pending'
                        AND j.run_at <= now())),
    EXISTS (SELECT FROM tally_delta),
    EXISTS (SELECT FROM list l WHERE {HAS_ENDED}),
    ARRAY(SELECT name FROM service WHERE name = ANY (%(services)s)
          AND (rest_until > now() OR opened_at IS NOT NULL))
"""

LEAVE = """
UPDATE worker SET state = 'stopped', ended_at = clock_timestamp(), held = 0
WHERE id = %s AND state IN ('running', 'draining')
"""

DRAIN_IF_RUNNING = """
UPDATE worker SET state = 'draining' WHERE id = %s AND state = 'running' AND lease_until > clock_timestamp()
"""

SEE = """
SELECT id, name, host, pid, version, key_set, services, slots, state, started_at, seen_at, lease_until, held,
       settled, rows_per_minute, memory_bytes, keys_in_use, blocked,
       ended_at, state IN ('running', 'draining') AND lease_until > clock_timestamp() AS is_alive
FROM worker WHERE state IN ('running', 'draining') OR ended_at > now() - interval '1 day'
ORDER BY started_at, id
"""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a worker is from one start to its end. The id is never used again."""

    id: UUID
    name: str
    host: str
    pid: int
    version: str
    key_set: str | None
    services: Sequence[str]
    slots: int


@dataclass(frozen=True, slots=True)
class Vitals:
    """What a worker says of itself with each beat. `blocked`: threads of jobs that ended without them."""

    draining: bool
    held: int
    settled: int
    rows_per_minute: float
    memory_bytes: int
    keys_in_use: Sequence[int]
    blocked: int = 0


@dataclass(frozen=True, slots=True)
class Pulse:
    """What a beat brought back. `state` None: this worker was declared lost, its claims are others' now.

    `held`: the jobs it holds as the table sees it, each with its claim number; `cancelled`: those of them
    whose list was cancelled. `due`: services that have work. `moves_wait` and `list_ended`: upkeep is worth
    a statement. `stopped`: services that nobody may call now, or one job alone.
    """

    state: str | None
    recovered: int
    held: Mapping[int, int]
    cancelled: frozenset[int]
    due: tuple[str, ...]
    moves_wait: bool
    list_ended: bool
    stopped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerSeen:
    """A worker's row as people see it. `is_alive`: its lease holds, whatever it said last."""

    id: UUID
    name: str
    host: str
    pid: int
    version: str
    key_set: str | None
    services: list[str]
    slots: int
    state: str
    started_at: datetime
    seen_at: datetime
    lease_until: datetime
    held: int
    settled: int
    rows_per_minute: float
    memory_bytes: int
    keys_in_use: list[int]
    is_alive: bool
    ended_at: datetime | None = None
    blocked: int = 0


def register(conn: psycopg.Connection, who: Identity, lease_seconds: float) -> None:
    """A worker starts. Its session is known from its first beat on."""
    conn.execute(
        REGISTER,
        {
            "id": who.id,
            "name": who.name,
            "host": who.host,
            "pid": who.pid,
            "version": who.version,
            "key_set": who.key_set,
            "services": list(who.services),
            "slots": who.slots,
            "lease": lease_seconds,
        },
    )


def tick(
    conn: psycopg.Connection, who: Identity, vitals: Vitals, *, lease_seconds: float, direct: bool
) -> Pulse:
    """Beat, free the jobs of workers that are gone, and ask whether there is work: one statement.

    `direct`: no pooler stands between, so this connection's session is a sign of life.
    """
    row = conn.execute(
        TICK,
        {
            "id": who.id,
            "services": list(who.services),
            "lease": lease_seconds,
            "direct": direct,
            "draining": vitals.draining,
            "held": vitals.held,
            "settled": vitals.settled,
            "rows_per_minute": vitals.rows_per_minute,
            "memory_bytes": vitals.memory_bytes,
            "keys_in_use": list(vitals.keys_in_use),
            "blocked": vitals.blocked,
        },
    ).fetchone()
    if row is None:
        raise AssertionError("a SELECT without FROM has one row")
    state, recovered, held, due, moves_wait, list_ended, stopped = row
    claim_numbers = {job: claim_no for job, claim_no, _ in held}
    cancelled = frozenset(job for job, _, is_cancelled in held if is_cancelled)
    return Pulse(
        state, recovered, claim_numbers, cancelled, tuple(due), moves_wait, list_ended, tuple(stopped)
    )


def leave(conn: psycopg.Connection, worker: UUID) -> None:
    """A worker has settled everything and stops."""
    conn.execute(LEAVE, (worker,))


def drain(conn: psycopg.Connection, worker: UUID) -> bool:
    """Let a worker finish what it holds and stop; it hears so at its next beat. False: it does not run."""
    return conn.execute(DRAIN_IF_RUNNING, (worker,)).rowcount == 1


def see(conn: psycopg.Connection) -> list[WorkerSeen]:
    """Living workers and those that ended within a day, oldest first."""
    with conn.cursor(row_factory=class_row(WorkerSeen)) as cursor:
        return cursor.execute(SEE).fetchall()
