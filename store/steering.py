"""What a good answer says is left for an account, taken into the ledger when it is less than we think.

Somebody else may use the same key. Their calls are written into the log of permits as if they were ours, so
that they leave it when the service's own window does; the ledger then paces by what is really left.
"""

from __future__ import annotations

import psycopg

# Of an account's limits of this unit the tightest whose window lasts at least until the reset: there the
# others' use is counted, as of a moment from which it leaves the window at the reset.
COUNT_OTHERS = """
UPDATE allowance w SET
    at = w.at || extract(epoch FROM clock_timestamp())::float8 + %(reset)s::float8 - w.per_seconds,
    used = w.used || (w.amount - %(left)s - coalesce((
        SELECT sum(u.used) FROM unnest(w.at, w.used) AS u(at, used)
        WHERE u.at > extract(epoch FROM clock_timestamp()) - w.per_seconds), 0))::int
WHERE w.account_id = %(account_id)s AND w.kind = %(unit)s
  AND w.no = (
    SELECT no FROM allowance
    WHERE account_id = %(account_id)s AND kind = %(unit)s AND per_seconds >= %(reset)s
    ORDER BY per_seconds, no LIMIT 1)
  AND w.amount - coalesce((
        SELECT sum(u.used) FROM unnest(w.at, w.used) AS u(at, used)
        WHERE u.at > extract(epoch FROM clock_timestamp()) - w.per_seconds), 0) > %(left)s
"""

# Nothing is left. When our own log says so too, its next permit comes in time, and this is no news.
REST_IF_ROOM = """
UPDATE account a SET rest_until = extract(epoch FROM clock_timestamp()) + %(rest)s, rest_cause = %(cause)s
WHERE a.id = %(account_id)s AND a.rest_until < extract(epoch FROM clock_timestamp()) + %(rest)s
  AND NOT EXISTS (
    SELECT FROM allowance w WHERE w.account_id = a.id AND w.kind = %(unit)s AND w.per_seconds >= %(reset)s
    AND w.amount <= coalesce((
        SELECT sum(u.used) FROM unnest(w.at, w.used) AS u(at, used)
        WHERE u.at > extract(epoch FROM clock_timestamp()) - w.per_seconds), 0))
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
