"""What a company's annual reports at the SEC say, fact by fact, with damaged and foreign facts left out.

A companyfacts answer holds each fact as often as it was filed. `fy` and `fp` describe the filing and not
the fact, so everything here goes by `start`, `end`, `form` and `filed`.
Source: SEC, "EDGAR application programming interfaces", companyfacts.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

Number: TypeAlias = Decimal | int

ANNUAL_FORMS = ("10-K", "10-K/A", "20-F", "20-F/A", "40-F", "40-F/A")
YEAR_DAYS = range(350, 381)

_UNIT = re.compile(r"shares|([A-Z]{3})(?:/shares)?")
_ABSURD = 10**20  # more than any company has, and small enough for exact differences


@dataclass(frozen=True, slots=True)
class Fact:
    """One number as one annual report has it. `start` is None for an instant, `currency` for shares."""

    tag: str
    unit: str
    currency: str | None
    start: date | None
    end: date
    value: Number
    filed: date
    accession: str
    form: str


def read(body: bytes) -> Any:
    """A companyfacts answer without what no annual report says, which is most of it; every number exact.

    Raises `ValueError` when it is not JSON.
    """
    try:
        return json.loads(body, parse_float=Decimal, object_hook=_only_annual)
    except RecursionError as error:
        raise ValueError("the JSON is nested too deep") from error


def _only_annual(found: dict[str, Any]) -> dict[str, Any] | None:
    return None if "accn" in found and found.get("form") not in ANNUAL_FORMS else found


class Filed:
    """A company's annual facts by tag and period end.

    Where filings differ the last filed is preferred, or with `first_filed` the first. Of each filing only
    the currency with most facts counts: the others are translations for the reader's convenience.
    """

    def __init__(
        self, document: Mapping[str, Any], flows: Iterable[str], instants: Iterable[str], first_filed: bool
    ) -> None:
        self._first_filed = first_filed
        facts = [fact for tag in flows for fact in _facts(document, tag) if _days(fact) in YEAR_DAYS]
        facts += [fact for tag in instants for fact in _facts(document, tag) if fact.start is None]
        self._facts: dict[tuple[str, date], list[Fact]] = defaultdict(list)
        for fact in self.by_preference(_in_reporting_currency(facts)):
            self._facts[fact.tag, fact.end].append(fact)
        self.ends = sorted({end for _, end in self._facts})
        years = {(fact.start, fact.end) for fact in facts if fact.start}
        self._year_ends = {end for _, end in years} | {start - timedelta(days=1) for start, _ in years}

    def ends_a_year(self, end: date) -> bool:
        """A company that reported no whole year yet has no other year ends to measure by."""
        return end in self._year_ends or not self._year_ends

    def of(self, tags: Iterable[str], end: date) -> list[Fact]:
        """All facts of a period, in the order of the tags."""
        return [fact for tag in tags for fact in self._facts.get((tag, end), ())]

    def first_of(self, tags: Iterable[str], end: date) -> Fact | None:
        """The first tag that was reported for the period, from the preferred filing."""
        return next(iter(self.of(tags, end)), None)

    def by_preference(self, facts: Iterable[Fact]) -> list[Fact]:
        """The preferred filing first; within a filing the order stays."""
        return sorted(facts, key=lambda fact: (fact.filed, fact.accession), reverse=not self._first_filed)

    def beside(self, fact: Fact, tags: Iterable[str]) -> list[Fact]:
        """Facts of the same filing and period."""
        return [
            other
            for other in self.of(tags, fact.end)
            if (other.accession, other.start) == (fact.accession, fact.start)
        ]


def _days(fact: Fact) -> int:
    return (fact.end - fact.start).days if fact.start else 0


def _in_reporting_currency(facts: list[Fact]) -> list[Fact]:
    overall = Counter(fact.currency for fact in facts)
    by_filing: dict[str, Counter[str]] = defaultdict(Counter)
    for fact in facts:
        if fact.currency:
            by_filing[fact.accession][fact.currency] += 1
    reporting = {
        accession: max(counts, key=lambda currency: (counts[currency], overall[currency], currency))
        for accession, counts in by_filing.items()
    }
    return [fact for fact in facts if fact.currency in (None, reporting.get(fact.accession))]


def _facts(document: Mapping[str, Any], tag: str) -> Iterator[Fact]:
    taxonomy, _, name = tag.partition(":")
    units = _mapping(_mapping(_mapping(_mapping(document.get("facts")).get(taxonomy)).get(name)).get("units"))
    for unit, found in units.items():
        if (match := _UNIT.fullmatch(unit)) and isinstance(found, list):
            for item in found:
                if (fact := _fact(tag, unit, match[1], item)) is not None:
                    yield fact


def _fact(tag: str, unit: str, currency: str | None, item: Any) -> Fact | None:
    """None for what no annual report says, and for what cannot be: no date, no number, the future."""
    if not isinstance(item, dict) or item.get("form") not in ANNUAL_FORMS:
        return None
    value, accession = item.get("val"), item.get("accn")
    if not isinstance(value, Decimal | int) or isinstance(value, bool) or not -_ABSURD < value < _ABSURD:
        return None
    start, end, filed = (_date(item.get(key)) for key in ("start", "end", "filed"))
    if end is None or filed is None or end > filed or not isinstance(accession, str):
        return None
    if start is None and item.get("start") is not None:
        return None
    return Fact(tag, unit, currency, start, end, value, filed, accession, item["form"])


def _date(text: Any) -> date | None:
    try:
        return date.fromisoformat(text)
    except (TypeError, ValueError):
        return None


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}
