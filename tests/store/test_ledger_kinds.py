"""Each kind of limit by example: days from a midnight, tokens, slots, an even pace; and a clock set back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest

from store import claims, keys, ledger, steering
from store.ledger import Reservation
from store.limits import BadLimit, Kind, Limit
from store.vault import Vault
from store.workers import Identity

A = Callable[..., int]
AWorker = Callable[..., Identity]


def reserve(conn: psycopg.Connection, want: int = 1, ahead: float = 0.0, **more: Any) -> Reservation:
    answer = ledger.reserve(conn, "registry", None, want, ahead, **more)
    assert isinstance(answer, Reservation), answer
    return answer


def used(conn: psycopg.Connection) -> list[int]:
    return keys.see(conn)[0].used


def moment(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


# A day from a stated time.


@pytest.mark.parametrize(
    ("limit", "asked_at", "zone", "next_day"),
    [
        ("3/day from 00:00 UTC", "2027-05-04T13:00:00", "UTC", "2027-05-05T00:00:00"),
        ("3/day from 06:30 UTC", "2027-05-04T05:00:00", "UTC", "2027-05-04T06:30:00"),
        (
            "3/day from 00:00 America/New_York",
            "2027-03-14T00:30:00",
            "America/New_York",
            "2027-03-15T00:00:00",
        ),
        (
            "3/day from 00:00 America/New_York",
            "2027-11-07T00:30:00",
            "America/New_York",
            "2027-11-08T00:00:00",
        ),
        (
            "3/day from 03:00 America/New_York",
            "2027-11-06T03:30:00",
            "America/New_York",
            "2027-11-07T03:00:00",
        ),
    ],
)
def test_a_day_begins_when_it_is_said_to_also_when_clocks_change(
    conn: psycopg.Connection, clock: Any, a_key: A, limit: str, asked_at: str, zone: str, next_day: str
) -> None:
    a_key(conn, limit)
    clock.set(moment(asked_at, zone))
    assert len(reserve(conn, 9).in_seconds) == 3
    guard = Limit(3, 86400, zone="UTC").guard_seconds
    wait = moment(next_day, zone) - clock.at + guard
    assert reserve(conn).wait_seconds == pytest.approx(wait, abs=1e-4)
    clock.advance(wait - 0.01)
    assert reserve(conn).in_seconds == ()
    clock.advance(0.02)
    assert len(reserve(conn, 9).in_seconds) == 3


def test_what_is_asked_for_at_midnight_counts_in_both_days(
    conn: psycopg.Connection, clock: Any, a_key: A
) -> None:
    """The service may see it before or after: its clock decides, and calls take their time."""
    a_key(conn, "10/day from 00:00 UTC")
    midnight = moment("2027-05-05T00:00:00")
    clock.set(midnight - 3600)
    reserve(conn, 3)
    clock.set(midnight - 1)
    assert len(reserve(conn, 9).in_seconds) == 7
    clock.set(midnight + 1)
    assert reserve(conn, 9).in_seconds == ()
    clock.set(midnight + 2.1)
    assert len(reserve(conn, 9).in_seconds) == 3
    clock.set(midnight + 86400 + 2.1)
    assert len(reserve(conn, 16).in_seconds) == 10


def test_a_time_zone_that_the_database_does_not_know_is_refused(
    conn: psycopg.Connection, vault: Vault
) -> None:
    limit = Limit(5, 86400, from_minute=0, zone="Mars/Olympus")
    with pytest.raises(BadLimit, match="does not know the time zone “Mars/Olympus”"), conn.transaction():
        keys.add(conn, vault, service="registry", label="a", secret="hush", limits=[limit])
    assert keys.see(conn) == []


# Tokens.


def test_tokens_are_counted_as_estimated_beside_calls(conn: psycopg.Connection, clock: Any, a_key: A) -> None:
    a_key(conn, "1000 tokens/m", "10/m")
    answer = reserve(conn, 4, tokens=[300, 300, 300, 300])
    assert len(answer.in_seconds) == 3
    assert answer.kinds == {Kind.TOKENS, Kind.CALLS}
    assert used(conn) == [900, 3]
    assert len(reserve(conn, 2, tokens=[100, 1]).in_seconds) == 1
    assert reserve(conn, 1, tokens=[1]).wait_seconds == pytest.approx(60.5, abs=0.7)
    assert len(reserve(conn, 16, tokens=[0] * 16).in_seconds) == 6  # the calls' limit


def test_an_account_that_has_the_tokens_for_a_call_goes_first(
    conn: psycopg.Connection, clock: Any, a_key: A
) -> None:
    small, large = a_key(conn, "1000 tokens/m"), a_key(conn, "90000 tokens/m")
    conn.execute(
        "UPDATE account SET load_until = %s WHERE id = (SELECT account_id FROM key WHERE id = %s)",
        (clock.at + 100, large),
    )
    assert reserve(conn, 1, tokens=[400]).key_id == small
    assert reserve(conn, 1, tokens=[900]).key_id == large
    assert reserve(conn, 1, tokens=[500]).key_id == small


def test_a_call_larger_than_the_limit_takes_all_of_it_and_does_not_wait_for_ever(
    conn: psycopg.Connection, clock: Any, a_key: A
) -> None:
    a_key(conn, "1000 tokens/m")
    assert len(reserve(conn, 2, tokens=[5000, 1]).in_seconds) == 1
    assert used(conn) == [1000]
    clock.advance(62.0)
    assert len(reserve(conn, 1, tokens=[5000]).in_seconds) == 1


def test_tokens_are_corrected_by_what_the_answer_has_cost(
    conn: psycopg.Connection, clock: Any, a_key: A
) -> None:
    a_key(conn, "1000 tokens/m")
    first = reserve(conn, 1, tokens=[600])
    clock.advance(10.0)
    second = reserve(conn, 1, tokens=[400])
    assert steering.correct(conn, first.account_id, first.at[0], estimated=600, actual=150)
    assert used(conn) == [550]
    assert steering.correct(conn, second.account_id, second.at[0], estimated=400, actual=450)
    assert used(conn) == [600]
    clock.advance(52.0)  # the first has left with what it has cost, not more
    assert used(conn) == [450]
    assert not steering.correct(conn, first.account_id, first.at[0] - 600, estimated=600, actual=1)
    assert used(conn) == [450]


def test_an_estimate_above_the_limit_is_corrected_from_what_was_counted(
    conn: psycopg.Connection, clock: Any, a_key: A
) -> None:
    a_key(conn, "1000 tokens/m")
    first = reserve(conn, 1, tokens=[5000])
    assert steering.correct(conn, first.account_id, first.at[0], estimated=5000, actual=700)
    assert used(conn) == [700]


# An even pace.


def test_a_spread_limit_hands_out_one_after_the_other(conn: psycopg.Connection, clock: Any, a_key: A) -> None:
    a_key(conn, "60/m spread")
    gap = (60 + Limit(60, 60).guard_seconds) / 60
    assert reserve(conn, 9, ahead=2.0).in_seconds == pytest.approx((0.0, gap), abs=1e-5)
    assert reserve(conn).wait_seconds == pytest.approx(2 * gap, abs=1e-5)
    clock.advance(10.0)
    assert len(reserve(conn, 9).in_seconds) == 1  # what was not used is not made up for


def test_a_spread_limit_uses_all_of_it(conn: psycopg.Connection, clock: Any, a_key: A) -> None:
    a_key(conn, "300/m spread")
    times: list[float] = []
    for _ in range(1200):
        times += [clock.at + one for one in reserve(conn, 4, ahead=0.2).in_seconds]
        clock.advance(0.1)
    gaps = [after - before for before, after in pairwise(times)]
    assert min(gaps) >= 0.2
    assert len(times) >= 600 * 0.97


def test_a_spread_day_is_headroom_for_one_job_at_its_turn(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker
) -> None:
    a_key(conn, "2000/day spread")
    who = a_worker(conn)

    def room() -> int:
        return claims.claim(conn, who.id, "registry", None, n=9, soon_seconds=2.0).room

    assert room() == 1
    reserve(conn, 5)
    assert room() == 0
    clock.advance(42.0)
    assert room() == 1


# A clock that stepped back.


@pytest.mark.parametrize("limit", ["5/10s", "500/10s", "5/10s spread"])
def test_a_clock_that_stepped_back_an_hour_neither_freezes_a_key_nor_frees_it(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker, limit: str
) -> None:
    a_key(conn, limit)
    who = a_worker(conn)
    granted = 0
    while more := len(reserve(conn, 16).in_seconds):
        granted += more
    clock.advance(-3600.0)
    room = claims.claim(conn, who.id, "registry", None, n=9, soon_seconds=2.0).room
    assert room > 0  # so that somebody asks, and what is ahead is set right
    answer = reserve(conn, 16)
    assert answer.in_seconds == ()
    assert answer.wait_seconds <= 10.0 + 2.0 + 0.2
    if "spread" not in limit:
        assert answer.wait_seconds >= 10.0
    clock.advance(answer.wait_seconds + 0.01)
    assert len(reserve(conn, 16).in_seconds) == min(granted, 16)


def test_a_clock_that_stepped_back_a_little_changes_nothing(
    conn: psycopg.Connection, clock: Any, a_key: A
) -> None:
    a_key(conn, "5/10s")
    reserve(conn, 5, ahead=0.2)
    clock.advance(-1.5)
    assert reserve(conn).wait_seconds == pytest.approx(11.6, abs=1e-5)


def test_permits_further_ahead_than_a_stepped_clock_shows_are_refused(
    conn: psycopg.Connection, a_key: A
) -> None:
    a_key(conn)
    with pytest.raises(ValueError, match="at most 2 s ahead"):
        reserve(conn, ahead=2.1)
