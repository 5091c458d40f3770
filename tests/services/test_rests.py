"""How long an answer asks to wait."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from services.rests import LONGEST_SECONDS, duration_seconds, rest_seconds

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


NAMES = st.sampled_from(
    [
        "retry-after",
        "retry-after-ms",
        "ratelimit-reset",
        "x-ratelimit-reset",
        "x-ratelimit-reset-requests",
        "x-ratelimit-reset-tokens",
        "x-ratelimit-remaining-tokens",
    ]
)
VALUES = st.one_of(
    st.text(max_size=30),
    st.floats().map(str),
    st.integers().map(str),
    st.from_regex(r"\A[0-9]{1,40}(ms|s|m|h)?\Z"),
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
