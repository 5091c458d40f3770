"""Rules about workers: silent, lost, stuck, none at all."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from monitor.episodes import Damping
from monitor.rule import Finding, Rule
from monitor.seen import Snapshot
from monitor.words import count, duration, quoted, titled
from store.alerts import Severity
from store.workers import WorkerSeen

SILENT_LEASE_SHARE = 0.6
LOST_SECONDS = 600.0
STUCK_SECONDS = 300.0

LIVING = ("running", "draining")


def silent(snapshot: Snapshot) -> Iterator[Finding]:
    """Heartbeats are missing: most of the lease is over, or all of it and nobody is there to notice."""
    quiet = [
        worker
        for worker in snapshot.workers
        if worker.state in LIVING
        and snapshot.age(worker.seen_at)
        > SILENT_LEASE_SHARE * (worker.lease_until - worker.seen_at).total_seconds()
    ]
    for host, workers in _by_host(quiet):
        held = count(sum(worker.held for worker in workers), "job")
        longest = duration(max(snapshot.age(worker.seen_at) for worker in workers))
        yield Finding(
            f"host:{host}",
            Severity.WARNING,
            f"{count(len(workers), 'worker')} on {quoted(host)} not heard of for {longest}, holding {held}",
            "/workers",
        )


def lost(snapshot: Snapshot) -> Iterator[Finding]:
    """Workers that were declared lost in the last minutes."""
    gone = [
        worker
        for worker in snapshot.workers
        if worker.state == "lost" and snapshot.age(worker.seen_at) <= LOST_SECONDS
    ]
    for host, workers in _by_host(gone):
        yield Finding(
            f"host:{host}",
            Severity.WARNING,
            f"{count(len(workers), 'worker')} on {quoted(host)} lost in the last {duration(LOST_SECONDS)}",
            "/workers",
        )


def stuck(snapshot: Snapshot) -> Iterator[Finding]:
    """A worker that beats and holds jobs, but has taken and settled none for long, while permits are free."""
    for worker in snapshot.workers:
        newest = snapshot.newest_claims.get(worker.id)
        if not worker.is_alive or newest is None or worker.rows_per_minute > 0:
            continue
        has_room = any(snapshot.free_permits(s) > 0 and snapshot.is_awake(s) for s in worker.services)
        if has_room and snapshot.age(newest) > STUCK_SECONDS:
            yield Finding(
                f"worker:{worker.id}",
                Severity.WARNING,
                f"Worker {quoted(worker.name)} holds {count(worker.held, 'job')} and has moved none for "
                f"{duration(snapshot.age(newest))}, though keys have room",
                f"/workers/{worker.id}",
            )


def none_at_all(snapshot: Snapshot) -> Iterator[Finding]:
    """Jobs could run and nobody is there to run them."""
    services = sorted({seen.service for seen in snapshot.lists if snapshot.due_lists(seen.service)})
    without = [service for service in services if not snapshot.alive_workers(service)]
    if without and not any(worker.is_alive for worker in snapshot.workers):
        waiting = sum(seen.pending for service in without for seen in snapshot.due_lists(service))
        message = f"No worker is running and {count(waiting, 'job')} wait"
        yield Finding("workers", Severity.CRITICAL, message, "/workers")
        return
    for service in without:
        waiting = sum(seen.pending for seen in snapshot.due_lists(service))
        message = f"No worker runs jobs of {titled(service)} and {count(waiting, 'job')} wait"
        yield Finding(f"service:{service}", Severity.CRITICAL, message, "/workers")


def _by_host(workers: Iterable[WorkerSeen]) -> list[tuple[str, list[WorkerSeen]]]:
    """One finding per machine: a host that falls over is one alert and not thirty."""
    hosts: defaultdict[str, list[WorkerSeen]] = defaultdict(list)
    for worker in workers:
        hosts[worker.host].append(worker)
    return sorted(hosts.items())


RULES = (
    Rule(
        "worker_silent",
        silent,
        Damping(for_seconds=5, clear_seconds=120),
        f"A worker has not beaten for {SILENT_LEASE_SHARE:.0%} of its lease. When that is over its jobs run "
        "elsewhere.",
        "See whether its machine is overloaded, stopped or cut off from the database. It comes back by "
        "itself, or is declared lost.",
    ),
    Rule(
        "worker_lost",
        lost,
        Damping(for_seconds=0, clear_seconds=120, tells_end=False),
        f"A worker's process died or was cut off in the last {duration(LOST_SECONDS)}. Its jobs run again "
        "elsewhere and none is lost.",
        "Look at its log and at the machine's memory. Once is harmless; again and again is a bug or too "
        "little memory.",
    ),
    Rule(
        "worker_stuck",
        stuck,
        Damping(for_seconds=60, clear_seconds=120),
        "A worker lives and holds jobs but neither settles any nor takes new ones for more than "
        f"{duration(STUCK_SECONDS)}, while keys have room.",
        "Restart it: the jobs it holds go back unharmed. Keep its log, this is likely a bug.",
    ),
    Rule(
        "no_workers",
        none_at_all,
        Damping(for_seconds=30, clear_seconds=60),
        "Jobs are due and no worker that runs this service is alive.",
        "Start one: python -m worker. If systemd should have done so, see why it gave up.",
    ),
)
