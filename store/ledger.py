"""The key ledger: how many calls each account may still make, on the database's clock.

An account keeps, per limit, a log of the permits it has handed out. A permit is the right to send one
call between `at` and `at + slack_seconds`, and needs its share of every limit: one call, so many tokens, one
slot of those that may run at once. It waits until what it needs has left each window, stretched by a guard.
The guard covers what lies between the permit and the service's own clock: the slack, and jitter on the way.
Reserving is one statement that locks every row it reads; a permit that was handed out and not used is lost,
never lent twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import psycopg

from store.allowances import LONGEST_PACE, MOST_AHEAD_SECONDS, leaves
from store.circuits import PROBE_SECONDS
from store.headroom import USABLE_BY_ASKER
from store.slots import NOW, OTHERS, UNKNOWN_HOLDER_SECONDS, WISHED_UNTIL, room_of

# Of a key `k`: the asker may use it. To be tested, as the one that is asked for, it need not be accepted any
# more.
RESERVABLE = f"""
    CASE WHEN %(key_id)s::int IS NULL THEN k.state = 'active'
         ELSE k.id = %(key_id)s AND k.state <> 'disabled' END AND {USABLE_BY_ASKER}"""

# Of a service `s`: the asker may not call it now. While it does not answer only a probe may.
RESTS = f"""
    CASE WHEN %(probes)s THEN s.rest_until > clock_timestamp() + interval '{PROBE_SECONDS} seconds'
         ELSE s.rest_until > clock_timestamp() OR s.opened_at IS NOT NULL END"""

# The asker's own calls that are under way at the account of an allowance `w`, and the room that leaves.
UNDER_WAY = """coalesce((
    SELECT b.n FROM unnest(%(accounts)s::int[], %(calling)s::int[]) AS b(id, n)
    WHERE b.id = w.account_id), 0)"""
SLOTS = room_of(UNDER_WAY)

# The slack is a third of the guard: the rest is for jitter between our socket and the service's clock.
SLACK_SHARE = 1 / 3

RESERVE = f"""
WITH chosen AS MATERIALIZED (
    SELECT k.id AS key_id, k.label, k.secret, k.fingerprint, a.id, a.rest_until, a.paced_until
    FROM key k JOIN account a ON a.id = k.account_id JOIN service s ON s.name = a.service
    WHERE a.service = %(service)s AND {RESERVABLE} AND NOT {RESTS}
    ORDER BY greatest(  -- who can serve first; of those who can now, the least loaded. Unlocked: a guess
            extract(epoch FROM statement_timestamp()) + %(ahead)s, a.rest_until, a.paced_until,
            (SELECT max(n.until) FROM allowance w CROSS JOIN LATERAL (
                SELECT e.until, sum(e.used) OVER (ORDER BY e.until DESC) AS upto
                FROM unnest(w.until, w.used) AS e(until, used)) n
             WHERE w.account_id = a.id AND CASE w.kind
                WHEN 'at_once' THEN (SELECT r.room FROM ({SLOTS}) r) < 1
                WHEN 'tokens' THEN n.upto > w.amount - least((%(tokens)s::int[])[1], w.amount)
                ELSE n.upto >= w.amount END)),
        a.load_until, a.seen, k.used_at
    LIMIT 1 FOR UPDATE OF a, k SKIP LOCKED),
limits AS MATERIALIZED (
    SELECT w.* FROM allowance w JOIN chosen c ON w.account_id = c.id ORDER BY w.no FOR UPDATE OF w),
clock AS MATERIALIZED (  -- read after the locks: a time from before them would be too early
    SELECT {NOW} AS now, count(*) FROM limits),
bound AS MATERIALIZED (
    SELECT w.*, w.per_seconds + w.guard_seconds AS span,
           CASE w.kind WHEN 'at_once' THEN s.room ELSE w.amount END AS room, s.part, {UNDER_WAY} AS under_way,
           {leaves(f"(clock.now + {MOST_AHEAD_SECONDS})", "w")} AS latest,
           CASE WHEN w.spread THEN clock.now + {MOST_AHEAD_SECONDS} + {LONGEST_PACE} END AS latest_turn
    FROM clock, limits w LEFT JOIN LATERAL ({SLOTS}) s ON w.kind = 'at_once'),
entry AS MATERIALIZED (  -- latest first: `upto` is used until then or later. The clock may have stepped back
    SELECT w.no, least(e.until, w.latest) AS until, e.used, e.until > w.latest AS is_ahead,
           sum(e.used) OVER (PARTITION BY w.no ORDER BY e.until DESC) AS upto
    FROM bound w, clock, unnest(w.until, w.used) AS e(until, used)
    WHERE w.kind <> 'at_once' AND e.until > clock.now),
need AS MATERIALIZED (  -- of the j-th call alone, and `upto` of the first j together
    SELECT no, j, kind, room, amount, spread, latest_turn, needs, needs * span / amount AS seconds,
           sum(needs) OVER (PARTITION BY no ORDER BY j) AS upto
    FROM (SELECT w.*, t.j, CASE w.kind WHEN 'tokens' THEN least(t.tokens, w.amount) ELSE 1 END AS needs
          FROM bound w, unnest(%(tokens)s::int[]) WITH ORDINALITY AS t(tokens, j)) n),
free AS MATERIALIZED (  -- the j-th waits until what all up to it need has left every window
    SELECT n.j, max(n.seconds) AS load, coalesce(max(n.seconds) FILTER (WHERE n.spread), 0) AS pace,
           greatest(clock.now, c.rest_until, max(e.until), least(c.paced_until, max(n.latest_turn))) AS at,
           bool_and(n.upto <= n.room) AS has_slot
    FROM chosen c, clock, need n LEFT JOIN entry e ON e.no = n.no AND e.upto > n.amount - n.upto
    GROUP BY n.j, clock.now, c.rest_until, c.paced_until
    HAVING bool_and(n.upto <= n.room OR n.kind = 'at_once')),
permit AS MATERIALIZED (  -- and, where it is spread, until its turn after the one before
    SELECT j, load, pace, has_slot, before + max(at - before) OVER (ORDER BY j) AS at FROM (
        SELECT *, sum(pace) OVER (ORDER BY j) - pace AS before FROM free) f),
soon AS MATERIALIZED (
    SELECT permit.* FROM permit, clock WHERE permit.at <= clock.now + %(ahead)s),
granted AS MATERIALIZED (SELECT * FROM soon WHERE has_slot),
written AS (
    UPDATE allowance w SET (until, used) = (
        SELECT coalesce(array_agg(u.until ORDER BY u.until), '{{}}'),
               coalesce(array_agg(u.used ORDER BY u.until), '{{}}') FROM (
            SELECT u.until, sum(u.used)::int AS used FROM (
                SELECT e.until, e.used FROM entry e WHERE e.no = l.no
                UNION ALL
                SELECT {leaves("g.at", "l")}, n.needs
                FROM granted g JOIN need n ON n.j = g.j AND n.no = l.no) u
            GROUP BY u.until HAVING sum(u.used) > 0) u)
    FROM bound l
    WHERE w.account_id = l.account_id AND w.no = l.no AND l.kind <> 'at_once'
      AND (EXISTS (SELECT FROM granted) OR EXISTS (SELECT FROM entry WHERE is_ahead))),
slots AS MATERIALIZED (  -- `wishes`: nothing but slots is missing, and it has less than its share
    SELECT l.*, h.has, l.under_way + g.n AS keeps, l.under_way + g.n < greatest(l.part, 1) AND EXISTS (
               SELECT FROM soon JOIN need n USING (j) WHERE n.no = l.no AND n.upto > n.room) AS wishes
    FROM bound l, (SELECT count(*)::int AS n FROM granted) g, LATERAL (
        SELECT coalesce(sum(h.used), 0) AS has FROM unnest(l.holder, l.used) AS h(holder, used)
        WHERE h.holder = %(worker)s) h
    WHERE l.kind = 'at_once'),
leased AS (  -- the slots that are in use, and one for each permit; what was leased beyond goes back
    UPDATE allowance l SET (holder, until, used) = (
        SELECT coalesce(array_agg(h.holder), '{{}}'), coalesce(array_agg(h.until), '{{}}'),
               coalesce(array_agg(h.used), '{{}}') FROM (
            {OTHERS}
            UNION ALL
            SELECT %(worker)s, clock.now + {UNKNOWN_HOLDER_SECONDS}, w.keeps WHERE w.keeps > 0
            UNION ALL
            SELECT %(worker)s, {WISHED_UNTIL}, 0 WHERE w.wishes) h)
    FROM slots w, clock
    WHERE l.account_id = w.account_id AND l.no = w.no
      AND (w.wishes OR w.keeps <> w.has OR EXISTS (SELECT FROM granted))),
charged AS (
    UPDATE account a SET seen = clock.now,
        load_until = greatest(clock.now, a.load_until) + coalesce((SELECT sum(load) FROM granted), 0),
        paced_until = coalesce((SELECT max(at + pace) FROM granted WHERE pace > 0),
                               least(a.paced_until, (SELECT max(latest_turn) FROM bound)))
    FROM chosen c, clock WHERE a.id = c.id),
noted AS (
    UPDATE key k SET used_at = clock.now FROM chosen c, clock
    WHERE k.id = c.key_id AND EXISTS (SELECT FROM granted))
SELECT c.key_id, c.id, c.label, c.secret, c.fingerprint, ARRAY(SELECT at - clock.now FROM granted ORDER BY j),
       (SELECT min(guard_seconds) FROM limits) * {SLACK_SHARE},
       (SELECT coalesce(min(at) FILTER (WHERE has_slot), CASE WHEN min(at) > clock.now + %(ahead)s
                        THEN min(at) ELSE 'infinity' END) - clock.now FROM permit),
       ARRAY(SELECT at FROM granted ORDER BY j), ARRAY(SELECT DISTINCT kind FROM limits)
FROM chosen c, clock
"""

# Asked when no row could be locked: is there a usable key at all, and does the service rest?
WHY_NONE = f"""
SELECT EXISTS (SELECT FROM key k WHERE k.service = s.name AND {RESERVABLE}), {RESTS},
       CASE WHEN s.rest_until > clock_timestamp()
            THEN extract(epoch FROM s.rest_until - clock_timestamp())::float8 ELSE 'infinity' END,
       s.rest_cause
FROM service s WHERE s.name = %(service)s
"""

# Who holds slots when nobody says so: tests, and what has no worker.
NOBODY = UUID(int=0)


@dataclass(frozen=True, slots=True)
class Reservation:
    """Permits of one key. `in_seconds`: when each may be sent, counted from the database's answer.

    A permit is past its use when `slack_seconds` have gone by since then. `wait_seconds`: when the first
    permit could be had; with no permits in hand, ask again after that long. Infinite: when a call of the
    account has ended, since nothing else is missing. `at`: the same as `in_seconds` on the database's
    clock. `kinds`: what the account's limits count.
    """

    key_id: int
    account_id: int
    label: str
    secret: bytes
    fingerprint: str
    in_seconds: tuple[float, ...]
    slack_seconds: float
    wait_seconds: float
    at: tuple[float, ...] = ()
    kinds: frozenset[str] = frozenset({"calls"})


@dataclass(frozen=True, slots=True)
class Busy:
    """Somebody else is at every usable account this instant; ask again in a few milliseconds."""


@dataclass(frozen=True, slots=True)
class Resting:
    """The service is not to be called for so long, and why. Infinite: until a probe has been answered."""

    seconds: float
    cause: str


@dataclass(frozen=True, slots=True)
class NoKey:
    """No key of the service may be used: none was added, or all are invalid, exhausted or disabled."""


Answer = Reservation | Busy | Resting | NoKey


def reserve(
    conn: psycopg.Connection,
    service: str,
    key_set: str | None,
    want: int,
    ahead_seconds: float,
    locked: Collection[bytes] = (),
    key_id: int | None = None,
    *,
    tokens: Sequence[int] = (),
    worker: UUID = NOBODY,
    calling: Mapping[int, int] | None = None,
    probes: bool = False,
) -> Answer:
    """Reserve up to `want` permits of the least loaded usable key, at most `ahead_seconds` ahead.

    They are fewer when the smallest limit is. `locked`: secrets, as they are stored, that the asker cannot
    open. `key_id`: of this key alone, to test it, rejected or not. `tokens`: what each call is thought to
    cost, 0 for those that are not named. `worker`: who leases slots, of which it has `calling` in use, by
    account. `probes`: for a job that tries whether the service answers again. Commit before using them.
    """
    if ahead_seconds > MOST_AHEAD_SECONDS:
        raise ValueError(f"permits are reserved at most {MOST_AHEAD_SECONDS:g} s ahead")
    in_use = calling or {}
    asked = {
        "service": service,
        "key_set": key_set,
        "locked": list(locked),
        "key_id": key_id,
        "ahead": ahead_seconds,
        "tokens": [*tokens[:want], *[0] * (want - len(tokens))],
        "worker": worker,
        "accounts": list(in_use),
        "calling": list(in_use.values()),
        "probes": probes,
    }
    row = conn.execute(RESERVE, asked).fetchone()
    if row is None:
        return _why_none(conn, asked)
    *of_key, in_seconds, slack_seconds, wait_seconds, at, kinds = row
    whole = (*of_key, tuple(in_seconds), slack_seconds, wait_seconds, tuple(at), frozenset(kinds))
    return Reservation(*whole)


def _why_none(conn: psycopg.Connection, asked: Mapping[str, object]) -> Busy | Resting | NoKey:
    is_usable, rests, seconds, cause = conn.execute(WHY_NONE, asked).fetchone() or (False, False, 0.0, None)
    if not is_usable:
        return NoKey()
    return Resting(seconds, cause or "it does not answer") if rests else Busy()
