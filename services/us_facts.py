"""Which of a company's facts at the SEC is the right one for a field and a period."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain
from typing import Any, TypeAlias

from services import earlier
from services.extraction import Scalar, Source, Value
from services.us_filed import YEAR, Fact, Filed, Length, Number
from services.us_periods import distinct, ends_in_year
from services.us_tags import (
    ALL_EQUITY,
    BALANCE_TOTALS,
    FLOWS,
    INSTANTS,
    OTHERS_EQUITY,
    OWNERS_EQUITY,
    REVENUES,
    REVENUES_WHERE_NONE_OF_THOSE,
)

SERIES = (
    "revenue", "cost_of_revenue", "gross_profit", "operating_income", "net_income",
    "eps_basic", "eps_diluted", "shares_diluted",
    "total_assets", "current_assets", "cash", "total_liabilities", "current_liabilities", "long_term_debt",
    "stockholders_equity", "operating_cash_flow", "capex",
)  # fmt: skip

NO_AMOUNTS = ("eps_basic", "eps_diluted", "shares_diluted")
"""Those of `SERIES` that are no amount of money; nor do quarters of them add up to a year."""

Series: TypeAlias = dict[date, Value]

_TAGS = FLOWS | INSTANTS
_FLOW_TAGS = {*REVENUES, *REVENUES_WHERE_NONE_OF_THOSE, *chain(*FLOWS.values())}
_NO_SUMS = {tag for field in NO_AMOUNTS for tag in FLOWS[field]}
_INSTANT_TAGS = {*BALANCE_TOTALS, *ALL_EQUITY, OWNERS_EQUITY, OTHERS_EQUITY, *chain(*INSTANTS.values())}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which periods: of which length, the last one in which fiscal year (None: the latest there is).

    `first_filed`: the value as it was first reported, not as a later report has it.
    """

    length: Length = YEAR
    year: int | None = None
    first_filed: bool = False


def annual(facts: Mapping[str, Any], *, first_filed: bool = False) -> dict[str, Series]:
    """Each field of `SERIES` by period end: years of 350 to 380 days, and instants, from annual reports.

    `facts` is a companyfacts document with exact numbers. Where filings differ the last filed wins, or the
    first. Flags: `derived` (a difference of two facts), `candidates_differ` (the largest of several
    revenues), `restated` (filings differ), `not_at_year_end` (an instant on another day).
    """
    return _series(_filed(facts, Wanted(first_filed=first_filed)))


def latest_annual(
    facts: Mapping[str, Any], fields: Sequence[str], *, first_filed: bool = False
) -> dict[str, Value]:
    """The asked fields of the company's last reported year: `row` with nothing else wanted."""
    return row(facts, fields, Wanted(first_filed=first_filed))


def row(facts: Mapping[str, Any], fields: Sequence[str], wanted: Wanted) -> dict[str, Value]:
    """The asked fields of one period and, as `services.earlier` names them, of reported periods before it.

    Besides `SERIES` there are entity_name, cik (digits without leading zeros), fiscal_year_end (MM-DD),
    period_start, period_end, form, filed and accession (of the report that most values are from); what was
    not reported is absent. Empty when no report of such periods holds a number. A company without a whole
    year yet has its last balance sheet.
    """
    filed = _filed(facts, wanted)
    series = _series(filed)
    ends = _ends(series, wanted.length)
    if wanted.year is not None:
        ends = ends_in_year(ends, filed.year_ends, wanted.year)
    if not ends:
        return {}
    year_ends = ends[:1] if wanted.length == YEAR else filed.year_ends[-1:]
    known = _entity(facts)
    if year_ends:
        known["fiscal_year_end"] = Value(f"{year_ends[0]:%m-%d}")
    for back, end in enumerate(ends[: earlier.furthest(fields) + 1]):
        values = {field: series[field][end] for field in SERIES if end in series[field]}
        columns = _period(end, list(values.values())) | values
        known |= {earlier.column(field, back): value for field, value in columns.items()}
    return {field: known[field] for field in fields if field in known}


def _filed(facts: Mapping[str, Any], wanted: Wanted) -> Filed:
    flows, instants = sorted(_FLOW_TAGS), sorted(_INSTANT_TAGS)
    return Filed(facts, flows, instants, _FLOW_TAGS - _NO_SUMS, wanted.first_filed, wanted.length)


def _series(filed: Filed) -> dict[str, Series]:
    series: dict[str, Series] = {field: {} for field in SERIES}
    for end in filed.ends:
        for field in SERIES:
            if (value := _value(filed, field, end)) is not None:
                series[field][end] = value
    return series


def _ends(series: Mapping[str, Series], length: Length) -> list[date]:
    """The ends of the reported periods, the latest first."""
    periods = Counter(end for field in ("revenue", *FLOWS) for end in series[field])
    if not periods and length == YEAR:
        periods = Counter(end for field in INSTANTS for end in series[field])
    return distinct(periods)


def _entity(facts: Mapping[str, Any]) -> dict[str, Value]:
    name, number = facts.get("entityName"), str(facts.get("cik")).lstrip("0")
    found: dict[str, Value] = {}
    if isinstance(name, str) and name.strip():
        found["entity_name"] = Value(name.strip())
    if number.isdigit():
        found["cik"] = Value(number)
    return found


def _period(end: date, row: Sequence[Value]) -> dict[str, Value]:
    sources = [value.source for value in row if value.source]
    reports = Counter((source.document, source.filed, source.form) for source in sources)
    accession, filed, form = max(reports, key=lambda report: (reports[report], report[1]))
    starts = Counter(source.period_start for source in sources if source.period_start)
    found: dict[str, Scalar] = {
        "period_start": max(starts, key=lambda start: starts[start], default=None),
        "period_end": end,
        "form": form,
        "filed": filed,
        "accession": accession,
    }
    source = Source(document=accession, filed=filed, form=form)
    return {field: Value(value, source) for field, value in found.items() if value is not None}


def _value(filed: Filed, field: str, end: date) -> Value | None:
    if field == "revenue":
        return _revenue(filed, end)
    if fact := filed.first_of(_TAGS[field], end):
        return _as_filed(filed, fact)
    if field == "gross_profit":
        return _derived_gross_profit(filed, end)
    if field == "total_liabilities":
        return _derived_liabilities(filed, end)
    return None


def _as_filed(filed: Filed, fact: Fact, *flags: str) -> Value:
    if len({other.value for other in filed.of((fact.tag,), fact.end)}) > 1:
        flags += ("restated",)
    if fact.difference:
        flags += ("derived",)
    return Value(fact.value, _source(fact, fact.tag), flags + _day_flags(filed, fact))


def _revenue(filed: Filed, end: date) -> Value | None:
    """No order of tags is right: the whole is the largest that the preferred filing has for the period."""
    candidates = filed.by_preference(filed.of(REVENUES, end))
    if not candidates:
        fact = filed.first_of(REVENUES_WHERE_NONE_OF_THOSE, end)
        return _as_filed(filed, fact) if fact else None
    together = filed.beside(candidates[0], REVENUES)
    differ = len({fact.value for fact in together}) > 1
    return _as_filed(filed, _largest(together), *(("candidates_differ",) if differ else ()))


def _derived_gross_profit(filed: Filed, end: date) -> Value | None:
    for cost in filed.by_preference(filed.of(FLOWS["cost_of_revenue"], end)):
        if revenues := filed.beside(cost, REVENUES):
            return _less(filed, _largest(revenues), [cost])
    return None


def _derived_liabilities(filed: Filed, end: date) -> Value | None:
    for total in filed.by_preference(filed.of(BALANCE_TOTALS, end)):
        equity = filed.beside(total, ALL_EQUITY)[:1]
        if not equity and (owners := filed.beside(total, [OWNERS_EQUITY])[:1]):
            equity = owners + filed.beside(total, [OTHERS_EQUITY])[:1]
        if equity:
            return _less(filed, total, equity)
    return None


def _largest(facts: Sequence[Fact]) -> Fact:
    return max(facts, key=lambda fact: fact.value)


def _less(filed: Filed, whole: Fact, parts: Sequence[Fact]) -> Value:
    value: Number = whole.value
    for part in parts:
        value -= part.value
    formula = " - ".join([whole.tag, *(part.tag for part in parts)])
    return Value(value, _source(whole, formula), ("derived", *_day_flags(filed, whole)))


def _day_flags(filed: Filed, fact: Fact) -> tuple[str, ...]:
    return () if fact.start or filed.ends_a_period(fact.end) else ("not_at_year_end",)


def _source(fact: Fact, tag: str) -> Source:
    return Source(
        tag=tag,
        context=fact.difference,
        unit=fact.unit,
        period_start=fact.start,
        period_end=fact.end,
        document=fact.accession,
        filed=fact.filed,
        form=fact.form,
    )
