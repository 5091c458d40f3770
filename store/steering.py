"""What a good answer says is left for an account, taken into the ledger when it is less than we think.

Somebody else may use the same key. Their calls are written into the log of permits as if they were ours, so
that they leave it when the service's own window does; the ledger then paces by what is really left.
"""

from __future__ import annotations

import psycopg

from store.allowances import IN_USE
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
