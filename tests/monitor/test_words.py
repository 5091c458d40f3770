from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.words import because, count, duration, one_line, quoted


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3600, "1 h"),
        (12_000, "3 h 20 min"),
        (86400, "1 d"),
        (190_000, "2 d 4 h"),
    ],
)
def test_durations_have_two_parts_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_counts_agree_with_their_noun() -> None:
    assert [count(n, "job") for n in (0, 1, 7412)] == ["0 jobs", "1 job", "7,412 jobs"]


def test_a_reason_is_added_when_there_is_one() -> None:
    assert (because(None), because(" \n "), because("a\r\nb")) == ("", "", ": a b")


@given(st.text(max_size=500))
def test_no_text_leaves_its_line(text: str) -> None:
    flat = one_line(text, 80)
    assert len(flat) <= 80
    assert flat.isprintable()
    assert quoted(text) == f"“{flat}”"
