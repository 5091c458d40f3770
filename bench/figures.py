"""Every figure. A new one is its function, a line here, and what it must reach."""

from __future__ import annotations

from bench.dashboards import fifty_dashboards
from bench.figure import Figure
from bench.folder import folder_vs_parsing

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
        "folder_vs_parsing",
        "2,000 filings of an archive through the queue with 2 workers, against parsing alone",
        "x",
        "at least",
        0.7,
        "1 min",
        folder_vs_parsing,
    ),
)
