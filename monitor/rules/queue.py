"""Rules about the queue and what comes out of it: stuck, starved, failing."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.episodes import Damping
from monitor.rule import Finding, Rule
from monitor.seen import ListFacts, Snapshot
from monitor.words import count, duration, quoted, titled
from services.causes import CAUSES, Advice
from store.alerts import Severity

QUIET_SECONDS = 120.0

JUMP_LEAST_FAILED = 20
JUMP_LEAST_SHARE = 0.2
JUMP_TIMES = 3.0
BEFORE_LEAST_ENDED = 20
UNKNOWN_BEFORE_SHARE = 0.5
CRITICAL_SHARE = 0.8

NEW_CAUSE_LEAST = 3


def stuck(snapshot: Snapshot) -> Iterator[Finding]:
    """Workers, keys and service are there, jobs are due, and nothing is claimed or ended."""
    for service in sorted({seen.service for seen in snapshot.lists}):
        due = snapshot.due_lists(service)
        workers = snapshot.alive_workers(service)
        if not (due and workers and snapshot.is_awake(service) and snapshot.free_permits(service)):
            continue
        ends = [s.last_end_at for s in snapshot.lists if s.service == service and s.last_end_at]
        claims = [snapshot.newest_claims[w.id] for w in workers if w.id in snapshot.newest_claims]
        if all(snapshot.age(at) > QUIET_SECONDS for at in (*ends, *claims)):
            waiting = sum(seen.pending for seen in due)
            yield Finding(
                f"service:{service}",
                Severity.CRITICAL,
                f"The queue of {titled(service)} does not move: {count(waiting, 'job')} wait, "
                f"{count(len(workers), 'worker')} and keys are there",
                "/",
            )


def starved(snapshot: Snapshot) -> Iterator[Finding]:
    """A list of which nothing runs while other lists of its service move."""
    for seen in snapshot.lists:
        if seen.in_progress or seen.ended_recent or seen not in snapshot.due_lists(seen.service):
            continue
        moving = [o for o in snapshot.lists if o.service == seen.service and o.ended_recent]
        if not moving:
            continue
        outranked = any(other.priority > seen.priority for other in moving)
        why = "lists of higher priority go first" if outranked else "no list goes before it"
        yield Finding(
            f"list:{seen.id}",
            Severity.INFO if outranked else Severity.WARNING,
            f"List {quoted(seen.name)} waits with {count(seen.pending, 'job')}: {why}",
            f"/lists/{seen.id}",
        )


def failure_jump(snapshot: Snapshot) -> Iterator[Finding]:
    """Many more of a list's jobs fail than in the hour before."""
    for seen in snapshot.lists:
        if seen.failed_recent < JUMP_LEAST_FAILED:
            continue
        share = seen.failed_recent / seen.ended_recent
        if share >= _alarming_share(seen):
            yield Finding(
                f"list:{seen.id}",
                Severity.CRITICAL if share >= CRITICAL_SHARE else Severity.WARNING,
                f"{share:.0%} of list {quoted(seen.name)} fail now: {seen.failed_recent:,} of "
                f"{count(seen.ended_recent, 'job')} in the last minutes",
                f"/lists/{seen.id}/failures",
            )


def _alarming_share(seen: ListFacts) -> float:
    if seen.ended_before < BEFORE_LEAST_ENDED:
        return UNKNOWN_BEFORE_SHARE
    return max(JUMP_LEAST_SHARE, min(JUMP_TIMES * seen.failed_before / seen.ended_before, 1.0))


def new_cause(snapshot: Snapshot) -> Iterator[Finding]:
    """Jobs fail for a cause that a few minutes ago no failed job of the service had."""
    for seen in snapshot.causes:
        known = CAUSES.get(seen.cause)
        is_news = known is None or known.advice is not Advice.NEVER
        if is_news and seen.recent >= NEW_CAUSE_LEAST and seen.total <= seen.recent:
            meaning = f": {known.meaning} {known.advice}" if known else ""
            yield Finding(
                f"cause:{seen.service}:{seen.cause}",
                Severity.WARNING,
                f"New: {count(seen.recent, 'job')} of {titled(seen.service)} failed with {seen.cause}"
                f"{meaning}",
                f"/failures?service={seen.service}",
            )


RULES = (
    Rule(
        "queue_stuck",
        stuck,
        Damping(for_seconds=480, clear_seconds=120),
        f"For over {duration(QUIET_SECONDS)} no job was claimed or ended, though jobs, workers and keys are "
        "there.",
        "Look at the workers' logs and at open transactions of the database; then restart one worker.",
    ),
    Rule(
        "list_starved",
        starved,
        Damping(for_seconds=1800, clear_seconds=300),
        "Nothing of this list has run for half an hour while other lists of the service moved.",
        "Raise its priority or lower the others'. A higher priority always goes first.",
    ),
    Rule(
        "failure_jump",
        failure_jump,
        Damping(for_seconds=30, clear_seconds=300),
        f"Of the list's jobs of the last minutes {JUMP_LEAST_FAILED} or more failed, at least "
        f"{JUMP_LEAST_SHARE:.0%} of them and {JUMP_TIMES:g} times the share of the hour before.",
        "Open the list's failures: they are grouped by cause, with what to do. Pause the list if the service "
        "changed.",
    ),
    Rule(
        "new_cause",
        new_cause,
        Damping(for_seconds=0, clear_seconds=300, tells_end=False),
        f"{NEW_CAUSE_LEAST} jobs or more fail for a cause that no failed job of the service had before.",
        "Open the group on the failures page, read an example, fix the cause, retry the group.",
    ),
)
