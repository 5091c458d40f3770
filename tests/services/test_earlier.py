"""Columns of earlier periods are named in one way, which is read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services import earlier


@pytest.mark.parametrize(
    ("name", "back", "column"),
    [
        ("revenue", 0, "revenue"),
        ("revenue", 1, "revenue_prior"),
        ("revenue", 2, "revenue_prior_2"),
        ("revenue", 12, "revenue_prior_12"),
    ],
)
def test_a_column_says_how_many_periods_before(name: str, back: int, column: str) -> None:
    assert earlier.column(name, back) == column
    assert earlier.split(column) == (name, back)


@given(st.from_regex(r"[a-z]+(_[a-z0-9]+)*", fullmatch=True), st.integers(0, 40))
def test_every_column_is_read_back(name: str, back: int) -> None:
    if earlier.split(name)[1] == 0:
        assert earlier.split(earlier.column(name, back)) == (name, back)


def test_the_furthest_column_counts() -> None:
    assert earlier.furthest(["a_prior_3", "b_prior", "c"]) == 3
    assert earlier.furthest([]) == 0
