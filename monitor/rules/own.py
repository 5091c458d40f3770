"""Rules about the monitor itself and the ground it stands on: counts, channels, clock, disk."""

from __future__ import annotations

from collections.abc import Iterator

from monitor.episodes import Damping
from monitor.rule import Finding, Rule
from monitor.seen import Snapshot
from monitor.words import because, count, duration, moment
from store.alerts import Severity

UNDELIVERED_SECONDS = 120.0
UNDELIVERED_TRIES = 2
AWAY_SECONDS = 900.0
CLOCK_SECONDS = 5.0
DISK_FREE_SHARE = 0.05
DISK_FREE_BYTES = 2 * 1024**3
DISK_CRITICAL_BYTES = 512 * 1024**2


def counts_disagree(snapshot: Snapshot) -> Iterator[Finding]:
    """The last check found counts that differ from the table."""
    own = snapshot.own
    if own.counts_off and own.checked_at:
        yield Finding(
            "counts",
            Severity.WARNING,
            f"The counts shown were off by {count(own.counts_off, 'job')} at {moment(own.checked_at)}; "
            "they have been corrected",
            "/settings/system",
        )


def undelivered(snapshot: Snapshot) -> Iterator[Finding]:
    """A channel that does not deliver. Told through the others, and shown."""
    for channel in snapshot.channels:
        is_late = channel.oldest_seconds > UNDELIVERED_SECONDS and channel.tries >= UNDELIVERED_TRIES
        if channel.given_up or is_late:
            what = count(channel.waiting, "message") + (
                f" waiting for {duration(channel.oldest_seconds)}" if channel.waiting else " waiting"
            )
            given_up = f", {channel.given_up:,} given up" if channel.given_up else ""
            yield Finding(
                f"channel:{channel.name}",
                Severity.WARNING,
                f"Alerts do not get out by {channel.name}: {what}{given_up}{because(channel.last_error)}",
                "/alerts/channels",
            )


def away(snapshot: Snapshot) -> Iterator[Finding]:
    """No monitor had looked for long before this look."""
    looked_at = snapshot.own.looked_at
    if looked_at is not None and snapshot.age(looked_at) > AWAY_SECONDS:
        yield Finding(
            "monitor",
            Severity.WARNING,
            f"No monitor looked from {moment(looked_at)} to {moment(snapshot.now)}",
            "/alerts",
        )


def clock_off(snapshot: Snapshot) -> Iterator[Finding]:
    """This machine's clock and the database's differ, or the database's went back."""
    ahead, looked_at = snapshot.own.clock_ahead_seconds, snapshot.own.looked_at
    if abs(ahead) > CLOCK_SECONDS:
        side = "ahead of" if ahead > 0 else "behind"
        message = f"The monitor's clock is {duration(abs(ahead))} {side} the database's"
        yield Finding("clock", Severity.WARNING, message, "/settings/system")
    elif looked_at is not None and snapshot.age(looked_at) < -CLOCK_SECONDS:
        message = f"The database's clock went back by {duration(-snapshot.age(looked_at))}"
        yield Finding("clock", Severity.WARNING, message, "/settings/system")


def disk_full(snapshot: Snapshot) -> Iterator[Finding]:
    """Little room is left on the disk that the monitor runs on."""
    free, total = snapshot.own.disk_free_bytes, snapshot.own.disk_total_bytes
    if free is None or total is None:
        return
    if free < min(DISK_FREE_SHARE * total, DISK_FREE_BYTES):
        severity = Severity.CRITICAL if free < DISK_CRITICAL_BYTES else Severity.WARNING
        message = f"{free / 1024**2:,.0f} MB are left on the disk of the monitor's machine"
        yield Finding("disk", severity, message, "/settings/system")


RULES = (
    Rule(
        "counts_disagree",
        counts_disagree,
        Damping(for_seconds=0, clear_seconds=60, tells_end=False),
        "The counts on the pages differed from the table of jobs. They are corrected; no job is harmed.",
        "Something other than Sluice has changed the job table, or there is a bug. Report it with the time.",
    ),
    Rule(
        "alerts_undelivered",
        undelivered,
        Damping(for_seconds=30, clear_seconds=60),
        f"The channel has not taken a message for {duration(UNDELIVERED_SECONDS)} and "
        f"{UNDELIVERED_TRIES} tries. The monitor tries on for a day.",
        "See the error beside the channel, mend it, send a test.",
    ),
    Rule(
        "monitor_away",
        away,
        Damping(for_seconds=0, clear_seconds=60, tells_end=False),
        f"For more than {duration(AWAY_SECONDS)} nobody looked, so nothing was told in that time.",
        "See why the monitor was down. Two monitors can run at once: the second waits for the first.",
    ),
    Rule(
        "clock_off",
        clock_off,
        Damping(for_seconds=60, clear_seconds=300),
        f"Clocks differ by more than {duration(CLOCK_SECONDS)}: times in logs mislead, and pauses up to a "
        "date are too long or too short.",
        "Turn on time synchronisation on the database's and the workers' machines.",
    ),
    Rule(
        "disk_full",
        disk_full,
        Damping(for_seconds=60, clear_seconds=600),
        f"Less than {DISK_FREE_SHARE:.0%} of the disk is free, and less than "
        f"{DISK_FREE_BYTES / 1024**3:g} GB. When it is full the database stops.",
        "Delete old exports and logs, shorten how long lists keep answers, or add room.",
    ),
)
