"""The key ledger: how many calls each account may still make, on the database's clock.

An account keeps, per limit, a log of the permits it has handed out. A permit is the right to send one
call between `at` and `at + slack_seconds`; a limit of N per T hands out the next one when the N-th newest
has left the window T plus a guard. The guard covers what lies between the permit and the service's own
clock: the slack, and jitter on the way. Reserving is one statement that locks every row it reads; a
permit that was handed out and not used is lost, never lent twice.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import psycopg

# Of a key `k`: the asker's key set has it, and its secret is none of those that the asker cannot open.
USABLE_BY_ASKER = """
    (%(key_set)s::text IS NULL OR k.key_set = %(key_set)s) AND k.secret <> ALL (%(locked)s::bytea[])"""

# The same of the one key that is asked for, if one is: to be tested it need not be accepted any more.
RESERVABLE = f"""
    CASE WHEN %(key_id)s::int IS NULL THEN k.state = 'active'
         ELSE k.id = %(key_id)s AND k.state <> 'disabled' END AND {USABLE_BY_ASKER}"""

RESERVE = f"""
WITH chosen AS MATERIALIZED (
    SELECT k.id AS key_id, k.label, k.secret, k.fingerprint, a.id, a.rest_until
    FROM key k JOIN account a ON a.id = k.account_id
    WHERE a.service = %(service)s AND {RESERVABLE}
    ORDER BY greatest(  -- who can serve first; of those who can now, the least loaded. Unlocked: a guess
            extract(epoch FROM statement_timestamp()) + %(ahead)s, a.rest_until,
            (SELECT max(n.at + w.per_seconds + w.guard_seconds) FROM allowance w CROSS JOIN LATERAL (
                SELECT e.at, sum(e.used) OVER (ORDER BY e.at DESC) AS upto
                FROM unnest(w.at, w.used) AS e(at, used)) n
             WHERE w.account_id = a.id AND w.kind = 'calls' AND n.upto >= w.amount)),
        a.load_until, a.seen, k.used_at
    LIMIT 1 FOR UPDATE OF a, k SKIP LOCKED),
limits AS MATERIALIZED (
    SELECT w.* FROM allowance w JOIN chosen c ON w.account_id = c.id
    WHERE w.kind = 'calls' ORDER BY w.no FOR UPDATE OF w),
clock AS MATERIALIZED (  -- read after the locks: a time from before them would be too early
    SELECT extract(epoch FROM clock_timestamp())::float8 AS now, count(*) FROM limits),
entry AS MATERIALIZED (  -- newest first: `upto` permits were handed out at this time or later
    SELECT l.no, l.amount, l.per_seconds + l.guard_seconds AS span, e.at,
           sum(e.used) OVER (PARTITION BY l.no ORDER BY e.at DESC) AS upto
    FROM limits l, clock, unnest(l.at, l.used) AS e(at, used)
    WHERE e.at > clock.now - l.per_seconds - l.guard_seconds),
permit AS MATERIALIZED (  -- the j-th new one waits until the (amount - j + 1)-th newest has left
    SELECT j, greatest(clock.now, c.rest_until, (
        SELECT max(left_at) FROM (
            SELECT max(at) + span AS left_at FROM entry WHERE upto > amount - j GROUP BY no, span) f)) AS at
    FROM clock, chosen c, generate_series(1, least(%(want)s, (SELECT min(amount) FROM limits))) AS j),
granted AS MATERIALIZED (
    SELECT permit.at FROM permit, clock WHERE permit.at <= clock.now + %(ahead)s),
written AS (
    UPDATE allowance w SET (at, used) = (
        SELECT array_agg(s.at ORDER BY s.at), array_agg(s.used ORDER BY s.at) FROM (
            SELECT u.at, sum(u.used)::int AS used FROM (
                SELECT e.at, e.used FROM unnest(l.at, l.used) AS e(at, used)
                WHERE e.at > clock.now - l.per_seconds - l.guard_seconds
                UNION ALL
                SELECT CASE WHEN l.grain_seconds > 0 THEN ceil(g.at / l.grain_seconds) * l.grain_seconds
                            ELSE g.at END, 1 FROM granted g) u
            GROUP BY u.at) s)
    FROM limits l, clock
    WHERE w.account_id = l.account_id AND w.no = l.no AND EXISTS (SELECT FROM granted)),
charged AS (
    UPDATE account a SET seen = clock.now,
        load_until = greatest(clock.now, a.load_until)
                   + (SELECT count(*) FROM granted) * (SELECT max(per_seconds / amount) FROM limits)
    FROM chosen c, clock WHERE a.id = c.id),
noted AS (
    UPDATE key k SET used_at = clock.now FROM chosen c, clock
    WHERE k.id = c.key_id AND EXISTS (SELECT FROM granted))
SELECT c.key_id, c.id, c.label, c.secret, c.fingerprint,
       ARRAY(SELECT at - clock.now FROM granted ORDER BY at),
       (SELECT min(guard_seconds) FROM limits),
       (SELECT min(at) FROM permit) - clock.now
FROM chosen c, clock
"""

# Asked when no row could be locked: is there a usable key at all?
USABLE = f"""
SELECT EXISTS (SELECT FROM key k WHERE k.service = %(service)s AND {RESERVABLE})
"""

# Of a limit `w`: the permits that will still be in its window in `soon` seconds.
USED = """coalesce((
            SELECT sum(e.used) FROM unnest(w.at, w.used) AS e(at, used)
            WHERE e.at + w.per_seconds + w.guard_seconds
                > extract(epoch FROM clock_timestamp()) + %(soon)s), 0)"""

# Of a key `k` and its account `a`, for a statement that claims: it can be tested within `soon` seconds.
TESTABLE = f"""
    k.state <> 'disabled' AND {USABLE_BY_ASKER}
    AND a.rest_until <= extract(epoch FROM clock_timestamp()) + %(soon)s
    AND NOT EXISTS (SELECT FROM allowance w
                    WHERE w.account_id = a.id AND w.kind = 'calls' AND w.amount <= {USED})"""

# For a statement that claims: the permits that usable accounts will have within `soon` seconds.
HEADROOM = f"""
headroom AS MATERIALIZED (
    SELECT coalesce(sum(free), 0) AS permits FROM (
        SELECT min(w.amount - {USED}) AS free
        FROM account a JOIN allowance w ON w.account_id = a.id
        WHERE a.service = %(service)s AND w.kind = 'calls'
          AND a.rest_until <= extract(epoch FROM clock_timestamp()) + %(soon)s
          AND EXISTS (SELECT FROM key k WHERE k.account_id = a.id AND k.state = 'active'
                      AND {USABLE_BY_ASKER})
        GROUP BY a.id) f)
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

# The slack is a third of the guard: the rest is for jitter between our socket and the service's clock.
SLACK_SHARE = 1 / 3


@dataclass(frozen=True, slots=True)
class Reservation:
    """Permits of one key. `in_seconds`: when each may be sent, counted from the database's answer.

    A permit is past its use when `slack_seconds` have gone by since then. `wait_seconds`: when the first
    permit could be had; with no permits in hand, ask again after that long.
    """

    key_id: int
    account_id: int
    label: str
    secret: bytes
    fingerprint: str
    in_seconds: tuple[float, ...]
    slack_seconds: float
    wait_seconds: float


@dataclass(frozen=True, slots=True)
class Busy:
    """Somebody else is at every usable account this instant; ask again in a few milliseconds."""


@dataclass(frozen=True, slots=True)
class NoKey:
    """No key of the service may be used: none was added, or all are invalid, exhausted or disabled."""


def reserve(
    conn: psycopg.Connection,
    service: str,
    key_set: str | None,
    want: int,
    ahead_seconds: float,
    locked: Collection[bytes] = (),
    key_id: int | None = None,
) -> Reservation | Busy | NoKey:
    """Reserve up to `want` permits of the least loaded usable key, at most `ahead_seconds` ahead.

    `want` is capped by the smallest limit. `locked`: secrets, as they are stored, that the asker cannot open.
    `key_id`: of this key alone, to test it, rejected or not. Commit before using them.
    """
    asked = {"service": service, "key_set": key_set, "locked": list(locked), "key_id": key_id}
    row = conn.execute(RESERVE, {**asked, "want": want, "ahead": ahead_seconds}).fetchone()
    if row is not None:
        key_id, account_id, label, secret, mark, in_seconds, guard_seconds, wait_seconds = row
        return Reservation(
            key_id,
            account_id,
            label,
            secret,
            mark,
            tuple(in_seconds),
            guard_seconds * SLACK_SHARE,
            wait_seconds,
        )
    usable = conn.execute(USABLE, asked).fetchone()
    return Busy() if usable and usable[0] else NoKey()


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
