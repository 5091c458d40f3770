"""A date belongs to one period and one fiscal year, whatever the weeks do."""

from __future__ import annotations

from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.us_periods import distinct, ends_in_year, fiscal_year


@pytest.mark.parametrize(
    ("end", "year"),
    [
        (date(2021, 12, 31), 2021),
        (date(2022, 1, 1), 2021),  # the Saturday nearest to the end of December
        (date(2021, 1, 3), 2020),
        (date(2021, 1, 31), 2021),  # Nvidia calls it fiscal 2021, Target calls the year to 2021-01-30 2020
        (date(2021, 9, 25), 2021),
    ],
)
def test_a_fiscal_year_is_named_by_the_calendar_year_in_which_it_ends(end: date, year: int) -> None:
    assert fiscal_year(end) == fiscal_year(end, [end]) == year


@pytest.mark.parametrize(
    ("end", "year"),
    [
        (date(2023, 12, 30), 2024),
        (date(2024, 9, 28), 2024),
        (date(2024, 12, 28), 2025),  # after the last year that was reported
        (date(2022, 12, 31), 2023),
    ],
)
def test_a_quarter_belongs_to_the_fiscal_year_it_lies_in(end: date, year: int) -> None:
    assert fiscal_year(end, [date(2022, 9, 24), date(2023, 9, 30), date(2024, 9, 28)]) == year


@given(st.dates(date(1995, 1, 1), date(2090, 1, 1)), st.integers(2, 20), st.data())
def test_years_of_52_and_53_weeks_have_one_label_each(first: date, count: int, data: st.DataObject) -> None:
    """The nearest Saturday to a fixed day: consecutive years never share a label and none is left out."""
    month, day = data.draw(st.sampled_from([(12, 31), (1, 31), (6, 30), (9, 30), (8, 31)]))
    anchors = [date(first.year + n, month, day) for n in range(count)]
    ends = [anchor + timedelta(days=(8 - anchor.weekday()) % 7 - 3) for anchor in anchors]
    labels = [fiscal_year(end, ends) for end in ends]
    assert labels == list(range(labels[0], labels[0] + count))


@given(st.dictionaries(st.dates(date(2000, 1, 1), date(2030, 1, 1)), st.integers(1, 20), max_size=30))
def test_distinct_ends_are_in_order_and_none_is_invented(ends: dict[date, int]) -> None:
    found = distinct(ends)
    assert found == sorted(found, reverse=True)
    assert set(found) <= ends.keys()
    assert bool(found) == bool(ends)


def test_a_slip_of_some_days_makes_no_period_of_its_own() -> None:
    ends = {date(2024, 12, 31): 9, date(2025, 1, 2): 1, date(2023, 12, 31): 9, date(2023, 12, 1): 2}
    assert distinct(ends) == [date(2024, 12, 31), date(2023, 12, 31)]


def test_a_year_that_was_not_reported_has_no_ends() -> None:
    ends = [date(2024, 12, 31), date(2022, 12, 31)]
    assert ends_in_year(ends, sorted(ends), 2024) == ends
    assert ends_in_year(ends, sorted(ends), 2022) == ends[1:]
    assert ends_in_year(ends, sorted(ends), 2021) == []
