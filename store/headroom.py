"""What a statement that claims asks of the ledger: how many permits there will be soon, and for whom."""

from __future__ import annotations

from store.allowances import FREE_SOON
from store.slots import NOW, room_of

# Of a key `k`: the asker's key set has it, and its secret is none of those that the asker cannot open.
USABLE_BY_ASKER = """
    (%(key_set)s::text IS NULL OR k.key_set = %(key_set)s) AND k.secret <> ALL (%(locked)s::bytea[])"""

# Of a key `k` and its account `a`, for a statement that claims: it can be tested within `soon` seconds. For a
# slot its test waits in line: it has its turn.
TESTABLE = f"""
    k.state <> 'disabled' AND {USABLE_BY_ASKER}
    AND a.rest_until <= {NOW} + %(soon)s
    AND NOT EXISTS (SELECT FROM allowance w WHERE w.account_id = a.id
                    AND CASE w.kind WHEN 'at_once' THEN false ELSE {FREE_SOON} < 1 END)"""

# The jobs of others that were claimed within `soon` seconds and may need keys of the asker's.
LATELY = """
    WITH held AS MATERIALIZED (  -- first: see the claim
        SELECT list_id, worker FROM job WHERE status = 'in_progress' AND worker <> %(worker)s
        AND claimed_at > clock_timestamp() - %(soon)s * interval '1 second')
    SELECT count(*) FROM held h JOIN list l ON l.id = h.list_id JOIN worker o ON o.id = h.worker
    WHERE l.service = %(service)s
      AND (%(key_set)s::text IS NULL OR o.key_set IS NULL OR o.key_set = %(key_set)s)"""

# For a statement that claims: the permits that usable accounts will have within `soon` seconds. What the
# asker has under way is its own affair. So is its share of slots, whoever holds them now: what others have
# claimed lately, and the claim takes off, does not wait for it.
HEADROOM = f"""
headroom AS MATERIALIZED (
    SELECT greatest(coalesce(sum(f.free), 0), CASE WHEN sum(f.share) > 0 THEN sum(f.share) + ({LATELY}) END
                   )::bigint AS permits
    FROM (
        SELECT greatest(min(n.free), 0) AS free,
               greatest(least(min(n.free), coalesce(min(n.part) FILTER (WHERE n.others > 0), 0)), 0) AS share
        FROM (
            SELECT a.id, r.part, r.others, floor(
                CASE w.kind WHEN 'at_once' THEN greatest(r.room, r.part) ELSE {FREE_SOON} END) AS free
            FROM account a JOIN allowance w ON w.account_id = a.id
                LEFT JOIN LATERAL ({room_of("0")}) r ON w.kind = 'at_once'
            WHERE a.service = %(service)s
              AND a.rest_until <= {NOW} + %(soon)s
              AND EXISTS (SELECT FROM key k WHERE k.account_id = a.id AND k.state = 'active'
                          AND {USABLE_BY_ASKER})) n
        GROUP BY n.id) f)
"""
