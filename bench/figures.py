"""Every figure. A new one is its function, a line here, and what it must reach."""

from __future__ import annotations

from bench.claim_settle import queue_vs_pgbench
from bench.dashboards import fifty_dashboards
from bench.expected import expected_right
from bench.figure import Figure
from bench.flat import bloat_flat, claim_flat
from bench.folder import folder_vs_parsing
from bench.key_use import key_use_kills, key_use_minute, key_use_second
from bench.memory import facts_memory
from bench.readers import large_vs_stream_read_xbrl, small_vs_stream_read_xbrl, vs_ixbrlparse
from bench.recovery import recovery_median, recovery_worst
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
    Figure(
        "expected_right",
        "UK, US and transform values of real filings that are equal to the right ones",
        "%",
        "at least",
        100.0,
        "5 s",
        expected_right,
    ),
    Figure(
        "ixbrl_small_vs_stream_read_xbrl",
        "small UK filings per second against stream-read-xbrl's",
        "times",
        "at least",
        1.5,
        "20 s",
        small_vs_stream_read_xbrl,
    ),
    Figure(
        "ixbrl_large_vs_stream_read_xbrl",
        "large UK filings per second against stream-read-xbrl's",
        "times",
        "at least",
        1.0,
        "20 s",
        large_vs_stream_read_xbrl,
    ),
    Figure(
        "ixbrl_vs_ixbrlparse",
        "UK filings per second against ixbrlparse's, the worse of small and large",
        "times",
        "at least",
        8.0,
        "1 min",
        vs_ixbrlparse,
    ),
    Figure(
        "facts_memory_mb",
        "peak memory of a worker over 500 companyfacts answers of 5 MB",
        "MB",
        "at most",
        250.0,
        "5 min",
        facts_memory,
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
