"""Whole workers against whole workers: jobs per second that store 1 KB, in 1 and in 4 processes."""

from __future__ import annotations

import statistics
import time

from bench.contenders import HUEY, OURS, PGQUEUER, PROCRASTINATE, Contender, Done
from bench.figure import Measured
from deploy.parts import PartFailed

PROCESSES = (1, 4)
ROUNDS = 3
WARM_SECONDS = 1.5
MEASURE_SECONDS = 4.0
START_SECONDS = 30.0


def against_pgqueuer() -> Measured:
    """How many times as many jobs per second as PgQueuer, where we are worse of 1 and 4 processes."""
    return _against(PGQUEUER)


def against_procrastinate() -> Measured:
    """The same against Procrastinate."""
    return _against(PROCRASTINATE)


def against_huey() -> Measured:
    """The same against Huey."""
    return _against(HUEY)


def _against(peer: Contender) -> Measured:
    """Both take turns in each round; of each number of processes the median of the rounds counts."""
    ratios: dict[int, list[float]] = {processes: [] for processes in PROCESSES}
    notes = []
    for _ in range(ROUNDS):
        for processes in PROCESSES:
            theirs, ours = rate(peer, processes), rate(OURS, processes)
            ratios[processes].append(ours / theirs)
            notes.append(f"{processes} processes: Sluice {ours:,.0f} jobs/s, {peer.name} {theirs:,.0f}")
    medians = [statistics.median(those) for those in ratios.values()]
    return Measured([ratio for those in ratios.values() for ratio in those], min(medians), notes)


def rate(contender: Contender, processes: int) -> float:
    """Results per second while it runs at full speed."""
    with contender(processes) as done:
        _wait_for_the_first(contender, done)
        time.sleep(WARM_SECONDS)
        began, before = time.monotonic(), done()
        time.sleep(MEASURE_SECONDS)
        ended, after = time.monotonic(), done()
    if after >= contender.size:
        raise PartFailed(f"{contender.name} ran out of jobs: {contender.size:,} are too few here")
    return (after - before) / (ended - began)


def _wait_for_the_first(contender: Contender, done: Done) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise PartFailed(f"{contender.name} has done nothing within {START_SECONDS:.0f} s")
        time.sleep(0.05)
