"""Rules about the database: what stops its vacuum, and what it runs out of."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.episodes import Damping
from monitor.rule import Finding, Rule
from monitor.seen import Snapshot
from monitor.words import duration, quoted
from store.alerts import Severity

LONG_TRANSACTION_SECONDS = 300.0
VERY_LONG_TRANSACTION_SECONDS = 3600.0
DEAD_ROWS_LEAST = 200_000
DEAD_ROWS_SHARE = 0.5
CONNECTIONS_SHARE = 0.9


def long_transaction(snapshot: Snapshot) -> Iterator[Finding]:
    """A transaction that has been open for so long that vacuum falls behind."""
    longest = snapshot.database.longest
    if longest is not None and longest.seconds > LONG_TRANSACTION_SECONDS:
        yield Finding(
            "database",
            Severity.CRITICAL if longest.seconds > VERY_LONG_TRANSACTION_SECONDS else Severity.WARNING,
            f"A transaction of {quoted(longest.program or 'an unnamed program')} has been open for "
            f"{duration(longest.seconds)} (server process {longest.pid})",
            "/settings/system",
        )


def dead_rows(snapshot: Snapshot) -> Iterator[Finding]:
    """The job table holds many dead rows: vacuum does not keep up, or something holds it back."""
    dead, live = snapshot.database.dead_rows, snapshot.database.live_rows
    if dead >= DEAD_ROWS_LEAST and dead >= DEAD_ROWS_SHARE * live:
        message = f"The job table has {dead:,} dead rows beside {live:,} live ones"
        yield Finding("database", Severity.WARNING, message, "/settings/system")


def connections_short(snapshot: Snapshot) -> Iterator[Finding]:
    """Nearly all connections of the server are taken."""
    used, most = snapshot.database.connections, snapshot.database.most_connections
    if used >= CONNECTIONS_SHARE * most:
        message = f"{used:,} of {most:,} connections of the database server are taken"
        yield Finding("database", Severity.WARNING, message, "/settings/system")


RULES = (
    Rule(
        "long_transaction",
        long_transaction,
        Damping(for_seconds=30, clear_seconds=120),
        f"A transaction has been open for more than {duration(LONG_TRANSACTION_SECONDS)}. As long as it is, "
        "dead rows cannot be removed and the queue gets slower and slower.",
        "End it where it was opened: a forgotten psql, a dump, a report. Or: SELECT pg_terminate_backend(…) "
        "with the number of its server process.",
    ),
    Rule(
        "dead_rows",
        dead_rows,
        Damping(for_seconds=600, clear_seconds=600),
        f"The job table has {DEAD_ROWS_LEAST:,} dead rows or more, and {DEAD_ROWS_SHARE:.0%} as many as "
        "live ones: they are not removed as fast as they are made, and claims get slower.",
        "Look for a long transaction first. Then see whether autovacuum is on and has enough workers.",
    ),
    Rule(
        "connections_short",
        connections_short,
        Damping(for_seconds=60, clear_seconds=120),
        f"{CONNECTIONS_SHARE:.0%} of the server's connections are taken. When all are, programs that start "
        "or reconnect are refused.",
        "Raise max_connections, run fewer workers, or put PgBouncer in between.",
    ),
)
