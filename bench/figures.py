"""Every figure. A new one is its function, a line here, and what it must reach."""

from __future__ import annotations

from bench.dashboards import fifty_dashboards
from bench.figure import Figure
from bench.folder import folder_vs_parsing
from bench.key_use import key_use_kills, key_use_minute, key_use_second

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
    Figure(
        "key_use_minute",
        "share of 8 keys of 300 calls a minute that 4 workers use, no call refused",
        "of the limits",
        "at least",
        0.98,
        "90 s",
        key_use_minute,
    ),
    Figure(
        "key_use_second",
        "share of 8 keys of 5 calls a second that 4 workers use, at most 1 in 1,000 refused",
        "of the limits",
        "at least",
        0.93,
        "90 s",
        key_use_second,
    ),
    Figure(
        "key_use_kills",
        "share of 8 keys of 300 calls a minute while a worker is killed every 5 s, no call refused",
        "of the limits",
        "at least",
        0.95,
        "90 s",
        key_use_kills,
    ),
)
