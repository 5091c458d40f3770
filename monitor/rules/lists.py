"""Rules about lists: finished, and late."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from monitor.episodes import Damping
from monitor.rule import Finding, Rule
from monitor.seen import BEFORE_SECONDS, RECENT_SECONDS, ListFacts, Snapshot
from monitor.words import count, duration, moment, quoted
from store.alerts import Severity

NEWS_SECONDS = 23 * 3600.0
FORECAST_LEAST_ENDED = 20
LONGEST_FORECAST_SECONDS = 10 * 366 * 86400.0


def finished(snapshot: Snapshot) -> Iterator[Finding]:
    """Lists that have ended; news for most of a day, so that a monitor that was away still tells."""
    for seen in snapshot.lists:
        if seen.state == "finished" and seen.finished_at and snapshot.age(seen.finished_at) < NEWS_SECONDS:
            yield Finding(
                f"list:{seen.id}",
                Severity.INFO,
                f"List {quoted(seen.name)} is finished: {seen.done:,} done, {seen.failed:,} failed",
                f"/lists/{seen.id}",
            )


def late(snapshot: Snapshot) -> Iterator[Finding]:
    """Lists that miss their date at the better of their rates of the last minutes and the last hour."""
    for seen in snapshot.lists:
        if seen.due_by is None or seen.state != "active" or not seen.left:
            continue
        wanted = f"wanted by {moment(seen.due_by)}"
        left = count(seen.left, "job")
        if seen.due_by <= snapshot.now:
            message = f"List {quoted(seen.name)} is late: {left} left, {wanted}"
            yield Finding(f"list:{seen.id}", Severity.CRITICAL, message, f"/lists/{seen.id}")
            continue
        needs = seconds_left(seen, snapshot)
        if needs is not None and needs > (seen.due_by - snapshot.now).total_seconds():
            ready = moment(snapshot.now + timedelta(seconds=needs))
            message = f"List {quoted(seen.name)} will be late: {left} left, ready by {ready}, {wanted}"
            yield Finding(f"list:{seen.id}", Severity.WARNING, message, f"/lists/{seen.id}")


def seconds_left(seen: ListFacts, snapshot: Snapshot) -> float | None:
    """How long the list still needs; None: too little has ended to tell."""
    ended = seen.ended_recent + seen.ended_before
    if ended < FORECAST_LEAST_ENDED:
        return None
    span = min(max(snapshot.age(seen.start_at), RECENT_SECONDS), RECENT_SECONDS + BEFORE_SECONDS)
    per_second = max(seen.ended_recent / RECENT_SECONDS, ended / span)
    return min(seen.left / per_second, LONGEST_FORECAST_SECONDS)


RULES = (
    Rule(
        "list_finished",
        finished,
        Damping(for_seconds=0, clear_seconds=0, tells_end=False),
        "Every job of the list has ended.",
        "Export it. Failed jobs are grouped by cause; retry the groups that can be fixed.",
    ),
    Rule(
        "list_late",
        late,
        Damping(for_seconds=600, clear_seconds=900),
        "At the rate of the last hour the list is not ready at the time that was asked for.",
        "See what holds it back on its page: keys, workers or the service. More keys of other accounts help "
        f"at once. The forecast needs {FORECAST_LEAST_ENDED} ended jobs within "
        f"{duration(RECENT_SECONDS + BEFORE_SECONDS)}.",
    ),
)
