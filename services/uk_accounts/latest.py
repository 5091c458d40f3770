"""One row for a company: the latest balance sheet beside the year before, in a named scope."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final

from services.extraction import Value
from services.uk_accounts.columns import BALANCE_SHEET, PER_PERIOD, PROFIT_AND_LOSS, RESULT, ROW
from services.uk_accounts.model import COMPANY, CONSOLIDATED, Accounts, Period

LONGEST_YEAR: Final = timedelta(days=550)
"""Companies Act 2006, s. 392(5): an accounting period is at most 18 months."""

SLACK: Final = timedelta(days=31)
"""Filers date an opening balance on the last day of the old year or on the first of the new, and years end
on the nearest Saturday; nothing else lies so near."""


def latest(accounts: Accounts) -> dict[str, Value]:
    """The columns of `columns.ROW` that the accounts fill, in that order; `…_prior` is the year before.

    The scope is the company's, unless only the consolidated accounts have a profit and loss account.
    `period_end` is the balance sheet date; where no figure stands at that date, the last date before it that
    has figures, flagged `balance_sheet_date_differs`.
    """
    row = dict(accounts.general)
    end = _end(accounts)
    if end is None:
        return {column: row[column] for column in ROW if column in row}
    stated = row.get("balance_sheet_date")
    row["period_end"] = Value(end, None, _end_flags(stated, end))
    scope = _scope(accounts, end)
    row["scope"] = Value(scope)
    start = _start(accounts, end)
    if start:
        row["period_start"] = Value(start)
    row |= _figures(accounts, scope, end)
    prior = _prior_end(accounts, scope, start, end)
    if prior:
        row |= {f"{column}_prior": value for column, value in _figures(accounts, scope, prior).items()}
    return {column: row[column] for column in ROW if column in row}


def _end(accounts: Accounts) -> date | None:
    ends = sorted({period.span.end for period in accounts.periods})
    stated = accounts.general.get("balance_sheet_date")
    if stated is None or not isinstance(stated.value, date):
        return ends[-1] if ends else None
    return max((end for end in ends if end <= stated.value), default=ends[-1] if ends else stated.value)


def _end_flags(stated: Value | None, end: date) -> tuple[str, ...]:
    return ("balance_sheet_date_differs",) if stated and stated.value != end else ()


def _scope(accounts: Accounts, end: date) -> str:
    """Consolidated when it has a balance sheet and more of a profit and loss account than the company has.

    A parent that leaves its own account out (Companies Act 2006, s. 408) still states its result in a note:
    that one line is no profit and loss account.
    """
    columns: dict[str, set[str]] = {CONSOLIDATED: set(), COMPANY: set()}
    for period in accounts.periods:
        if period.span.end == end:
            columns[period.span.scope] |= period.values.keys() | period.totals.keys()
    both = columns[CONSOLIDATED], columns[COMPANY]
    if not both[0] or not both[1]:
        return CONSOLIDATED if both[0] else COMPANY
    group, company = (_account(found) for found in both)
    return CONSOLIDATED if group > company and not both[0].isdisjoint(BALANCE_SHEET) else COMPANY


def _account(columns: set[str]) -> int:
    """2: a profit and loss account; 1: its result only; 0: neither."""
    lines = columns & PROFIT_AND_LOSS.keys()
    return 2 if lines - {RESULT} else len(lines)


def _start(accounts: Accounts, end: date) -> date | None:
    """The first day of the reporting period: the longest that ends there and can be a company's year."""
    return min(
        (start for start, last in accounts.covered if last == end and end - start <= LONGEST_YEAR),
        default=None,
    )


def _prior_end(accounts: Accounts, scope: str, start: date | None, end: date) -> date | None:
    ends = {
        period.span.end for period in accounts.periods if period.span.scope == scope and period.span.end < end
    }
    if start is None:
        return max((day for day in ends if SLACK < end - day <= LONGEST_YEAR), default=None)
    expected = start - timedelta(days=1)
    near = [day for day in ends if abs(day - expected) <= SLACK]
    return min(near, key=lambda day: abs(day - expected), default=None)


def _figures(accounts: Accounts, scope: str, end: date) -> dict[str, Value]:
    """Each column as of a date: on the day or over the year that ends there, totals of members last."""
    start = _start(accounts, end)
    periods = [*_relevant(accounts, scope, start, end)]
    figures: dict[str, Value] = {}
    for column in PER_PERIOD:
        ordered = periods if column in BALANCE_SHEET else periods[::-1]
        found = [period.values[column] for period in ordered if column in period.values]
        found += [period.totals[column] for period in ordered if column in period.totals]
        if found:
            figures[column] = found[0]
    return figures


def _relevant(accounts: Accounts, scope: str, start: date | None, end: date) -> Iterator[Period]:
    """The balance sheet's day first, the whole year last; a quarter's figures never stand for a year's."""
    day_first = sorted(accounts.periods, key=lambda period: period.span.start, reverse=True)
    for period in day_first:
        span = period.span
        on_day = span.start == span.end
        if (
            span.scope == scope
            and span.end == end
            and (on_day or (start and abs(span.start - start) <= SLACK))
        ):
            yield period
