"""What answers, and people, tell the ledger: what is left, what a call has cost, who is to rest.

Of what a good answer says is left for an account we take over what is less than we think: somebody else may
use the same key. Their calls are written into the log of permits as if they were ours, so that they leave it
when the service's own window does; the ledger then paces by what is really left.
"""

from __future__ import annotations

import psycopg

from store.allowances import IN_USE, leaves
from store.slots import NOW

# Of an account's limits of this unit the tightest whose window lasts at least until the reset: there the
# others' use is counted until the reset.
COUNT_OTHERS = f"""
UPDATE allowance w SET
    until = w.until || {NOW} + %(reset)s::float8 + w.guard_seconds,
    used = w.used || (w.amount - %(left)s - {IN_USE})::int
WHERE w.account_id = %(account_id)s AND w.kind = %(unit)s
  AND w.no = (
    SELECT no FROM allowance
    WHERE account_id = %(account_id)s AND kind = %(unit)s AND per_seconds >= %(reset)s
    ORDER BY per_seconds, no LIMIT 1)
  AND w.amount - {IN_USE} > %(left)s
"""

# Nothing is left. When our own log says so too, its next permit comes in time, and this is no news.
REST_IF_ROOM = f"""
UPDATE account a SET rest_until = {NOW} + %(rest)s, rest_cause = %(cause)s
WHERE a.id = %(account_id)s AND a.rest_until < {NOW} + %(rest)s
  AND NOT EXISTS (
    SELECT FROM allowance w WHERE w.account_id = a.id AND w.kind = %(unit)s AND w.per_seconds >= %(reset)s
    AND w.amount <= {IN_USE})
"""

# A log that the entry has left is left alone: what it counted is over.
CORRECT = f"""
UPDATE allowance w SET used[array_position(w.until, {leaves("%(at)s::float8", "w")})] = greatest(0,
    w.used[array_position(w.until, {leaves("%(at)s::float8", "w")})]
    + %(actual)s - least(%(estimated)s, w.amount))
WHERE w.account_id = %(account_id)s AND w.kind = 'tokens'
  AND array_position(w.until, {leaves("%(at)s::float8", "w")}) IS NOT NULL
"""

# Bounds what a service may ask for, in SQL because there NaN is the largest number.
BOUNDED = "least({}, 366 * 86400.0)"
SECONDS = BOUNDED.format("%(seconds)s::float8")

REST_ACCOUNT = f"""
UPDATE account SET rest_until = extract(epoch FROM clock_timestamp()) + {SECONDS}, rest_cause = %(cause)s
WHERE id = %(account_id)s AND rest_until < extract(epoch FROM clock_timestamp()) + {SECONDS}
"""

# A person's word counts, also when it shortens a rest.
REST_ANEW = f"""
UPDATE account SET rest_until = extract(epoch FROM clock_timestamp()) + {SECONDS}, rest_cause = %(cause)s
WHERE id = (SELECT account_id FROM key WHERE id = %(key_id)s AND state = 'active')
"""

END_REST_IF_RESTING = """
UPDATE account SET rest_until = 0, rest_cause = NULL
WHERE id = (SELECT account_id FROM key WHERE id = %s) AND rest_until > extract(epoch FROM clock_timestamp())
"""

REST_SERVICE = f"""
UPDATE service SET rest_until = clock_timestamp() + {SECONDS} * interval '1 second', rest_cause = %(cause)s
WHERE name = %(service)s AND rest_until < clock_timestamp() + {SECONDS} * interval '1 second'
"""


def lower(conn: psycopg.Connection, account_id: int, unit: str, left: int, reset_seconds: float) -> bool:
    """No more than `left` until the reset, whatever the ledger thinks. False: it thinks so, or less."""
    asked = {"account_id": account_id, "unit": unit, "left": left, "reset": reset_seconds}
    return conn.execute(COUNT_OTHERS, asked).rowcount == 1


def rest_used_up(
    conn: psycopg.Connection,
    account_id: int,
    unit: str,
    reset_seconds: float,
    rest_seconds: float,
    cause: str,
) -> bool:
    """Let an account rest with which nothing is left until the reset. False: the ledger knew, or it rests.

    `rest_seconds`: the same time with its jitter.
    """
    asked = {
        "account_id": account_id,
        "unit": unit,
        "reset": reset_seconds,
        "rest": rest_seconds,
        "cause": cause,
    }
    return conn.execute(REST_IF_ROOM, asked).rowcount == 1


def correct(conn: psycopg.Connection, account_id: int, at: float, *, estimated: int, actual: int) -> bool:
    """A call reserved for the time `at` cost other tokens than thought. False: it counts no more."""
    given = {"account_id": account_id, "at": at, "estimated": estimated, "actual": actual}
    return conn.execute(CORRECT, given).rowcount > 0


def rest_account(conn: psycopg.Connection, account_id: int, seconds: float, cause: str) -> bool:
    """Let the account rest. False: it rests longer already; an answer never shortens a rest."""
    return (
        conn.execute(REST_ACCOUNT, {"account_id": account_id, "seconds": seconds, "cause": cause}).rowcount
        == 1
    )


def rest_key(conn: psycopg.Connection, key_id: int, seconds: float, cause: str) -> bool:
    """A person lets a key rest, and with it its account, for exactly so long. False: it is not in use."""
    return conn.execute(REST_ANEW, {"key_id": key_id, "seconds": seconds, "cause": cause}).rowcount == 1


def end_rest(conn: psycopg.Connection, key_id: int) -> bool:
    """A person ends the rest of a key's account. False: it does not rest."""
    return conn.execute(END_REST_IF_RESTING, (key_id,)).rowcount == 1


def rest_service(conn: psycopg.Connection, service: str, seconds: float, cause: str) -> bool:
    """Stop claims for the service for a while, whatever the key. False: it rests longer already."""
    return conn.execute(REST_SERVICE, {"service": service, "seconds": seconds, "cause": cause}).rowcount == 1
