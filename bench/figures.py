"""Every figure. A new one is its function, a line here, and what it must reach."""

from __future__ import annotations

from bench.claim_settle import queue_vs_pgbench
from bench.dashboards import fifty_dashboards
from bench.figure import Figure
from bench.flat import bloat_flat, claim_flat
from bench.statements import busy_statements, idle_statements
from bench.throughput import against_huey, against_pgqueuer, against_procrastinate

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
        "queue_vs_pgbench",
        "claim and settle through store/, batches of 50, 4 processes, against pgbench sending the same",
        "times",
        "at least",
        0.8,
        "2 min",
        queue_vs_pgbench,
    ),
    Figure(
        "worker_vs_pgqueuer",
        "the whole worker against PgQueuer, 1 and 4 processes, 1 KB stored for each job",
        "times",
        "at least",
        3.0,
        "4 min",
        against_pgqueuer,
    ),
    Figure(
        "worker_vs_procrastinate",
        "the same against Procrastinate",
        "times",
        "at least",
        10.0,
        "4 min",
        against_procrastinate,
    ),
    Figure(
        "worker_vs_huey",
        "the same against Huey on Redis with its append-only file",
        "times",
        "at least",
        1.5,
        "4 min",
        against_huey,
    ),
    Figure(
        "idle_statements",
        "statements of 10 workers that have nothing to do",
        "per second",
        "at most",
        5.0,
        "2 min",
        idle_statements,
    ),
    Figure(
        "busy_statements",
        "statements of 4 workers at 40 jobs of one call a second",
        "per second",
        "at most",
        60.0,
        "2 min",
        busy_statements,
    ),
    Figure(
        "claim_flat",
        "p99 of a claim beside 1,000,000 pending and as many done jobs, against 1,000",
        "times",
        "at most",
        1.5,
        "4 min",
        claim_flat,
    ),
    Figure(
        "bloat_flat",
        "jobs ended in the sixth minute of full load against the second",
        "times",
        "at least",
        0.9,
        "8 min",
        bloat_flat,
    ),
)
