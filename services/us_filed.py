"""What a company's reports at the SEC say, fact by fact, with damaged and foreign facts left out.

A companyfacts answer holds each fact as often as it was filed. `fy` and `fp` describe the filing and not
the fact, so everything here goes by `start`, `end`, `form` and `filed`.
Source: SEC, "EDGAR application programming interfaces", companyfacts.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any, TypeAlias

from services import json_limits
from services.ixbrl.dates import EARLIEST_YEAR, LATEST_YEAR

Number: TypeAlias = Decimal | int

ANNUAL_FORMS = ("10-K", "10-K/A", "20-F", "20-F/A", "40-F", "40-F/A")
QUARTERLY_FORMS = ("10-Q", "10-Q/A", "10-QT", "10-QT/A", "6-K", "6-K/A")
YEAR_DAYS = range(350, 381)
QUARTER_DAYS = range(75, 126)  # calendar quarters, 12 to 14 weeks; some close the year with 16 or 17

_KEYS = ("start", "end", "val", "accn", "fy", "fp", "form", "filed", "frame")
_UNIT = re.compile(r"shares|([A-Z]{3})(?:/shares)?")
_ABSURD = 10**20  # more than any company has, and small enough for exact differences


@dataclass(frozen=True, slots=True)
class Length:
    """How long a period is, and which reports tell of such periods.

    `built_from`: how long the periods are of which one can be the difference.
    """

    forms: tuple[str, ...]
    days: range
    built_from: range


YEAR = Length(ANNUAL_FORMS, YEAR_DAYS, range(0))
QUARTER = Length((*ANNUAL_FORMS, *QUARTERLY_FORMS), QUARTER_DAYS, range(QUARTER_DAYS.start, YEAR_DAYS.stop))


@dataclass(frozen=True, slots=True)
class Fact:
    """One number as one report has it. `start` is None for an instant, `currency` for shares.

    `difference`: of which two periods it is the difference, such as a year less its first nine months.
    """

    tag: str
    unit: str
    currency: str | None
    start: date | None
    end: date
    value: Number
    filed: date
    accession: str
    form: str
    difference: str | None = None


def read(body: bytes, length: Length = YEAR) -> Any:
    """A companyfacts answer without what no report of such periods says, which is most of it for years.

    Every number is exact. Raises `ValueError`: it is no JSON, or takes too much memory.
    """

    def told(found: dict[str, Any]) -> dict[str, Any] | None:
        return None if "accn" in found and found.get("form") not in length.forms else found

    return json_limits.loads(body, told, _KEYS)


def read_all(body: bytes) -> Any:
    """A companyfacts answer with the facts of every report. Raises as `read` does."""
    return json_limits.loads(body, None, _KEYS)


class Filed:
    """A company's facts of periods of one length, by tag and period end.

    Where filings differ the last filed is preferred, or with `first_filed` the first. Of each filing only
    the currency with most facts counts: the others are translations for the reader's convenience.
    `sums` are the tags of `flows` whose quarters add up to the year.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        flows: Iterable[str],
        instants: Iterable[str],
        sums: Iterable[str],
        first_filed: bool,
        length: Length = YEAR,
    ) -> None:
        self._first_filed = first_filed
        facts = [
            fact
            for tag in flows
            for fact in _facts(document, tag, length.forms)
            if _days(fact) in length.days or _days(fact) in length.built_from
        ]
        facts += [fact for tag in instants for fact in _facts(document, tag, length.forms) if not fact.start]
        facts = self.by_preference(_in_reporting_currency(facts))
        self._facts: dict[tuple[str, date], list[Fact]] = defaultdict(list)
        for fact in facts:
            if fact.start is None or _days(fact) in length.days:
                self._facts[fact.tag, fact.end].append(fact)
        parts = [fact for fact in facts if _days(fact) in length.built_from and fact.tag in sums]
        for fact in _differences(parts):
            self._facts.setdefault((fact.tag, fact.end), [fact])
        self.ends = sorted({end for _, end in self._facts})
        self.year_ends = sorted(_edges(fact for fact in facts if _days(fact) in YEAR_DAYS))
        told = list(itertools.chain.from_iterable(self._facts.values()))
        self._edges = _edges(told)
        self._beside: dict[tuple[str, date | None, date, str], list[Fact]] = defaultdict(list)
        for fact in told:
            self._beside[fact.accession, fact.start, fact.end, fact.tag].append(fact)

    def ends_a_period(self, end: date) -> bool:
        """A company that reported no whole period yet has no other ends to measure by."""
        return end in self._edges or not self._edges

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
        of = fact.accession, fact.start, fact.end
        return [other for tag in tags for other in self._beside.get((*of, tag), ())]


def _edges(facts: Iterable[Fact]) -> set[date]:
    """The days on which periods end, and those before they begin."""
    spans = {(fact.start, fact.end) for fact in facts if fact.start}
    return {end for _, end in spans} | {start - timedelta(days=1) for start, _ in spans if start}


def _days(fact: Fact) -> int:
    return (fact.end - fact.start).days if fact.start else 0


def _differences(facts: Iterable[Fact]) -> Iterator[Fact]:
    """Quarters that no report states: what a longer period has more than one that ends a quarter earlier.

    Cash flows of a 10-Q are of the year so far, and a 10-K says nothing of the last quarter. Of two filings
    of one period the preferred one counts, which is the first of `facts`.
    """
    told: dict[tuple[str, str, date | None], dict[date, Fact]] = defaultdict(dict)
    for fact in facts:
        told[fact.tag, fact.unit, fact.start].setdefault(fact.end, fact)
    for by_end in told.values():
        ends = sorted(by_end)
        for before, end in itertools.pairwise(ends):
            if (end - before).days in QUARTER_DAYS:
                yield _difference(by_end[end], by_end[before])


def _difference(whole: Fact, part: Fact) -> Fact:
    return replace(
        whole,
        start=part.end + timedelta(days=1),
        value=whole.value - part.value,
        difference=f"{whole.start} to {whole.end} less {part.start} to {part.end}",
    )


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


def _facts(document: Mapping[str, Any], tag: str, forms: tuple[str, ...]) -> Iterator[Fact]:
    taxonomy, _, name = tag.partition(":")
    units = _mapping(_mapping(_mapping(_mapping(document.get("facts")).get(taxonomy)).get(name)).get("units"))
    for unit, found in units.items():
        if (match := _UNIT.fullmatch(unit)) and isinstance(found, list):
            for item in found:
                told = isinstance(item, dict) and item.get("form") in forms
                if told and (fact := _fact(tag, unit, match[1], item)) is not None:
                    yield fact


def _fact(tag: str, unit: str, currency: str | None, item: Mapping[str, Any]) -> Fact | None:
    """None for what cannot be: no date, no number, the future."""
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
        day = date.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return day if EARLIEST_YEAR <= day.year <= LATEST_YEAR else None


def _mapping(found: Any) -> Mapping[str, Any]:
    return found if isinstance(found, dict) else {}
