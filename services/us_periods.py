"""Which of the dates in a company's reports are the ends of its periods, and of which fiscal year."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from datetime import date, timedelta

_ONE_PERIOD = timedelta(days=45)
_WEEKS_DRIFT = timedelta(days=7)
_LONGEST_YEAR = timedelta(days=380)


def distinct(ends: Mapping[date, int]) -> list[date]:
    """One end for each period, the latest first; `ends` says how many fields each has.

    A slip of some filing may date a period some days off: of ends within 45 days the fullest counts.
    """
    groups: list[list[date]] = []
    for end in sorted(ends, reverse=True):
        if groups and groups[-1][0] - end <= _ONE_PERIOD:
            groups[-1].append(end)
        else:
            groups.append([end])
    return [max(group, key=lambda end: (ends[end], end)) for group in groups]


def fiscal_year(end: date, year_ends: Sequence[date] = ()) -> int:
    """The calendar year in which the fiscal year ends that a period ending on `end` belongs to.

    Years of 52 or 53 weeks that are meant to end with December may end up to a week into January: they
    belong to the year before. `year_ends` in order: what the company reported of its years; a date after
    all of them lies in the year that follows the last.
    """
    place = bisect_left(year_ends, end - _WEEKS_DRIFT)
    if place < len(year_ends) and year_ends[place] - end < _LONGEST_YEAR:
        return _label(year_ends[place])
    if place and end - year_ends[place - 1] <= _LONGEST_YEAR:
        return _label(year_ends[place - 1]) + 1
    return _label(end)


def ends_in_year(ends: Sequence[date], year_ends: Sequence[date], year: int) -> list[date]:
    """The ends, latest first, from the last one in a fiscal year on; none when there is none in it."""
    places = [i for i, end in enumerate(ends) if fiscal_year(end, year_ends) == year]
    return list(ends[places[0] :]) if places else []


def _label(end: date) -> int:
    return (end - _WEEKS_DRIFT).year
