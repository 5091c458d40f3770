"""Limits are read as people write them, and nothing else is taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.limits import BadLimit, Limit, parse


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
    ],
)
def test_what_is_no_limit_is_refused_with_what_one_looks_like(text: str) -> None:
    with pytest.raises(BadLimit) as refused:
        parse(text)
    assert f"“{text}”" in str(refused.value)
    assert "10/s, 600/5m, 2000/day" in str(refused.value)


@given(st.builds(Limit, st.integers(1, 999_999_999), st.sampled_from([1, 7, 60, 300, 3600, 86400, 90061])))
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
    ],
)
def test_the_guard_is_a_hundredth_within_bounds_and_only_large_limits_are_coarse(
    limit: Limit, guard: float, grain: float
) -> None:
    assert limit.guard_seconds == pytest.approx(guard)
    assert limit.grain_seconds == pytest.approx(grain)
