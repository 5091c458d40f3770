"""What must not grow: a claim beside millions of jobs; and what must not fall: the pace under full load."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from uuid import UUID, uuid4

import psycopg

from bench import filler, place
from bench.contenders import running
from bench.figure import Measured
from store import claims, database, tally, workers
from store.claims import Settlement
from store.states import Status
from store.workers import Identity

ROUNDS = 3
BATCH = 50
CLAIMS = 300
SMALL, LARGE = 1_000, 1_000_000

PROCESSES = 4
MINUTES = 6
REFILL = 500_000
LOOK_SECONDS = 2.0

# A result each and no holder, written past the queue: its counts are not read here.
DO_HALF = """
UPDATE job SET status = 'done', outcome = 'complete', claim_no = 1, ended_at = now(),
    result = jsonb_build_object('values', jsonb_build_object('name', repeat('x', 1000)))
WHERE line < %s
"""


def claim_flat() -> Measured:
    """The p99 of a claim beside a million pending and as many done, over that beside a thousand."""
    ratios, notes = [], []
    with (
        place.database() as small,
        place.database() as large,
        database.connect(small, "sluice bench") as few,
        database.connect(large, "sluice bench") as many,
    ):
        sides = ((few, _filled(few, SMALL)), (many, _filled(many, LARGE)))
        for _ in range(ROUNDS):
            few_ms, many_ms = _p99_ms(sides)
            ratios.append(many_ms / few_ms)
            notes.append(f"p99 {many_ms:.1f} ms beside {LARGE:,}, {few_ms:.1f} ms beside {SMALL:,}")
    return Measured.median(ratios, *notes)


def _filled(conn: psycopg.Connection, size: int) -> UUID:
    """So many pending jobs and so many done ones; returns a worker that may claim."""
    filler.a_list(conn, "bench", size * 2)
    conn.execute(DO_HALF, (size,))
    conn.execute("VACUUM ANALYZE")
    who = Identity(uuid4(), "bench", "bench", 1, "0", None, [filler.FILLER.name], BATCH)
    workers.register(conn, who, lease_seconds=7200.0)
    return who.id


def _p99_ms(sides: Sequence[tuple[psycopg.Connection, UUID]]) -> list[float]:
    """Of each side; they take turns, and what was claimed goes back."""
    took: list[list[float]] = [[] for _ in sides]
    for _ in range(CLAIMS):
        for times, (conn, worker) in zip(took, sides, strict=True):
            began = time.monotonic()
            got = claims.claim(
                conn, worker, filler.FILLER.name, None, n=BATCH, soon_seconds=2.0, keyless=True
            )
            times.append((time.monotonic() - began) * 1000)
            assert len(got.claims) == BATCH
            claims.settle(
                conn, [Settlement(one.id, worker, one.claim_no, Status.PENDING) for one in got.claims]
            )
    return [statistics.quantiles(times, n=100)[98] for times in took]


def bloat_flat() -> Measured:
    """Jobs that 4 workers end in the sixth minute of full load over those in the second."""
    with place.database() as url, database.connect(url, "sluice bench") as conn:
        filler.a_list(conn, "bench 0", REFILL * 2)
        with running([[sys.executable, "-m", "bench.filler"]] * PROCESSES, place.environment(url)):
            minutes = _minutes_of_load(conn)
    whole = [minute.done for minute in minutes[1:MINUTES]]  # the first began before the workers did
    assert len(whole) == MINUTES - 1
    return Measured([whole[-1] / whole[0]], whole[-1] / whole[0], [f"jobs per minute from the 2nd: {whole}"])


def _minutes_of_load(conn: psycopg.Connection) -> Sequence[tally.Minute]:
    """The jobs that ended in each minute, when the last one that counts is over."""
    lists = 1
    while len(minutes := tally.per_minute(conn, MINUTES * 2)) <= MINUTES:
        pending = sum(count.n for count in tally.totals(conn) if count.status == Status.PENDING)
        if pending < REFILL:
            filler.a_list(conn, f"bench {lists}", REFILL)
            lists += 1
        time.sleep(LOOK_SECONDS)
    return minutes
