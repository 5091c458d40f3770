"""The verdict on a run of chaos: what was promised, each a line with its numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

import psycopg
import requests

from deploy.demo_summary import summarise
from services.causes import CAUSES, Fault
from store import export, lists, tally

OF_THE_COMPANY = [cause.code for cause in CAUSES.values() if cause.fault is Fault.COMPANY]
UNJUST = """
SELECT count(*) FILTER (WHERE attempts > 0),
       count(*) FILTER (WHERE attempts > 0 AND (status <> 'failed' OR cause IS NULL OR cause <> ALL (%s)))
FROM job
"""


# Both on the database's clock: a call that was logged late seems to have been sent later than it was.
SENT_TOO_EARLY = """
WITH sent AS (
    SELECT job_id, claim_no, request, verdict,
           lead(sent_at) OVER (PARTITION BY job_id, worker, claim_no ORDER BY sent_at) AS next_at FROM call)
SELECT s.job_id, s.claim_no, s.request, extract(epoch FROM k.kept_at - s.next_at)::float8
FROM sent s LEFT JOIN LATERAL (
    SELECT min(kept_at) AS kept_at FROM answer WHERE job_id = s.job_id AND request = s.request) k ON true
WHERE s.verdict = 'usable' AND s.next_at IS NOT NULL AND NOT EXISTS (
    SELECT FROM answer a WHERE a.job_id = s.job_id AND a.request = s.request AND a.kept_at <= s.next_at)
"""
LOGGED = "SELECT count(*) FROM call"  # with its answer, so that what is missing here is lost
LOGGED_TWICE = "SELECT count(*) - count(DISTINCT (job_id, worker, no)) FROM call"
PAST_THEIR_TIME = """
SELECT count(*) FILTER (WHERE w.pid = ANY (%(stopped)s)), count(*) FILTER (WHERE w.pid <> ALL (%(stopped)s))
FROM call c JOIN worker w ON w.id = c.worker WHERE c.late
"""
BUSY_SHARE = 0.02
FEW = 4  # of which half may be missed late by bad luck: who would notice was itself stopped or cut off
MISSED_EARLY = "SELECT count(*) FROM worker WHERE id = ANY (%s) AND state = 'lost' AND ended_at < lease_until"


@dataclass(frozen=True, slots=True)
class Line:
    """One promise of a run, and whether it was kept."""

    holds: bool
    text: str

    def __str__(self) -> str:
        return f"{'holds' if self.holds else 'FAILS'}  {self.text}"


@dataclass(frozen=True, slots=True)
class Harm:
    """What was done to a run. `lost_calls_at_most`: calls that may have been in flight when it was done.

    `slots`: of a worker. `began_at` and `woken_at`, when stopped workers went on, in epoch seconds.
    `stopped`: process ids.
    `killed`: workers whose missing session must tell on them before their lease is over.
    """

    slots: int
    woken_at: Sequence[float]
    lost_calls_at_most: int
    stopped: Sequence[int]
    killed: Sequence[UUID]
    began_at: float


def judge(conn: psycopg.Connection, url: str, list_ids: Sequence[int], harm: Harm) -> Iterator[Line]:
    """Every line of the verdict on the database behind `conn` and the sandbox at `url`."""
    rows: dict[str, int] = dict(conn.execute("SELECT status, count(*) FROM job GROUP BY 1").fetchall())
    off = [difference for one in list_ids for difference in differences(conn, url, one)]
    yield Line(
        rows.keys() <= {"done", "failed"},
        "jobs: " + ", ".join(f"{count} {status}" for status, count in sorted(rows.items())),
    )
    yield Line(not off, "\n       ".join([f"{len(off)} cells differ from the truth", *off[:5]]))
    stats = requests.get(f"{url}/sandbox/stats", timeout=10).content
    yield from _calls(conn, stats, requests.get(f"{url}/sandbox/repeats", timeout=10).content, harm)
    yield from _log(conn, harm)
    tried, unjust = conn.execute(UNJUST, (OF_THE_COMPANY,)).fetchone() or (0, 0)
    yield Line(not unjust, f"{tried} jobs paid attempts, {unjust} of them for what no company did")
    counts = tally.check(conn)
    yield Line(not counts, f"{len(counts)} live counts differ from the table")


def _log(conn: psycopg.Connection, harm: Harm) -> Iterator[Line]:
    """What the database's own rows say of each promise."""
    early = conn.execute(SENT_TOO_EARLY).fetchall()
    text = f"{len(early)} calls sent before the answer to the one before was stored"
    shown = [
        f"job {job}, claim {claim}: {request} stored {seconds} s later"
        for job, claim, request, seconds in early[:5]
    ]
    yield Line(not early, "\n       ".join([text, *shown]))
    twice = _count(conn, LOGGED_TWICE)
    yield Line(not twice, f"{twice} calls logged twice")
    missed = _count(conn, MISSED_EARLY, list(harm.killed))
    text = f"{missed} of {len(harm.killed)} workers that were killed were missed before their lease was over"
    yield Line(missed * 2 >= len(harm.killed) or len(harm.killed) < FEW, text)


def _count(conn: psycopg.Connection, statement: str, *given: object) -> int:
    row = conn.execute(statement, given or None).fetchone()
    return int(row[0]) if row else 0


def _calls(conn: psycopg.Connection, stats: bytes, repeats: bytes, harm: Harm) -> Iterator[Line]:
    counted = json.loads(stats)
    late, over = over_limit(counted, harm.woken_at)
    when = ", ".join(f"{at - harm.began_at:.1f} s" for at in over[:5])
    yield Line(not over, f"{len(over)} of {counted['calls']} calls over their limit {when}".rstrip())
    given = {"stopped": list(harm.stopped)}
    by_stopped, by_others = conn.execute(PAST_THEIR_TIME, given).fetchone() or (0, 0)
    most_late = harm.slots * len(harm.woken_at)
    yield Line(
        len(late) <= by_stopped <= most_late,
        f"{len(late)} after a stop; {by_stopped} sent late by stopped workers, at most {most_late}",
    )
    text = f"{by_others} sent late by others, at most {BUSY_SHARE:.0%}: a busy machine stops them too"
    yield Line(by_others <= BUSY_SHARE * counted["calls"], text)
    summary = summarise(conn, 0.0, stats, repeats)
    yield Line(not summary["repeated"], f"{summary['repeated']} calls repeated although answered and stored")
    lost = counted["calls"] - _count(conn, LOGGED)
    text = f"{lost} calls lost in flight, at most {harm.lost_calls_at_most}"
    yield Line(lost <= harm.lost_calls_at_most, text)


def over_limit(counted: dict[str, object], woken_at: Sequence[float]) -> tuple[list[float], list[float]]:
    """When calls were over a limit: within its window after a stopped worker went on, and at other times.

    A call that was sent late takes the place of one that is in time, so the judge may blame either.
    """
    late: list[float] = []
    over: list[float] = []
    keys = counted["keys"]
    assert isinstance(keys, dict)
    for key in keys.values():
        for at, window_seconds in key["over_limit_at"]:
            is_late = any(0 <= at - woken <= window_seconds + 1.0 for woken in woken_at)
            (late if is_late else over).append(at)
    return late, over


def differences(conn: psycopg.Connection, url: str, list_id: int) -> list[str]:
    """Where the list's results differ from the truth of the sandbox at `url`, cell by cell."""
    (seen,) = [one for one in lists.see(conn) if one.id == list_id]
    truth = requests.get(f"{url}/sandbox/truth?service={seen.service}", timeout=10).json()
    header = export.header(seen.fields)
    found = []
    for row in export.rows(conn, list_id, seen.fields):
        ours = dict(zip(header, row, strict=True))
        right = truth[ours["company"]]
        expected = {name: right["values"].get(name, "") for name in seen.fields}
        expected |= {name: right[name] or "" for name in ("status", "outcome", "cause")}
        found += [
            f"{ours['company']} {name}: {ours[name]!r}, and right is {value!r} ({ours['message']})"
            for name, value in expected.items()
            if ours[name] != value
        ]
    return found
