"""A filing in columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Final, NamedTuple

from services.extraction import Source, Value
from services.ixbrl import Fact
from services.uk_accounts.columns import GROUP

CONSOLIDATED: Final = "consolidated"
COMPANY: Final = "company"
LONGEST_POSITION: Final = 100


class Span(NamedTuple):
    """A period of one scope; `start` equals `end` for a balance sheet's day."""

    scope: str
    start: date
    end: date


@dataclass(frozen=True, slots=True)
class Period:
    """The columns that a filing fills for one period and scope.

    `totals` are columns known only as the total member of some dimension (turnover of all segments), each
    flagged `total_member`. They stand apart because no fact says them of the entity itself.
    """

    span: Span
    values: Mapping[str, Value]
    totals: Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Accounts:
    """`general` holds the columns of `columns.GENERAL` that were found.

    `periods`: consolidated before company, latest first. `covered`: every period that any fact covers.
    """

    general: Mapping[str, Value]
    periods: tuple[Period, ...]
    covered: frozenset[tuple[date, date]]
    flags: tuple[str, ...]


def scope_and_rest(dimensions: Mapping[str, str]) -> tuple[str, list[tuple[str, str]]]:
    """The scope that dimensions name, and what else narrows them; the company's without a group member."""
    rest = [
        (name, member) for name, member in dimensions.items() if (name, member) != (GROUP, "Consolidated")
    ]
    return (COMPANY if len(rest) == len(dimensions) else CONSOLIDATED), rest


def source_of(fact: Fact, origin: Source) -> Source:
    """Where a fact stands: its tag, context, unit and period, in the document of `origin`."""
    return replace(
        origin,
        tag=fact.name,
        context=fact.context_id,
        unit=fact.unit,
        period_start=fact.start,
        period_end=fact.end,
        position=fact.position[:LONGEST_POSITION],
    )
