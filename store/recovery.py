"""What becomes of jobs whose worker is gone, and who may hold those that may be what kills workers.

`store.workers` finds out who is gone, in the statement of a beat that `FREED` is a part of.
"""

from __future__ import annotations

from store.states import BACK
from store.tally import CAUSE_COUNTED, COUNTED

# A job that was lost with its worker twice in a row may be what kills workers. Each worker holds at most one
# such suspect, so that no two meet and its neighbours are lost with it twice at most; and only half of the
# workers hold one, so that it shows when workers die without (see `FREED`). For a statement with a CTE `held`
# of the jobs in progress.
SUSPECT_LOSSES = 2
MAY_HOLD_SUSPECT = f"""
    NOT EXISTS (SELECT FROM held WHERE worker = %(worker)s AND losses >= {SUSPECT_LOSSES})
    AND (SELECT count(*) FROM held WHERE losses >= {SUSPECT_LOSSES}) < greatest(1, (
        SELECT count(*) FROM worker WHERE state = 'running' AND lease_until > clock_timestamp()) / 2)"""

# For a statement with a CTE `lost(id)` of workers that are gone: their jobs run again, or have been lost
# too often and fail. A claim that moved on meanwhile no longer names a lost worker and is left alone.
# The second time in a row they run after different pauses, and from then on they are suspects. While workers
# die that hold none, something else kills them, and no suspect is charged with it; what one job does on its
# way to become a suspect is two such deaths, and two jobs at once four.
STORM_SECONDS, STORM_DEATHS = 60, 5
FREED = f"""
storm AS MATERIALIZED (
    SELECT count(*) >= {STORM_DEATHS} AS is_on FROM worker
    WHERE state = 'lost' AND lost_unsuspected
      AND ended_at > clock_timestamp() - interval '{STORM_SECONDS} seconds'),
stuck AS MATERIALIZED (
    SELECT id, losses + CASE WHEN losses >= {SUSPECT_LOSSES} AND (SELECT is_on FROM storm)
                        THEN 0 ELSE 1 END AS losses
    FROM job WHERE status = 'in_progress' AND worker = ANY (ARRAY(SELECT id FROM lost))
    ORDER BY id FOR UPDATE SKIP LOCKED),
freed AS (
    UPDATE job j SET losses = s.losses, worker = NULL, run_until = NULL,
        run_at = clock_timestamp() + CASE WHEN j.losses > 0
            THEN random() * least(60, 2 ^ s.losses) * interval '1 second' ELSE interval '0' END,
        (status, ended_at) = (
            SELECT b.status, CASE WHEN b.status <> 'pending' THEN clock_timestamp() END
            FROM (SELECT CASE WHEN s.losses < l.max_losses THEN {BACK} ELSE 'failed' END AS status) b),
        cause = 'worker_lost', message = 'lost with its worker, ' || s.losses || ' in a row'
    FROM stuck s, list l WHERE j.id = s.id AND l.id = j.list_id
    RETURNING j.list_id, j.status, j.outcome, {CAUSE_COUNTED} AS cause),
moved AS (
    SELECT list_id, 'in_progress' AS was, NULL AS was_outcome, NULL AS was_cause, status, outcome, cause
    FROM freed),
{COUNTED}
"""
