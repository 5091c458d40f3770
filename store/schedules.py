"""Lists that are refreshed by schedule. Everybody may do it: a due list is begun once, however many look.

A refresh sends jobs back block by block. The list says since when it is under way, so that another worker
goes on where one was killed, and no job is asked twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import psycopg

from store import jobs

EVERY: Final = {
    "day": "1 day",
    "week": "7 days",
    "month": "1 month",
    "quarter": "3 months",
    "year": "1 year",
}
"""How often a list may be refreshed, and the interval of it."""

_PERIOD = (
    "CASE {} " + " ".join(f"WHEN '{word}' THEN interval '{text}'" for word, text in EVERY.items()) + " END"
)

# Months are counted in UTC, whatever zone the session has.
SCHEDULE = f"""
UPDATE list SET refresh_every = %(every)s, refresh_at = CASE
    WHEN refresh_every = %(every)s THEN refresh_at
    WHEN %(every)s::text IS NOT NULL THEN
        (greatest(clock_timestamp(), start_at) AT TIME ZONE 'UTC' + {_PERIOD.format("%(every)s::text")})
        AT TIME ZONE 'UTC' END
WHERE id = %(id)s AND key_id IS NULL
"""

# Times that passed while nobody looked are one refresh. A due time that is past was the last run's.
BEGIN = f"""
WITH due AS (
    SELECT id, {_PERIOD.format("refresh_every")} AS period FROM list
    WHERE state = 'finished' AND refresh_at <= clock_timestamp() AND refresh_since IS NULL
    FOR UPDATE SKIP LOCKED)
UPDATE list l SET
    refresh_since = clock_timestamp(),
    refresh_at = (
        SELECT min(at) AT TIME ZONE 'UTC' FROM generate_series(
            l.refresh_at AT TIME ZONE 'UTC',
            clock_timestamp() AT TIME ZONE 'UTC' + 2 * due.period, due.period) AS at
        WHERE at > clock_timestamp() AT TIME ZONE 'UTC'),
    due_by = CASE WHEN l.due_by > clock_timestamp() THEN l.due_by END
FROM due WHERE l.id = due.id
"""

GIVE_UP = "UPDATE list SET refresh_since = NULL WHERE state = 'cancelled' AND refresh_since IS NOT NULL"

UNDER_WAY = """
SELECT id, name, refresh_since FROM list
WHERE refresh_since IS NOT NULL AND state IN ('active', 'finished') ORDER BY refresh_since
"""

# Not while another worker's block is on its way: should that be lost, its jobs are still to be sent back.
END = """
UPDATE list l SET refresh_since = NULL WHERE id = %(id)s AND refresh_since = %(since)s AND NOT EXISTS (
    SELECT FROM job WHERE list_id = l.id AND status IN ('done', 'failed') AND ended_at < l.refresh_since)
"""


def schedule(conn: psycopg.Connection, list_id: int, every: str | None) -> bool:
    """Refresh the list every `day`, `week`, … of `EVERY`, None: never. False: there is no such list.

    The first time is one period from now, or from its start. The same again changes nothing.
    """
    return conn.execute(SCHEDULE, {"every": every, "id": list_id}).rowcount == 1


def keep(conn: psycopg.Connection) -> Iterator[str]:
    """Begin what is due and go on with what was begun; says what was done, for a log.

    Only finished lists are begun: one that still runs when its time comes is refreshed once it has ended,
    one that a person stopped is not.
    """
    conn.execute(GIVE_UP)
    conn.execute(BEGIN)
    for list_id, name, since in conn.execute(UNDER_WAY).fetchall():
        sent_back = jobs.refresh(conn, list_id, ended_before=since)
        ended = conn.execute(END, {"id": list_id, "since": since}).rowcount == 1
        if sent_back or ended:
            rest = "" if ended else ", more are to follow"
            yield f"refresh of “{name}”: {sent_back} job{'' if sent_back == 1 else 's'} sent back{rest}"
