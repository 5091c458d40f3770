"""What is used of the limits of each key, for pages that are looked at all the time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import psycopg
from psycopg.rows import class_row

from store.accounts import AS_LIMIT, limits_said
from store.allowances import IN_USE
from store.limits import Limit

SEE = f"""
SELECT k.id, k.service, k.label, a.name AS account, k.fingerprint,
       CASE WHEN k.state = 'active' AND a.rest_until > extract(epoch FROM now())
            THEN 'resting' ELSE k.state END AS state,
       CASE WHEN a.rest_until > extract(epoch FROM now())
            THEN to_timestamp(a.rest_until) END AS rest_until,
       a.rest_cause, k.last_error,
       CASE WHEN k.used_at > 0 THEN to_timestamp(k.used_at) END AS used_at,
       l.said, l.used, k.key_set, k.created_at
FROM key k JOIN account a ON a.id = k.account_id
JOIN (SELECT w.account_id, array_agg({AS_LIMIT} ORDER BY w.no) AS said,
             array_agg(({IN_USE})::int ORDER BY w.no) AS used
      FROM allowance w GROUP BY w.account_id) l ON l.account_id = a.id
ORDER BY k.service, k.label
"""


@dataclass(frozen=True, slots=True)
class KeyUse:
    """What a key's limits have used in their windows, read from the ledger alone, not from the calls."""

    id: int
    service: str
    label: str
    account: str
    fingerprint: str
    state: str
    rest_until: datetime | None
    rest_cause: str | None
    last_error: str | None
    used_at: datetime | None
    said: list[list[Any]]
    used: list[int]
    key_set: str | None
    created_at: datetime

    @property
    def is_usable(self) -> bool:
        """Now, or by itself after a rest."""
        return self.state in ("active", "resting")

    @property
    def limits(self) -> list[tuple[Limit, int]]:
        """Each limit with how much of it is used now."""
        return list(zip(limits_said(self.said), self.used, strict=True))

    @property
    def tightest(self) -> tuple[Limit, int]:
        """The limit of which most is used, and how much that is."""
        return max(self.limits, key=lambda one: one[1] / one[0].amount)


def see(conn: psycopg.Connection) -> list[KeyUse]:
    """All keys, with what is used of their limits now."""
    with conn.cursor(row_factory=class_row(KeyUse)) as cursor:
        return cursor.execute(SEE).fetchall()
