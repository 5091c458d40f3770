"""How long an answer asks to wait."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from services.moments import duration_seconds
from services.rests import LONGEST_SECONDS, Unit, budgets, rest_seconds

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.798"}, 1.798),
        ({"retry-after": "Tue, 14 Nov 2023 22:14:20 GMT"}, 60),
        ({"retry-after": "Tue, 14 Nov 2023 22:00:00 GMT"}, 0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"x-ratelimit-reset": "1700000300"}, 300),
        ({"x-ratelimit-reset": "1700000300000"}, 300),
        ({"x-ratelimit-reset": "42"}, 42),
        ({"x-ratelimit-reset": "1600000000"}, 0),
        ({"ratelimit-reset": "12"}, 12),
        ({"retry-after": "5", "x-ratelimit-reset": "1700000300"}, 5),
        ({"retry-after": "soon", "x-ratelimit-reset": "1700000300"}, 300),
        ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-reset-tokens": "20ms"}, 360),
        (
            {
                "x-ratelimit-reset-requests": "6m0s",
                "x-ratelimit-remaining-requests": "9",
                "x-ratelimit-reset-tokens": "20ms",
                "x-ratelimit-remaining-tokens": "0",
            },
            0.02,
        ),
        ({"ratelimit": '"default";r=0;t=30'}, 30),
        ({"ratelimit": "limit=100, remaining=0, reset=5"}, 5),
        ({"x-ratelimit-reset": "2023-11-14T22:14:20Z"}, 60),
        ({"x-ratelimit-reset": "2023-11-14T23:14:20+01:00"}, 60),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "99999999"}, LONGEST_SECONDS),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "Tue, 14 Nov 99999 22:14:20 GMT"}, None),
    ],
)
def test_every_family_of_headers_is_understood(headers: dict[str, str], seconds: float | None) -> None:
    assert rest_seconds(headers, NOW) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("6m0s", 360),
        ("20ms", 0.02),
        ("1h2m3.5s", 3723.5),
        ("2d", 172_800),
        ("8.64s", 8.64),
        ("3", 3),
        ("5x", None),
    ],
)
def test_durations_add_up(text: str, seconds: float | None) -> None:
    assert duration_seconds(text) == (None if seconds is None else pytest.approx(seconds))


CALLS, TOKENS = Unit.CALLS, Unit.TOKENS


@pytest.mark.parametrize(
    ("headers", "found"),
    [
        ({}, []),
        ({"x-ratelimit-remaining": "3"}, []),
        ({"x-ratelimit-remain": "0", "x-ratelimit-reset": "1700000042"}, [(CALLS, 0, 42)]),
        ({"x-ratelimit-remaining": "7", "x-ratelimit-reset": "60"}, [(CALLS, 7, 60)]),
        ({"x-ratelimit-remaining": "7", "x-ratelimit-reset": "2023-11-14T22:14:20Z"}, [(CALLS, 7, 60)]),
        ({"ratelimit-remaining": "0", "ratelimit-reset": "12"}, [(CALLS, 0, 12)]),
        ({"ratelimit": "limit=100, remaining=50, reset=5"}, [(CALLS, 50, 5)]),
        ({"ratelimit": '"default";r=50;t=30'}, [(CALLS, 50, 30)]),
        (
            {
                "ratelimit": '"burst";r=5;t=1, "daily";r=0',
                "ratelimit-policy": '"burst";q=10;w=1,"daily";q=1000;w=86400',
            },
            [(CALLS, 5, 1), (CALLS, 0, 86_400)],
        ),
        ({"ratelimit": '"size";r=9;t=30', "ratelimit-policy": '"size";q=99;w=60;qu="content-bytes"'}, []),
        (
            {
                "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-reset-requests": "6m0s",
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "88ms",
            },
            [(CALLS, 59, 360), (TOKENS, 0, 0.088)],
        ),
        ({"x-ratelimit-remaining": "many", "x-ratelimit-reset": "60"}, []),
        ({"x-ratelimit-remaining": "-4", "x-ratelimit-reset": "-60"}, [(CALLS, 0, 0)]),
    ],
)  # fmt: skip
def test_what_is_left_is_read_from_every_family(
    headers: dict[str, str], found: list[tuple[Unit, int, float]]
) -> None:
    told = budgets(headers, NOW)
    assert [(one.unit, one.left) for one in told] == [(unit, left) for unit, left, _ in found]
    assert [one.reset_seconds for one in told] == pytest.approx([reset for *_, reset in found])


NAMES = st.sampled_from(
    [
        "retry-after",
        "retry-after-ms",
        "ratelimit-reset",
        "x-ratelimit-reset",
        "x-ratelimit-reset-requests",
        "x-ratelimit-reset-tokens",
        "x-ratelimit-remaining-tokens",
        "x-ratelimit-remaining",
        "x-ratelimit-remain",
        "ratelimit",
        "ratelimit-policy",
    ]
)
VALUES = st.one_of(
    st.text(max_size=30),
    st.floats().map(str),
    st.integers().map(str),
    st.from_regex(r"\A[0-9]{1,40}(ms|s|m|h)?\Z"),
    st.datetimes().map(lambda moment: f"{moment.isoformat()}+23:59"),
    st.from_regex(r'\A("[a-z]*";r=[0-9]{1,30};t=[0-9]{0,30},? ?){1,3}\Z'),
    st.from_regex(r"\A(remaining|reset)=[0-9a-z.]{1,20}, ?(reset|remaining|limit)=[0-9a-z.]{1,400}\Z"),
    st.datetimes().map(lambda moment: moment.strftime("%a, %d %b %Y %H:%M:%S GMT")),
)


@given(st.dictionaries(NAMES, VALUES), st.floats(0, 4e9))
@example({"x-ratelimit-reset-tokens": "9" * 400 + "s"}, NOW)
@example({"retry-after": "Mon, 01 Jan 0001 00:00:00 +2359"}, NOW)
@example({"retry-after": "1e400"}, NOW)
def test_a_rest_is_never_negative_and_at_most_a_day_whatever_the_headers(
    headers: dict[str, str], now: float
) -> None:
    seconds = rest_seconds(headers, now)
    assert seconds is None or 0 <= seconds <= LONGEST_SECONDS
    for budget in budgets(headers, now):
        assert 0 <= budget.reset_seconds <= LONGEST_SECONDS
        assert 0 <= budget.left <= 2_000_000_000
