"""The queue as a worker holds it: claim, and settle or release behind the fence."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from uuid import UUID

import psycopg

from store.answers import KEPT, KeptAnswer
from store.answers import columns as answer_columns
from store.calls import LOGGED, Call
from store.calls import columns as call_columns
from store.circuits import PROBING
from store.cleaning import MAX_MESSAGE, text
from store.database import positional
from store.headroom import HEADROOM, TESTABLE
from store.recovery import MAY_HOLD_SUSPECT, SUSPECT_LOSSES
from store.states import BACK, Outcome, Status
from store.tally import CAUSE_COUNTED, COUNTED

# Every later write of a holder goes through this and nothing else: `g` is what it says it holds.
# The status is compared as an expression so that no plan leads over the index of held jobs: an ANALYZE right
# after an import says that it is empty, and each row given would be compared with each job in progress.
FENCE = """
    j.id = g.id AND j.worker = g.worker AND j.claim_no = g.claim_no AND j.status || '' = 'in_progress'
"""

CLAIM = f"""
WITH {HEADROOM},
held AS MATERIALIZED (  -- by its own index: joined first, an import not yet analyzed is read as a whole
    SELECT list_id, worker, losses, claimed_at FROM job WHERE status = 'in_progress'),
-- Less what waits for a permit: the asker knows its own, of others it is what they have claimed lately. Jobs
-- that need keys of another set take none of this headroom.
room AS MATERIALIZED (
    SELECT greatest(0, least(%(n)s, CASE WHEN %(keyless)s THEN %(n)s ELSE headroom.permits - %(waiting)s - (
        SELECT count(*) FROM held h JOIN list l ON l.id = h.list_id JOIN worker w ON w.id = h.worker
        WHERE l.service = %(service)s AND h.worker <> %(worker)s
          AND h.claimed_at > clock_timestamp() - %(soon)s * interval '1 second'
          AND (%(key_set)s::text IS NULL OR w.key_set IS NULL OR w.key_set = %(key_set)s)) END))::int AS jobs
    FROM headroom),
probe AS MATERIALIZED (  -- one gets it: by the row's lock, and by the rest that begins with a probe
    SELECT s.name FROM service s WHERE s.name = %(service)s AND s.opened_at IS NOT NULL
      AND s.rest_until <= now() AND NOT {PROBING} FOR UPDATE SKIP LOCKED),
gate AS MATERIALIZED (  -- how many jobs the service's circuit lets through
    SELECT name, %(n)s AS jobs FROM service
    WHERE name = %(service)s AND rest_until <= now() AND opened_at IS NULL
    UNION ALL SELECT name, 1 FROM probe),
test AS MATERIALIZED (  -- of keys, first: each runs under its own key, whatever the others have room for
    SELECT j.id, l.run_seconds FROM list l JOIN gate ON gate.name = l.service
    JOIN key k ON k.id = l.key_id JOIN account a ON a.id = k.account_id CROSS JOIN LATERAL (
        SELECT id FROM job WHERE list_id = l.id AND status = 'pending' AND run_at <= now()
        ORDER BY run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED) j
    WHERE l.state = 'active' AND l.key_id IS NOT NULL
      AND EXISTS (SELECT FROM worker WHERE id = %(worker)s AND state = 'running') AND {TESTABLE}
    LIMIT (SELECT jobs FROM gate)),
turn AS MATERIALIZED (  -- lists of one priority take turns: whoever claims next starts with another
    SELECT l.id, l.run_seconds FROM list l JOIN gate ON gate.name = l.service
    WHERE l.state = 'active' AND l.start_at <= now()
      AND l.key_id IS NULL AND EXISTS (SELECT FROM worker WHERE id = %(worker)s AND state = 'running')
    ORDER BY l.priority DESC, random()),
suspect AS MATERIALIZED (
    SELECT j.id, turn.run_seconds FROM turn CROSS JOIN LATERAL (
        SELECT id FROM job WHERE list_id = turn.id AND status = 'pending' AND losses >= {SUSPECT_LOSSES}
          AND run_at <= now() ORDER BY run_at, id LIMIT 1 FOR UPDATE SKIP LOCKED) j
    WHERE {MAY_HOLD_SUSPECT}
    LIMIT (SELECT least(1, room.jobs, gate.jobs - (SELECT count(*) FROM test)) FROM room, gate)),
-- Lazy: locks exactly the batch. Its size is a sub-select so that no plan is better for one size than for
-- another; else Postgres makes a new one with each claim beside many jobs, which takes as long as the claim.
due AS MATERIALIZED (
    SELECT j.id, turn.run_seconds FROM turn CROSS JOIN LATERAL (
        SELECT id FROM job WHERE list_id = turn.id AND status = 'pending' AND losses < {SUSPECT_LOSSES}
          AND run_at <= now() ORDER BY run_at, id LIMIT (SELECT %(n)s::bigint) FOR UPDATE SKIP LOCKED) j
    LIMIT (SELECT least(room.jobs - s.n, gate.jobs - s.n - (SELECT count(*) FROM test))
           FROM room, gate, (SELECT count(*) AS n FROM suspect) s)),
taken AS (SELECT * FROM test UNION ALL SELECT * FROM suspect UNION ALL SELECT * FROM due),
claimed AS (
    UPDATE job j SET status = 'in_progress', worker = %(worker)s, claim_no = claim_no + 1,
        claimed_at = clock_timestamp(),
        run_until = clock_timestamp() + taken.run_seconds * interval '1 second'
    FROM taken WHERE j.id = taken.id AND j.id = ANY (ARRAY(SELECT id FROM taken))
    RETURNING j.*),
probing AS (
    UPDATE service s SET probe_job = c.id, probe_claim_no = c.claim_no,
        rest_until = clock_timestamp() + interval '1 second'
    FROM probe p, claimed c WHERE s.name = p.name),
moved AS (
    SELECT list_id, 'pending' AS was, NULL AS was_outcome, NULL AS was_cause,
           'in_progress' AS status, NULL AS outcome, NULL AS cause FROM claimed),
{COUNTED}
SELECT room.jobs AS room, c.id, c.claim_no, c.list_id, c.company, c.name, c.extra, c.attempts,
       c.losses, c.faults, l.service, l.options, l.fields, l.required, l.max_attempts, l.max_faults,
       l.run_seconds, l.key_id, l.reuse_seconds > 0, EXISTS (SELECT FROM probe) AS is_probe, l.types
FROM room LEFT JOIN claimed c ON true LEFT JOIN list l ON l.id = c.list_id
"""

_CLAIM, _ASKED = positional(CLAIM)

SETTLE = f"""
WITH given AS (
    SELECT * FROM unnest(
        %(id)b::bigint[], %(worker)b::uuid[], %(claim_no)b::int[], %(status)b::text[],
        %(outcome)b::text[], %(cause)b::text[], %(message)b::text[], %(result)b::text[],
        %(pause)b::float8[], %(tried)b::smallint[], %(faulted)b::smallint[])
      AS g(id, worker, claim_no, status, outcome, cause, message, result, pause_seconds, tried, faulted)),
settled AS (
    UPDATE job j SET (status, ended_at) = (
            SELECT s.status, CASE WHEN s.status <> 'pending' THEN clock_timestamp() END
            FROM (SELECT CASE g.status WHEN 'pending' THEN {BACK} ELSE g.status END AS status) s),
        outcome = g.outcome, cause = g.cause, message = g.message,
        result = g.result::jsonb, attempts = attempts + g.tried, faults = faults + g.faulted,
        losses = 0, worker = NULL, run_until = NULL,
        run_at = coalesce(clock_timestamp() + g.pause_seconds * interval '1 second', run_at)
    FROM given g WHERE {FENCE}
    RETURNING j.id, j.list_id, j.status, j.outcome, {CAUSE_COUNTED} AS cause),
moved AS (
    SELECT list_id, 'in_progress' AS was, NULL AS was_outcome, NULL AS was_cause, status, outcome, cause
    FROM settled),
{COUNTED}, {KEPT}, {LOGGED}
SELECT id FROM settled
UNION ALL  -- written by a try before: whoever frees a lost claim says so by another cause
SELECT j.id FROM given g JOIN job j ON j.id = g.id
WHERE %(again)b AND j.claim_no = g.claim_no
  AND (j.status = g.status OR g.status = 'pending' AND j.status = 'cancelled')
  AND (j.outcome, j.cause, j.message) IS NOT DISTINCT FROM (g.outcome, g.cause, g.message)
"""

RELEASE = f"""
WITH given AS (
    SELECT id, %(worker)s::uuid AS worker, claim_no
    FROM unnest(%(id)s::bigint[], %(claim_no)s::int[]) AS g(id, claim_no)),
moved AS (
    UPDATE job j SET worker = NULL, run_until = NULL, (status, ended_at) = (
        SELECT s.status, CASE WHEN s.status <> 'pending' THEN clock_timestamp() END
        FROM (SELECT {BACK} AS status) s)
    FROM given g WHERE {FENCE}
    RETURNING j.list_id, 'in_progress' AS was, NULL AS was_outcome, NULL AS was_cause,
              j.status, NULL AS outcome, NULL AS cause),
{COUNTED}
SELECT count(*) FROM moved
"""


@dataclass(slots=True)  # not frozen: that makes a claim three times as slow to make, and each job pays it
class Claim:
    """A worker's hold on a job, with what its list asks for. `id`, `worker` and `claim_no` are the fence.

    `key_id`: the job is a test of this key. `reuses`: answers of other jobs may do. `is_probe`: its service
    does not answer, and it alone tries. `types`: of fields whose type or unit the list states, such as
    `money GBP`.
    """

    id: int
    worker: UUID
    claim_no: int
    list_id: int
    company: str
    name: str | None
    extra: dict[str, str]
    attempts: int
    losses: int
    faults: int
    service: str
    options: dict[str, str]
    fields: list[str]
    required: list[str]
    max_attempts: int
    max_faults: int
    run_seconds: int
    key_id: int | None = None
    reuses: bool = False
    is_probe: bool = False
    types: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Claimed:
    """What a claim brought. `room`: for how many jobs the keys had headroom; at 0 the keys are the brake."""

    claims: list[Claim]
    room: int


@dataclass(slots=True)
class Settlement:
    """How a holder leaves a job. `result` is JSON text, there exactly when the job is done.

    A job that goes back keeps its place in the queue, or runs after `pause_seconds`. `tried` and `faulted`
    are what it costs: an attempt of the company, a fault of the service. Its losses begin anew: whoever
    settles has survived it.
    """

    id: int
    worker: UUID
    claim_no: int
    status: Status
    outcome: Outcome | None = None
    cause: str | None = None
    message: str | None = None
    result: str | None = None
    pause_seconds: float | None = None
    tried: int = 0
    faulted: int = 0


def claim(
    conn: psycopg.Connection,
    worker: UUID,
    service: str,
    key_set: str | None,
    *,
    n: int,
    soon_seconds: float,
    waiting: int = 0,
    tokens: float = 0.0,
    locked: Collection[bytes] = (),
    keyless: bool = False,
) -> Claimed:
    """Take up to `n` due jobs of the service, oldest first, no more than its usable keys have headroom for.

    Headroom: the permits that the worker's keys will have within `soon_seconds`, less the jobs that wait for
    one. `waiting`: how many of its own do. Others' jobs are taken to wait when they were claimed that lately;
    what they have held for longer, they count themselves. `tokens`: what a call is thought to cost.
    `locked`: secrets, as they are stored, that the worker cannot open; their keys are not the worker's.
    `keyless`: the service is asked without a key, and nothing but `n` bounds the batch.
    """
    asked = {
        "worker": worker,
        "service": service,
        "key_set": key_set,
        "n": n,
        "soon": soon_seconds,
        "waiting": waiting,
        "tokens": tokens,
        "locked": list(locked),
        "keyless": keyless,
    }
    with psycopg.RawCursor(conn) as cursor:
        rows = cursor.execute(_CLAIM, [asked[name] for name in _ASKED]).fetchall()
    claims = [Claim(row[1], worker, *row[2:]) for row in rows if row[1] is not None]
    claims.sort(key=attrgetter("id"))
    return Claimed(claims, room=rows[0][0] if rows else 0)


def release(conn: psycopg.Connection, worker: UUID, claimed: Mapping[int, int]) -> int:
    """Give back jobs that a worker never heard it had claimed, by id and claim number; returns how many."""
    given = {"worker": worker, "id": list(claimed), "claim_no": list(claimed.values())}
    row = conn.execute(RELEASE, given).fetchone()
    return int(row[0]) if row else 0


def settle(
    conn: psycopg.Connection,
    settlements: Sequence[Settlement],
    *,
    answers: Sequence[KeptAnswer] = (),
    calls: Sequence[Call] = (),
    now: float = 0.0,
    again: bool = False,
) -> set[int]:
    """Write back what a worker is done with, in one statement; returns the ids of the claims it had lost.

    Answers and calls are kept whoever holds the job now. `now` is on the clock of `Call.sent_at`. `again`: a
    try before may have been written, so what is there already is left alone, and its claim was not lost.
    Raises `psycopg.DataError` or `psycopg.IntegrityError`, and nothing is written, when one row cannot be
    stored.
    """
    given = columns(settlements) | answer_columns(answers) | call_columns(calls, now) | {"again": again}
    written = conn.execute(SETTLE, given).fetchall()
    return {s.id for s in settlements} - {row[0] for row in written}


def columns(settlements: Sequence[Settlement]) -> dict[str, list[object]]:
    """The settlements as the parameters of `SETTLE`."""
    return {
        "id": [s.id for s in settlements],
        "worker": [s.worker for s in settlements],
        "claim_no": [s.claim_no for s in settlements],
        "status": [s.status.value for s in settlements],
        "outcome": _column(s.outcome.value if s.outcome else None for s in settlements),
        "cause": _column(s.cause for s in settlements),
        "message": _column(text(s.message, MAX_MESSAGE) if s.message else None for s in settlements),
        "result": _column(s.result for s in settlements),
        "pause": _column(s.pause_seconds for s in settlements),
        "tried": [s.tried for s in settlements],
        "faulted": [s.faulted for s in settlements],
    }


def _column(values: Iterable[object]) -> list[object]:
    """The values, or none when all are None: `unnest` fills up the shorter columns."""
    column = list(values)
    return column if any(value is not None for value in column) else []
