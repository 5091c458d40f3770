"""Limits are read as people write them, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.limits import BadLimit, Kind, Limit, parse


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("10/s", Limit(10, 1)),
        ("600/5m", Limit(600, 300)),
        ("300/min", Limit(300, 60)),
        ("2000/day", Limit(2000, 86400)),
        (" 5 calls / 2 Hours ", Limit(5, 7200)),
        ("20/10secs", Limit(20, 10)),
        ("1/86400s", Limit(1, 86400)),
        ("7/3d", Limit(7, 3 * 86400)),
        ("600/5m spread", Limit(600, 300, is_spread=True)),
        ("90000 tokens/m", Limit(90_000, 60, Kind.TOKENS)),
        ("900tokens / 10 s  Spread", Limit(900, 10, Kind.TOKENS, is_spread=True)),
        ("5 at once", Limit(5, 0, Kind.AT_ONCE)),
        ("2000/day from 00:00 UTC", Limit(2000, 86400, from_minute=0, zone="UTC")),
        ("2000/day from 00:00 utc", Limit(2000, 86400, from_minute=0, zone="UTC")),
        ("9 / 24h from 06:30 America/New_York", Limit(9, 86400, from_minute=390, zone="America/New_York")),
    ],
)
def test_limits_are_read(text: str, limit: Limit) -> None:
    assert parse(text) == limit


@pytest.mark.parametrize(
    "text",
    [
        "abc",
        "",
        "10",
        "10/",
        "/s",
        "10/fortnight",
        "10/ms",
        "10/ss",
        "-1/s",
        "1.5/s",
        "10/s/s",
        "0/s",
        "10/0s",
        "10/400d",
        "10/99999d",
        "10000000000/s",
        "10/s; 5/m",
        "10 / s more",
        "0 at once",
        "5 at once spread",
        "5at once",
        "10/m from 00:00 UTC",
        "10/2days from 00:00 UTC",
        "10/day from 24:00 UTC",
        "10/day from 00:60 UTC",
        "10/day from 00:00",
        "10/day spread from 00:00 UTC",
        "10 dollars/day",
    ],
)
def test_what_is_no_limit_is_refused_with_what_one_looks_like(text: str) -> None:
    with pytest.raises(BadLimit) as refused:
        parse(text)
    assert f"“{text}”" in str(refused.value)
    assert "10/s, 600/5m, 2000/day" in str(refused.value)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "America", "/etc/localtime", "EST5XYZ"])
def test_a_time_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(BadLimit, match=f"“{zone}” is no time zone. Write UTC, or one such as Europe/London"):
        parse(f"10/day from 00:00 {zone}")


AMOUNT = st.integers(1, 999_999_999)
ZONES = st.sampled_from(["UTC", "Europe/London", "America/Argentina/Buenos_Aires", "Etc/GMT+5"])


@given(
    st.one_of(
        st.builds(
            Limit,
            AMOUNT,
            st.sampled_from([1, 7, 60, 300, 3600, 86400, 90061]),
            st.sampled_from([Kind.CALLS, Kind.TOKENS]),
            st.booleans(),
        ),
        st.builds(
            Limit,
            AMOUNT,
            st.just(86400),
            st.sampled_from([Kind.CALLS, Kind.TOKENS]),
            st.booleans(),
            st.integers(0, 1439),
            ZONES,
        ),
        st.builds(Limit, AMOUNT, st.just(0), st.just(Kind.AT_ONCE)),
    )
)
def test_a_limit_is_read_back_as_it_is_shown(limit: Limit) -> None:
    assert parse(str(limit)) == limit


@pytest.mark.parametrize(
    ("limit", "shown"), [(Limit(600, 300), "600/5m"), (Limit(10, 1), "10/s"), (Limit(1, 90), "1/90s")]
)
def test_a_limit_is_shown_in_its_largest_unit(limit: Limit, shown: str) -> None:
    assert str(limit) == shown


@pytest.mark.parametrize(
    ("limit", "guard", "grain"),
    [
        (Limit(10, 1), 0.06, 0.0),
        (Limit(100, 20), 0.2, 0.0),
        (Limit(101, 60), 0.5, 0.6),
        (Limit(2000, 86400), 0.5, 864.0),
        (Limit(2000, 86400, from_minute=0, zone="UTC"), 2.0, 0.0),
        (Limit(500, 0, Kind.AT_ONCE), 3.0, 0.0),
    ],
)
def test_the_guard_is_a_hundredth_within_bounds_and_only_large_limits_are_coarse(
    limit: Limit, guard: float, grain: float
) -> None:
    assert limit.guard_seconds == pytest.approx(guard)
    assert limit.grain_seconds == pytest.approx(grain)
