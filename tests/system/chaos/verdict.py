"""What came out of it: each promise with the number that shows it kept or broken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.system.chaos.plan import Kind
from tests.system.chaos.run import SLOTS, Run

LATE = "SELECT count(*) FROM call WHERE late"
HARMED = "SELECT count(*) FROM job WHERE status = 'done' AND attempts > 0"
UNENDED = "SELECT count(*) FROM job WHERE status NOT IN ('done', 'failed')"
TWICE = (
    "SELECT count(*) FROM (SELECT FROM answer GROUP BY job_id, fingerprint, occurrence HAVING count(*) > 1) a"
)
INTERRUPTING = (Kind.KILL, Kind.STOP, Kind.RESTART, Kind.TERMINATE, Kind.CUT, Kind.DEAF)


@dataclass(frozen=True, slots=True)
class Promise:
    words: str
    found: str
    is_kept: bool

    def __str__(self) -> str:
        return f"  {'kept  ' if self.is_kept else 'BROKEN'}  {self.words}: {self.found}"


def promises(run: Run, workers: int) -> Iterator[Promise]:
    """Each once, from the table and from what the sandbox counted."""
    summary = run.scene.summary()
    unended, harmed, late, twice = (_number(run, sql) for sql in (UNENDED, HARMED, LATE, TWICE))
    yield Promise("every job ended", f"{unended} did not", unended == 0)
    wrong = [one for list_id in run.lists for one in run.scene.differences(list_id)]
    yield Promise(
        "every result and cause is the truth",
        "; ".join([f"{len(wrong)} cells differ", *wrong[:5]]),
        not wrong,
    )
    stops = run.blows[Kind.STOP]
    yield Promise(
        "no call over a limit but those that a stopped process sent late",
        f"{summary['over_limit']} over, {late} sent late in {stops} stops",
        summary["over_limit"] <= late <= SLOTS * stops or summary["over_limit"] == 0,
    )
    yield Promise(
        "no call whose answer was stored is made again", f"{summary['repeated']}", not summary["repeated"]
    )
    most = SLOTS * sum(run.blows[kind] * _struck(kind, workers) for kind in INTERRUPTING)
    again = summary["in_flight_at_kills"]
    yield Promise(
        "calls lost in flight are those of kills and cuts", f"{again} of at most {most}", again <= most
    )
    yield Promise("no attempt is counted where the company was not at fault", f"{harmed} jobs", harmed == 0)
    yield Promise("an answer is kept once", f"{twice} twice", twice == 0)
    off = run.scene.counts_off()
    yield Promise("the live counts equal the table", f"{len(off)} differ", not off)


def _struck(kind: Kind, workers: int) -> int:
    """How many workers a blow of this kind meets at once."""
    return 1 if kind in (Kind.KILL, Kind.STOP) else workers


def _number(run: Run, sql: str) -> int:
    row = run.scene.db.execute(sql).fetchone()
    assert row
    return int(row[0])
