"""Dates as contexts and as people write them."""

from __future__ import annotations

import re
from datetime import date, timedelta
from functools import lru_cache
from typing import Final

from services.ixbrl.figures import transform_name

EARLIEST_YEAR: Final = 1600
LATEST_YEAR: Final = 2200
"""A company cannot report for the year 0001; such dates are slips of software and are read as missing."""

_CONTEXT_DATE: Final = re.compile(r"\s*(\d{4})-(\d{2})-(\d{2})(T[\d:.]+)?(?:Z|[+-]\d{2}:\d{2})?\s*\Z")
_NUMBER: Final = re.compile(r"\d+")
_WORD: Final = re.compile(r"[^\W\d_]{3,}")
_MONTHS: Final = {
    name: month
    for month, names in enumerate(
        (
            "jan ion", "feb chw", "mar maw", "apr ebr", "may mai", "jun meh",
            "jul gor", "aug aws", "sep med", "oct hyd", "nov tac", "dec rha",
        ),
        start=1,
    )
    for name in names.split()
}  # fmt: skip
_MONTH_FIRST: Final = ("dateslashus", "datedotus", "dateshortus", "datelongus", "datemonth")
_NUMBERS_IN_A_DATE: Final = 3


@lru_cache(maxsize=1024)
def context_date(text: str, *, ends: bool = False) -> date | None:
    """The date of a period's element; None when absurd. With `ends`, midnight belongs to the day before.

    XBRL 2.1, 4.7.2: an end without a time means the end of that day, so 2021-01-01T00:00:00 is 2020-12-31.
    """
    found = _CONTEXT_DATE.match(text)
    if not found:
        return None
    day = _date(int(found[1]), int(found[2]), int(found[3]))
    midnight = found[4] is not None and not found[4].strip("T0:.")
    return day - timedelta(days=1) if day and ends and midnight else day


def printed_date(text: str, format_name: str | None = None) -> date | None:
    """`31 October 2017`, `31.3.19`, `March 29, 2025`, `2020-12-31`; None when it is not one whole date.

    Day before month unless the format, or a month in words before the day, says otherwise. A year of two
    digits is in this century, as the transformation registry has it.
    """
    numbers = [*_NUMBER.finditer(text[:100])]
    month = _named_month(text[:100])
    if month and len(numbers) == _NUMBERS_IN_A_DATE - 1:
        first, second = (number.group() for number in numbers)
        year, day = (first, second) if len(first) == 4 else (second, first)  # noqa: PLR2004
        return _date(_year(year), month, int(day))
    if month or len(numbers) < _NUMBERS_IN_A_DATE:
        return None
    first, second, third = (number.group() for number in numbers[:3])
    if len(first) == 4:  # noqa: PLR2004
        return _date(int(first), int(second), int(third))
    name = transform_name(format_name) if format_name else ""
    day, month_number = (second, first) if name.startswith(_MONTH_FIRST) else (first, second)
    return _date(_year(third), int(month_number), int(day))


def _named_month(text: str) -> int | None:
    for word in _WORD.findall(text.lower()):
        if word[:3] in _MONTHS:
            return _MONTHS[word[:3]]
    return None


def _year(digits: str) -> int:
    return int(digits) + 2000 if len(digits) <= 2 else int(digits[:9])  # noqa: PLR2004


def _date(year: int, month: int, day: int) -> date | None:
    if not EARLIEST_YEAR <= year <= LATEST_YEAR:
        return None
    try:
        return date(year, month, day)
    except ValueError:
        return None
