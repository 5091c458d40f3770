"""The circuit of a service: while the service does not answer, one job at a time tries and nothing else runs.

A circuit is part of its service's row, so all workers share it. Failures alone are counted there: good calls
cost nothing, and whether there were any is read from the log of calls before a circuit opens. A probe is a
claim (`store.claims` hands it out); it is under way exactly as long as that claim holds its job, so a probe
whose worker dies is free again with the job, without anybody's help.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import psycopg
from psycopg.rows import class_row

from store.jobs import WAKE

LEAST_FAILURES = 5
WINDOW_SECONDS = 10.0
# Good calls are logged within a quarter of a second; a worker whose own network is cut fails faster.
LOG_LAG_SECONDS = 0.5
FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 120.0
JITTER = 0.2
# A claim that hands out a probe lets the service rest so long, which holds the others back and not the probe.
PROBE_SECONDS = 1.0


class Circuit(StrEnum):
    """How a service is called: freely, not at all until its pause is over, or by one job that tries."""

    CLOSED = "closed"
    OPEN = "open"
    PROBING = "probing"


@dataclass(frozen=True, slots=True)
class Move:
    """`name` is the function, here or in `store`, that makes the move."""

    name: str
    before: Circuit
    after: Circuit
    meaning: str


MOVES: tuple[Move, ...] = (
    Move("trip", Circuit.CLOSED, Circuit.OPEN, "most of the last calls of all workers failed"),
    Move("claim", Circuit.OPEN, Circuit.PROBING, "the pause is over and one job is let through"),
    Move("prove", Circuit.PROBING, Circuit.CLOSED, "the service answered it"),
    Move("fail", Circuit.PROBING, Circuit.OPEN, "it failed too: the pause doubles"),
    Move("settle", Circuit.PROBING, Circuit.OPEN, "the job ended, or went back, without a call"),
    Move("tick", Circuit.PROBING, Circuit.OPEN, "its worker is gone"),
)

# Of a service `s`: a job that tries is under way.
PROBING = """
    EXISTS (SELECT FROM job j WHERE j.id = s.probe_job AND j.claim_no = s.probe_claim_no
            AND j.status = 'in_progress')"""

COUNT_FAILURE = f"""
UPDATE service SET
    failures = CASE WHEN failing_since > clock_timestamp() - interval '{WINDOW_SECONDS} seconds'
               THEN failures + 1 ELSE 1 END,
    failing_since = CASE WHEN failing_since > clock_timestamp() - interval '{WINDOW_SECONDS} seconds'
                    THEN failing_since
                    ELSE clock_timestamp() - least(%(took)s, {LOG_LAG_SECONDS}) * interval '1 second' END
WHERE name = %(service)s AND opened_at IS NULL
RETURNING failures
"""

OPEN_IF_FAILING = f"""
UPDATE service s SET opened_at = clock_timestamp(), pause_seconds = {FIRST_PAUSE_SECONDS},
    rest_cause = %(cause)s,
    rest_until = greatest(s.rest_until, clock_timestamp()
        + {FIRST_PAUSE_SECONDS} * (1 - {JITTER} * random()) * interval '1 second')
WHERE s.name = %(service)s AND s.opened_at IS NULL AND s.failures >= {LEAST_FAILURES}
  AND s.failing_since <= clock_timestamp() - interval '{LOG_LAG_SECONDS} seconds'
  AND s.failures > (
    SELECT count(*) FROM key k CROSS JOIN LATERAL (
        SELECT FROM call c WHERE c.key_id = k.id AND c.sent_at > s.failing_since
        AND c.verdict <> 'service_failed' LIMIT 1000) answered
    WHERE k.service = s.name)
"""

# The moment that a probe holds others back for ends with it; a longer rest that was asked for stays.
CLOSE_IF_PROBED = f"""
UPDATE service SET opened_at = NULL, failures = 0, failing_since = 'epoch', pause_seconds = 0,
    probe_job = NULL, probe_claim_no = NULL,
    rest_until = CASE WHEN rest_until <= clock_timestamp() + interval '{PROBE_SECONDS} seconds'
                 THEN clock_timestamp() ELSE rest_until END
WHERE name = %(service)s AND probe_job = %(job)s AND probe_claim_no = %(claim_no)s
"""

PAUSE_IF_PROBED = f"""
UPDATE service SET pause_seconds = least(pause_seconds * 2, {LONGEST_PAUSE_SECONDS}), rest_cause = %(cause)s,
    probe_job = NULL, probe_claim_no = NULL,
    rest_until = greatest(rest_until, clock_timestamp() + least(pause_seconds * 2, {LONGEST_PAUSE_SECONDS})
                                      * (1 - {JITTER} * random()) * interval '1 second')
WHERE name = %(service)s AND probe_job = %(job)s AND probe_claim_no = %(claim_no)s
"""

END_REST_IF_RESTING = """
UPDATE service SET rest_until = clock_timestamp() WHERE name = %s AND rest_until > clock_timestamp()
"""

SEE = f"""
SELECT s.name, s.rest_cause, s.opened_at,
       CASE WHEN s.opened_at IS NULL THEN 'closed' WHEN {PROBING} THEN 'probing' ELSE 'open' END AS circuit,
       CASE WHEN s.rest_until > now() THEN s.rest_until END AS rest_until
FROM service s WHERE s.opened_at IS NOT NULL OR s.rest_until > now() ORDER BY s.name
"""


@dataclass(frozen=True, slots=True)
class ServiceSeen:
    """A service that is not called freely. `rest_until`: before then by nobody; None: it may be tried now.

    `opened_at`: since when it does not answer; None: it answers, and asked everybody to pause.
    """

    name: str
    rest_cause: str | None
    opened_at: datetime | None
    circuit: str
    rest_until: datetime | None


def trip(conn: psycopg.Connection, service: str, took_seconds: float, cause: str) -> Circuit:
    """Count a failed call, and open the circuit when most calls fail, whoever made them; how it is now.

    Most: at least five within ten seconds, more than were answered since the first of them.
    """
    asked = {"service": service, "took": took_seconds, "cause": cause}
    row = conn.execute(COUNT_FAILURE, asked).fetchone()
    if row is None:  # it was open before
        return Circuit.OPEN
    if row[0] >= LEAST_FAILURES and conn.execute(OPEN_IF_FAILING, asked).rowcount == 1:
        return Circuit.OPEN
    return Circuit.CLOSED


def prove(conn: psycopg.Connection, service: str, job: int, claim_no: int) -> bool:
    """The probe was answered: everybody may call again, at once. False: it is not the probe any more."""
    asked = {"service": service, "job": job, "claim_no": claim_no}
    is_closed = conn.execute(CLOSE_IF_PROBED, asked).rowcount == 1
    if is_closed:
        conn.execute(WAKE)
    return is_closed


def fail(conn: psycopg.Connection, service: str, job: int, claim_no: int, cause: str) -> bool:
    """The probe failed: the next one after twice the pause, at most two minutes. False: not the probe."""
    asked = {"service": service, "job": job, "claim_no": claim_no, "cause": cause}
    return conn.execute(PAUSE_IF_PROBED, asked).rowcount == 1


def end_rest(conn: psycopg.Connection, service: str) -> bool:
    """A person ends the rest; a circuit that is open tries at once. False: it does not rest."""
    has_ended = conn.execute(END_REST_IF_RESTING, (service,)).rowcount == 1
    if has_ended:
        conn.execute(WAKE)
    return has_ended


def see(conn: psycopg.Connection) -> list[ServiceSeen]:
    """The services that are not called freely now."""
    with conn.cursor(row_factory=class_row(ServiceSeen)) as cursor:
        return cursor.execute(SEE).fetchall()
