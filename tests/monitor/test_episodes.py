from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from monitor.episodes import (
    LONGEST_CLEAR_SECONDS,
    Change,
    Damping,
    Forget,
    NotSeen,
    OpenQuietly,
    Resolve,
    SeenAgain,
    Tell,
    Watch,
    changes,
    clear_seconds,
)
from store.alerts import Episode, Found, Severity
from store.deliveries import Kind

NOW = datetime(2026, 3, 5, 14, 0, tzinfo=UTC)
DAMPED = Damping(for_seconds=60, clear_seconds=120)
FOUND = Found("late", "list:1", Severity.WARNING, "late", "/lists/1")
WATCHED = Episode(7, "late", "list:1", "warning", 0, NOW, NOW, None, None, 0, None, False, False)
OPEN = replace(WATCHED, opened_at=NOW, told=1, told_at=NOW)


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def look(
    episode: Episode | None,
    seconds: float,
    found: Found | None = FOUND,
    damping: Damping = DAMPED,
) -> Sequence[Change]:
    return changes([episode] if episode else [], [found] if found else [], {"late": damping}, after(seconds))


def test_a_new_finding_is_watched_once() -> None:
    assert changes([], [FOUND, FOUND], {}, NOW) == [Watch(FOUND)]


def test_a_finding_opens_when_it_has_lasted() -> None:
    seen = replace(WATCHED, last_seen_at=after(57))
    assert look(seen, 59) == [SeenAgain(7, FOUND, False)]
    assert look(seen, 60) == [SeenAgain(7, FOUND, False), Tell(7, 0, Kind.OPENED, "late")]


def test_a_finding_that_goes_away_before_it_opened_is_forgotten() -> None:
    assert look(WATCHED, 3, found=None) == [Forget(7)]


def test_time_in_which_nobody_looked_does_not_count() -> None:
    assert look(WATCHED, 3600) == [SeenAgain(7, FOUND, True)]


def test_an_open_alert_is_told_once() -> None:
    assert look(OPEN, 600) == [SeenAgain(7, FOUND, False)]


def test_an_alert_ends_when_it_has_been_gone_for_long_enough() -> None:
    gone = replace(OPEN, clear_from=after(10))
    assert look(OPEN, 10, found=None) == [NotSeen(7)]
    assert look(gone, 129, found=None) == []
    assert look(gone, 130, found=None) == [Resolve(7, tells=True)]


def test_an_end_that_is_no_news_is_not_told() -> None:
    quiet = Damping(0, 0, tells_end=False)
    assert look(OPEN, 10, found=None, damping=quiet) == [NotSeen(7), Resolve(7, tells=False)]


def test_the_end_of_what_nobody_was_told_of_is_not_told() -> None:
    untold = replace(OPEN, told=0, told_at=None, clear_from=NOW)
    assert look(untold, 120, found=None) == [Resolve(7, tells=False)]


def test_an_alert_whose_rule_is_gone_ends() -> None:
    assert changes([replace(OPEN, clear_from=NOW)], [], {}, after(60)) == [Resolve(7, tells=True)]


def test_a_muted_finding_opens_quietly_and_is_told_when_the_mute_ends() -> None:
    muted = replace(WATCHED, is_muted=True, last_seen_at=after(57))
    assert look(muted, 60)[1:] == [OpenQuietly(7)]
    opened = replace(muted, opened_at=after(60))
    assert look(opened, 90)[1:] == []
    assert look(replace(opened, is_muted=False), 90)[1:] == [Tell(7, 0, Kind.OPENED, "late")]


def test_a_muted_alert_ends_quietly() -> None:
    assert look(replace(OPEN, is_muted=True, clear_from=NOW), 600, found=None) == [Resolve(7, tells=False)]


@pytest.mark.parametrize(
    ("severity", "hours", "is_reminded"),
    [
        ("critical", 3, False),
        ("critical", 4, True),
        ("warning", 23, False),
        ("warning", 24, True),
        ("info", 999, False),
    ],
)
def test_people_are_reminded_of_what_stays_open(severity: str, hours: int, is_reminded: bool) -> None:
    found = replace(FOUND, severity=Severity(severity))
    told = look(replace(OPEN, severity=severity), hours * 3600, found=found)[1:]
    assert told == ([Tell(7, 1, Kind.REMINDER, "late")] if is_reminded else [])


def test_nobody_is_reminded_of_what_somebody_cares_for() -> None:
    assert look(replace(OPEN, is_acknowledged=True), 99 * 3600)[1:] == []


def test_people_are_told_when_it_gets_worse_and_not_when_it_gets_better() -> None:
    worse = replace(FOUND, severity=Severity.CRITICAL)
    assert look(OPEN, 3, found=worse)[1:] == [Tell(7, 1, Kind.REMINDER, "late")]
    assert look(replace(OPEN, severity="critical"), 3) == [SeenAgain(7, worse, False)]


def test_a_subject_that_flaps_must_be_gone_for_longer_each_time() -> None:
    waits = [clear_seconds(DAMPED, flaps) for flaps in range(4)]
    assert waits == [120, 240, 480, 960]
    assert clear_seconds(DAMPED, 9999) == LONGEST_CLEAR_SECONDS
    assert clear_seconds(Damping(0, 90_000), 5) == 90_000


class Model:
    """One subject that comes and goes, and its rows as `store.alerts` would keep them."""

    def __init__(self, damping: Damping) -> None:
        self.damping = damping
        self.now, self.next_id = NOW, 1
        self.rows: list[Episode] = []
        self.ended: list[tuple[Episode, datetime]] = []
        self.told: list[tuple[int, Kind]] = []
        self.last_absent = self.last_present = NOW - timedelta(days=1)

    def look(self, seconds: float, found: Found | None) -> None:
        """So many seconds pass, then a monitor looks."""
        self.now += timedelta(seconds=seconds)
        if found:
            self.last_present = self.now
        else:
            self.last_absent = self.now
        for _ in range(2):  # what is watched by the first is judged by the second
            wanted = changes(self.rows, [found] if found else [], {"late": self.damping}, self.now)
            for change in wanted:
                self.write(change)
            if not any(isinstance(change, Watch) for change in wanted):
                break

    def write(self, change: Change) -> None:
        match change:
            case Watch():
                day = self.now - timedelta(days=1)
                flaps = sum(1 for row, _ in self.ended if row.opened_at and row.opened_at > day)
                row = replace(WATCHED, id=self.next_id, flaps=flaps, severity=change.found.severity)
                self.rows.append(replace(row, seen_from=self.now, last_seen_at=self.now))
                self.next_id += 1
            case SeenAgain():
                self.change(change.id, last_seen_at=self.now, clear_from=None)
                self.change(change.id, severity=change.found.severity)
                if change.anew:
                    self.change(change.id, seen_from=self.now)
            case NotSeen():
                self.change(change.id, clear_from=self.now)
            case Forget():
                assert self.row(change.id).opened_at is None
                self.rows.remove(self.row(change.id))
            case OpenQuietly():
                assert self.row(change.id).opened_at is None
                self.change(change.id, opened_at=self.now)
            case Tell():
                row = self.row(change.id)
                assert change.told == row.told
                self.told.append((change.id, change.kind))
                opened = row.opened_at or self.now
                self.change(change.id, opened_at=opened, told=row.told + 1, told_at=self.now)
            case Resolve():
                row = self.row(change.id)
                assert row.opened_at is not None
                needed = clear_seconds(self.damping, row.flaps)
                assert self.now - self.last_present >= timedelta(seconds=needed)
                if change.tells:
                    self.told.append((change.id, Kind.RESOLVED))
                self.ended.append((row, self.now))
                self.rows.remove(row)

    def row(self, alert_id: int) -> Episode:
        (row,) = [row for row in self.rows if row.id == alert_id]
        return row

    def change(self, alert_id: int, **columns: Any) -> None:
        self.rows = [replace(row, **columns) if row.id == alert_id else row for row in self.rows]


def test_a_day_of_flapping_is_told_of_a_dozen_times_and_not_a_hundred() -> None:
    model = Model(Damping(for_seconds=0, clear_seconds=60))
    for minute in range(24 * 60):
        model.look(60, FOUND if minute % 20 < 10 else None)
    opened = [told for told in model.told if told[1] is Kind.OPENED]
    assert 3 <= len(opened) <= 12


class Flapping(RuleBasedStateMachine):
    """The subject comes and goes as Hypothesis likes."""

    @initialize(for_seconds=st.sampled_from([0, 5, 60]), clear=st.sampled_from([0, 60, 300]))
    def begin(self, for_seconds: int, clear: int) -> None:
        self.model = Model(Damping(for_seconds, clear))

    @rule(
        is_there=st.booleans(),
        seconds=st.sampled_from([3, 3, 3, 30, 300, 2000]),
        looks=st.integers(1, 30),
        severity=st.sampled_from(list(Severity)),
    )
    def look(self, is_there: bool, seconds: int, looks: int, severity: Severity) -> None:
        for _ in range(looks):
            self.model.look(seconds, replace(FOUND, severity=severity) if is_there else None)

    @rule(is_muted=st.booleans())
    def mute(self, is_muted: bool) -> None:
        self.model.rows = [replace(row, is_muted=is_muted) for row in self.model.rows]

    @invariant()
    def never_two_are_open(self) -> None:
        assert len(self.model.rows) <= 1

    @invariant()
    def each_episode_is_opened_and_ended_at_most_once(self) -> None:
        once = [told for told in self.model.told if told[1] is not Kind.REMINDER]
        assert len(once) == len(set(once))

    @invariant()
    def nothing_opens_that_has_not_lasted(self) -> None:
        for row in self.model.rows:
            if row.opened_at == self.model.now:
                lasted = self.model.now - self.model.last_absent
                assert lasted >= timedelta(seconds=self.model.damping.for_seconds)

    @invariant()
    def no_episode_is_shorter_than_its_damping(self) -> None:
        for row, end in self.model.ended:
            assert row.opened_at is not None
            needed = clear_seconds(self.model.damping, row.flaps)
            assert end - row.opened_at >= timedelta(seconds=needed)

    @invariant()
    def a_day_holds_few_episodes(self) -> None:
        day = self.model.now - timedelta(days=1)
        starts = [row.opened_at for row, _ in self.model.ended if row.opened_at and row.opened_at > day]
        assert len(starts) <= 14 or not self.model.damping.clear_seconds


Flapping.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestFlapping = Flapping.TestCase
