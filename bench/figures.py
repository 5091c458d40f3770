"""Every figure. A new one is its function, a line here, and what it must reach."""

from __future__ import annotations

from bench.dashboards import fifty_dashboards
from bench.figure import Figure
from bench.recovery import recovery_median, recovery_worst

FIGURES: tuple[Figure, ...] = (
    Figure(
        "fifty_dashboards_core_share",
        "CPU of the console and its database sessions while 50 people watch a run",
        "cores",
        "at most",
        0.25,
        "1 min",
        fifty_dashboards,
    ),
    Figure(
        "recovery_seconds",
        "kill -9 to the same jobs running again, median of 20",
        "s",
        "at most",
        2.5,
        "3 min",
        recovery_median,
    ),
    Figure(
        "recovery_worst_seconds",
        "the worst of the same kills",
        "s",
        "at most",
        5.0,
        "3 min, none after recovery_seconds",
        recovery_worst,
    ),
)
