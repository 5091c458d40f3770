from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import limits
from webapp import formats


@pytest.mark.parametrize(
    ("n", "words"),
    [
        (0, "0"),
        (12480, "12,480"),
        (999_999, "999,999"),
        (1_000_000, "1.00 M"),
        (1_249_999, "1.24 M"),
        (12_345_678_901, "12.34 bn"),
    ],
)
def test_tiles_abbreviate_only_what_is_large(n: int, words: str) -> None:
    assert formats.tile(n) == words


@pytest.mark.parametrize(
    ("part", "whole", "words"),
    [
        (0, 0, "–"),
        (0, 9, "0%"),
        (445, 1000, "44.5%"),
        (1, 100_000, "<0.1%"),
        (99_999, 100_000, "99.9%"),
        (7, 7, "100%"),
    ],
)
def test_a_hundred_percent_means_all(part: int, whole: int, words: str) -> None:
    assert formats.percent(part, whole) == words


@given(part=st.integers(0, 10**9), whole=st.integers(1, 10**9))
def test_percent_says_100_of_all_and_0_of_none(part: int, whole: int) -> None:
    words = formats.percent(min(part, whole), whole)
    assert (words == "100%") == (part >= whole)
    assert (words == "0%") == (part == 0)
    assert "100.0%" not in words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.85, "850 ms"),
        (0.9996, "1.0 s"),
        (3.41, "3.4 s"),
        (9.96, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 m 00 s"),
        (245, "4 m 05 s"),
        (9060, "2 h 31 m"),
        (3 * 86400 + 4 * 3600 + 59, "3 d 4 h"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, words: str) -> None:
    assert formats.duration(seconds) == words


@given(st.floats(0, 10**9))
def test_no_duration_has_sixty_of_anything(seconds: float) -> None:
    hours = r"(1?\d|2[0-3]) h"
    shape = rf"\d+ ms|\d\.\d s|[1-5]?\d s|[1-5]?\d m [0-5]\d s|{hours} [0-5]\d m|\d+ d {hours}"
    assert re.fullmatch(shape, formats.duration(seconds))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "under a minute"),
        (59, "under a minute"),
        (560, "9 m"),
        (3900, "1 h 05 m"),
        (3700, "1 h 00 m"),
        (90_000, "1 d 1 h"),
    ],
)
def test_a_forecast_is_no_finer_than_it_can_be_known(seconds: float, words: str) -> None:
    assert formats.span(seconds) == words


@given(st.floats(0, 10**8), st.floats(0, 10**8))
def test_forecasts_keep_their_order(one: float, other: float) -> None:
    def minutes(words: str) -> int:
        if words == "under a minute":
            return 0
        size = {"d": 1440, "h": 60, "m": 1, "s": 0}
        return sum(int(n) * size[unit] for n, unit in re.findall(r"(\d+) (\w)", words))

    low, high = sorted((one, other))
    assert minutes(formats.span(low)) <= minutes(formats.span(high))


@pytest.mark.parametrize(
    ("per_minute", "words"),
    [
        (0, "–"),
        (0.001, "1/h"),
        (0.63, "38/h"),
        (94.4, "94/min"),
        (599, "599/min"),
        (600, "10.0/s"),
        (144, "144/min"),
        (9000, "150/s"),
    ],
)
def test_rates_are_per_minute_where_that_can_be_read(per_minute: float, words: str) -> None:
    assert formats.rate(per_minute) == words


@pytest.mark.parametrize(
    ("n", "words"),
    [
        (0, "0 B"),
        (850, "850 B"),
        (14_000, "14 KB"),
        (999_600, "1.0 MB"),
        (212_000_000, "212 MB"),
        (5e12, "5,000 GB"),
    ],
)
def test_sizes_count_in_thousands(n: float, words: str) -> None:
    assert formats.size(n) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("600/5m", "600 / 5 m"),
        ("8/s spread", "8 / s spread"),
        ("2000/day", "2,000 / day"),
        ("2000/day from 06:30 Europe/London", "2,000 / day from 06:30 Europe/London"),
        ("90000 tokens/m", "90,000 tokens / m"),
        ("5/90s", "5 / 90 s"),
        ("12 at once", "12 at once"),
    ],
)
def test_limits_are_read_as_they_are_written(text: str, words: str) -> None:
    assert formats.limit(limits.parse(text)) == words


def test_counted_things_agree_with_their_number() -> None:
    assert formats.counted(1, "job") == "1 job"
    assert formats.counted(12_480, "company", "companies") == "12,480 companies"
