"""Keys as people see and steer them. What a key may do when is `store.ledger`'s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import class_row

from store import accounts
from store.accounts import AS_LIMIT, limits_said
from store.allowances import IN_USE
from store.limits import Limit
from store.vault import Locked, Vault, fingerprint

ADD_KEY = """
INSERT INTO key (account_id, service, label, key_set, secret, fingerprint)
VALUES (%(account_id)s, %(service)s, %(label)s, %(key_set)s, %(secret)s, %(fingerprint)s)
ON CONFLICT DO NOTHING RETURNING id
"""

TAKEN = """
SELECT label FROM key WHERE service = %(service)s AND (label = %(label)s OR fingerprint = %(fingerprint)s)
"""

SET_STATE_IF_ACTIVE = """
UPDATE key SET state = %(state)s, last_error = %(message)s
WHERE id = %(key_id)s AND state = 'active' AND (%(mark)s::text IS NULL OR fingerprint = %(mark)s)
"""

ROTATE = """
UPDATE key SET secret = %(secret)s, fingerprint = %(mark)s, state = 'active', last_error = NULL
WHERE id = %(key_id)s AND NOT EXISTS (
    SELECT FROM key o WHERE o.service = key.service AND o.fingerprint = %(mark)s)
"""

WHOSE = """
SELECT o.label, o.id = k.id FROM key k JOIN key o ON o.service = k.service AND o.fingerprint = %(mark)s
WHERE k.id = %(key_id)s
"""

PROVE = """
UPDATE key SET state = 'active', last_error = NULL WHERE id = %s AND state IN ('invalid', 'exhausted')
"""

SEE = f"""
SELECT k.id, k.service, k.label, a.name AS account, k.key_set, k.fingerprint,
       CASE WHEN k.state = 'active' AND a.rest_until > extract(epoch FROM clock_timestamp())
            THEN 'resting' ELSE k.state END AS state,
       greatest(a.rest_until - extract(epoch FROM clock_timestamp()), 0)::float8 AS rest_seconds,
       CASE WHEN k.state = 'active' AND a.rest_until > extract(epoch FROM clock_timestamp())
            THEN a.rest_cause ELSE k.last_error END AS last_error,
       coalesce(c.calls, 0) AS calls, coalesce(c.limited, 0) AS rate_limited,
       ARRAY(SELECT {AS_LIMIT} FROM allowance w WHERE w.account_id = a.id ORDER BY w.no) AS said,
       ARRAY(SELECT ({IN_USE})::int FROM allowance w WHERE w.account_id = a.id ORDER BY w.no) AS used
FROM key k JOIN account a ON a.id = k.account_id
LEFT JOIN LATERAL (
    SELECT count(*) AS calls, count(*) FILTER (WHERE verdict = 'key_rests') AS limited
    FROM call WHERE key_id = k.id AND sent_at > now() - interval '1 hour') c ON true
ORDER BY k.service, k.label
"""


class KeyTaken(ValueError):
    """The label or the secret is there already; the text says which key it is."""


@dataclass(frozen=True, slots=True)
class KeySeen:
    """A key as it may be shown: never its secret. `calls` and `rate_limited` are of the last hour."""

    id: int
    service: str
    label: str
    account: str
    key_set: str | None
    fingerprint: str
    state: str
    rest_seconds: float
    last_error: str | None
    calls: int
    rate_limited: int
    said: list[list[Any]]
    used: list[int]

    @property
    def is_usable(self) -> bool:
        """Now, or by itself after a rest."""
        return self.state in ("active", "resting")

    @property
    def limits(self) -> list[Limit]:
        return limits_said(self.said)


def add(
    conn: psycopg.Connection,
    vault: Vault,
    *,
    service: str,
    label: str,
    secret: str,
    limits: Sequence[Limit],
    account: str | None = None,
    key_set: str | None = None,
) -> int:
    """Add a key; returns its id. Without `account` it is an account of its own. Call inside a transaction.

    Raises `KeyTaken` when label or secret is there already, `LimitsDiffer` when the account has others,
    `BadLimit` when the database does not know a limit's time zone.
    """
    if not limits:
        raise ValueError("a key needs at least one limit")
    mark = fingerprint(secret)
    taken = conn.execute(TAKEN, {"service": service, "label": label, "fingerprint": mark}).fetchone()
    if taken is not None:
        what = "This label is taken" if taken[0] == label else "This secret is there already"
        raise KeyTaken(f"{what}: key “{taken[0]}” of {service}. Nothing was added.")
    account_id = accounts.ensure(conn, service, account or label, limits)
    row = conn.execute(
        ADD_KEY,
        {
            "account_id": account_id,
            "service": service,
            "label": label,
            "key_set": key_set,
            "secret": vault.seal(secret),
            "fingerprint": mark,
        },
    ).fetchone()
    if row is None:
        raise KeyTaken(f"Somebody added key “{label}” of {service} at the same moment. Nothing was added.")
    return int(row[0])


def rotate(conn: psycopg.Connection, vault: Vault, key_id: int, secret: str) -> bool:
    """Give the key another secret and take it into use, whatever it was. False: there is no such key.

    What is said later of the secret before does not count. Raises `KeyTaken` when a key of the service has
    this secret, itself included.
    """
    values = {"key_id": key_id, "secret": vault.seal(secret), "mark": fingerprint(secret)}
    try:
        with conn.transaction():
            if conn.execute(ROTATE, values).rowcount == 1:
                return True
    except psycopg.errors.UniqueViolation:  # somebody gave it to another key at the same moment
        pass
    row = conn.execute(WHOSE, values).fetchone()
    if row is None:
        return False
    label, is_itself = row
    whose = "has this secret already" if is_itself else "of the same service has this secret"
    raise KeyTaken(f"The key “{label}” {whose}. Nothing was changed.")


def reject(conn: psycopg.Connection, key_id: int, message: str, mark: str | None = None) -> bool:
    """The service does not accept the key: nobody uses it any more. False: it was not active.

    `mark`: the fingerprint of the secret that was refused; when the key has another by now, nothing changes.
    """
    return _leave_active(conn, key_id, "invalid", message, mark)


def exhaust(conn: psycopg.Connection, key_id: int, message: str, mark: str | None = None) -> bool:
    """The key's quota is used up: nobody uses it any more. False: it was not active. `mark`: as above."""
    return _leave_active(conn, key_id, "exhausted", message, mark)


def disable(conn: psycopg.Connection, key_id: int) -> bool:
    """A person takes the key out of use. False: it was not active."""
    return _leave_active(conn, key_id, "disabled", None, None)


def enable(conn: psycopg.Connection, key_id: int) -> bool:
    """A person takes the key into use again. False: it is active."""
    found = conn.execute(
        "UPDATE key SET state = 'active', last_error = NULL WHERE id = %s AND state <> 'active'", (key_id,)
    )
    return found.rowcount == 1


def prove(conn: psycopg.Connection, key_id: int) -> bool:
    """A test of the key succeeded: one that was rejected or exhausted is in use again. False: it was not."""
    return conn.execute(PROVE, (key_id,)).rowcount == 1


def _leave_active(
    conn: psycopg.Connection, key_id: int, state: str, message: str | None, mark: str | None
) -> bool:
    values = {"key_id": key_id, "state": state, "message": message, "mark": mark}
    return conn.execute(SET_STATE_IF_ACTIVE, values).rowcount == 1


def see(conn: psycopg.Connection) -> list[KeySeen]:
    """All keys with what their limits have used in the current windows."""
    with conn.cursor(row_factory=class_row(KeySeen)) as cursor:
        return cursor.execute(SEE).fetchall()


def locked(conn: psycopg.Connection, vault: Vault) -> list[tuple[str, str]]:
    """Service and label of every key that the vault's master keys do not open. No secret leaves here."""
    found = []
    for service, label, secret in conn.execute(
        "SELECT service, label, secret FROM key ORDER BY service, label"
    ):
        try:
            vault.open(secret)
        except Locked:
            found.append((service, label))
    return found


def reseal(conn: psycopg.Connection, vault: Vault) -> int:
    """Encrypt every secret with the first master key, all or none; returns how many. Raises `Locked`."""
    with conn.transaction():
        sealed = conn.execute("SELECT id, secret FROM key ORDER BY id FOR UPDATE").fetchall()
        with conn.cursor() as cursor:
            cursor.executemany(
                "UPDATE key SET secret = %s WHERE id = %s",
                [(vault.reseal(secret), key_id) for key_id, secret in sealed],
            )
    return len(sealed)
