"""Accounts: the limits that keys share. What is left of them is `store.ledger`'s."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.errors import InvalidParameterValue

from store.limits import BadLimit, Kind, Limit

ENSURE_SERVICE = "INSERT INTO service (name) VALUES (%s) ON CONFLICT DO NOTHING"

ADD_ACCOUNT = "INSERT INTO account (service, name) VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING id"

# A statement of its own: in the one above, an account that was added at the same moment cannot be seen.
FIND_ACCOUNT = "SELECT id FROM account WHERE service = %s AND name = %s"

ADD_LIMIT = """
INSERT INTO allowance (account_id, no, amount, per_seconds, kind, spread, from_minute, zone,
                       guard_seconds, grain_seconds)
SELECT g.*, %s, %s FROM (VALUES (%s::int, %s::int, %s::int, %s::int, %s, %s, %s::int, %s)) AS g
WHERE clock_timestamp() AT TIME ZONE coalesce(g.column8, 'UTC') IS NOT NULL  -- else nobody could reserve
"""

# A limit as `Limit` takes it.
AS_LIMIT = "jsonb_build_array(w.amount, w.per_seconds::int, w.kind, w.spread, w.from_minute, w.zone)"

LIMITS_OF = f"SELECT {AS_LIMIT} FROM allowance w WHERE w.account_id = %s ORDER BY w.no"


class LimitsDiffer(ValueError):
    """The account has other limits than the ones given; keys of one account share its limits."""


def ensure(conn: psycopg.Connection, service: str, name: str, limits: Sequence[Limit]) -> int:
    """The service's account of this name, made when there is none; returns its id. In a transaction.

    Raises `LimitsDiffer`, and `BadLimit` when the database does not know a limit's time zone.
    """
    conn.execute(ENSURE_SERVICE, (service,))
    added = conn.execute(ADD_ACCOUNT, (service, name)).fetchone()
    if added is not None:
        for no, limit in enumerate(limits):
            _add_limit(conn, added[0], no, limit)
        return int(added[0])
    (account_id,) = conn.execute(FIND_ACCOUNT, (service, name)).fetchall()[0]
    there = limits_said([row[0] for row in conn.execute(LIMITS_OF, (account_id,))])
    if there != list(limits):
        raise LimitsDiffer(
            f"Account “{name}” of {service} has {', '.join(map(str, there))}, and its keys share them."
            f" Give the same limits, or another account. Nothing was added."
        )
    return int(account_id)


def limits_said(said: Sequence[Sequence[Any]]) -> list[Limit]:
    """The limits of rows made with `AS_LIMIT`."""
    return [Limit(amount, per, Kind(kind), *more) for amount, per, kind, *more in said]


def _add_limit(conn: psycopg.Connection, account_id: int, no: int, limit: Limit) -> None:
    said = (limit.amount, limit.per_seconds, limit.kind, limit.is_spread, limit.from_minute, limit.zone)
    try:
        conn.execute(ADD_LIMIT, (limit.guard_seconds, limit.grain_seconds, account_id, no, *said))
    except InvalidParameterValue:
        raise BadLimit(
            f"The database does not know the time zone “{limit.zone}”. Nothing was added."
        ) from None
