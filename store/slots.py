"""Slots of a limit on how many calls may be under way at once: who has how many, and who gets the next.

The log of such an allowance says who (`holder`) has how many (`used`). A worker keeps a slot from call to
call while it has work for it. What a worker that is known to be gone held is free; of one that nobody knows
it is until `until`.

An entry of none is a wish: its worker asked in vain, as it says with each reservation that brings it nothing.
While somebody wishes who has less than its share, who has more takes no more. Where there are more workers
than slots, one that has waited a turn comes before those that had one.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

import psycopg

NOW = "extract(epoch FROM clock_timestamp())::float8"

# A worker's slots are its own as long as it is known; if it is not there, for so long.
UNKNOWN_HOLDER_SECONDS = 60

# So long a worker without a slot waits until one that has no more than its share makes way.
TURN_SECONDS = 2.0
# So long a wish counts after it was last said: its worker asks again within a second, or claims first.
WISH_SECONDS = 3.0

# Of an entry `h`: its worker is not known to be gone. A worker that is not there yet has registered since the
# statement began; one whose time is much further off than it can be was there before the clock stepped back.
IS_HELD = f"""
    CASE (SELECT o.state IN ('running', 'draining') FROM worker o WHERE o.id = h.holder)
        WHEN true THEN true WHEN false THEN false
        ELSE h.until > {NOW} AND h.until <= {NOW} + {2 * UNKNOWN_HOLDER_SECONDS} END"""

# Of an entry `h`: it is a wish and counts. One that is further ahead was said before the clock stepped back.
IS_WISH = f"(h.used = 0 AND h.until > {NOW} AND h.until <= {NOW} + {TURN_SECONDS + WISH_SECONDS})"
HAS_WAITED = f"(h.used = 0 AND h.until > {NOW} AND h.until <= {NOW} + {WISH_SECONDS})"


# Of an allowance `w` of slots: what others than the asker have, and wish.
OTHERS = f"""
    SELECT * FROM unnest(w.holder, w.until, w.used) AS h(holder, until, used)
    WHERE h.holder <> %(worker)s AND {IS_HELD} AND (h.used > 0 OR {IS_WISH})"""


def room_of(own: str) -> str:
    """Of an allowance `w` of slots: `room` for further calls of the asker, who has `own` under way.

    `part` is its share, rounded down, among so many `others`. It leaves free what they are owed; of its own
    share only what is due to who has waited a turn, if it has not waited as long itself.
    """
    return f"""
    SELECT least(f.free, greatest(f.free - s.owed, least(f.free - s.due, greatest(s.part, 1) - s.own)))
             AS room, s.part, s.others
    FROM (
        SELECT {own} AS own, coalesce(sum(o.held), 0) AS held, count(*) AS others,
               coalesce(max(o.part), w.amount) AS part,
               coalesce(sum(o.lacks) FILTER (WHERE o.wishes), 0) AS owed,
               coalesce(sum(o.lacks) FILTER (WHERE o.has_waited AND NOT EXISTS (
                   SELECT FROM unnest(w.holder, w.until, w.used) AS h(holder, until, used)
                   WHERE h.holder = %(worker)s AND {HAS_WAITED})), 0) AS due
        FROM (
            SELECT p.*, greatest(greatest(p.part, 1) - p.held, 0) AS lacks FROM (
                SELECT sum(h.used) AS held, bool_or({IS_WISH}) AS wishes, bool_or({HAS_WAITED}) AS has_waited,
                       w.amount / (1 + count(*) OVER ()) AS part
                FROM ({OTHERS}) h GROUP BY h.holder) p) o) s,
        LATERAL (SELECT w.amount - s.held - s.own AS free) f"""


# Of an allowance `w` of slots: until when the asker's wish counts. Its turn is
# counted from when it was first said, however often that was.
WISHED_UNTIL = f"""
    greatest({NOW} + {WISH_SECONDS}, coalesce((
        SELECT min(h.until) FROM unnest(w.holder, w.until, w.used) AS h(holder, until, used)
        WHERE h.holder = %(worker)s AND {IS_WISH}), {NOW} + {TURN_SECONDS + WISH_SECONDS}))"""

KEEP_SLOTS = f"""
UPDATE allowance w SET (holder, until, used) = (
    SELECT coalesce(array_agg(h.holder), '{{}}'), coalesce(array_agg(h.until), '{{}}'),
           coalesce(array_agg(h.used), '{{}}') FROM (
        {OTHERS}
        UNION ALL
        SELECT %(worker)s, {NOW} + {UNKNOWN_HOLDER_SECONDS}, b.n
        FROM unnest(%(accounts)s::int[], %(calling)s::int[]) AS b(id, n) WHERE b.id = w.account_id) h)
FROM account a
WHERE a.id = w.account_id AND a.service = %(service)s AND w.kind = 'at_once' AND %(worker)s = ANY (w.holder)
"""


def keep_slots(conn: psycopg.Connection, service: str, worker: UUID, calling: Mapping[int, int]) -> None:
    """Of its slots at the service's accounts the worker keeps so many, by account, and returns the rest."""
    given = {"accounts": list(calling), "calling": list(calling.values())}
    conn.execute(KEEP_SLOTS, {**given, "service": service, "worker": worker})
