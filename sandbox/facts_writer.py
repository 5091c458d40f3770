"""Makes the companyfacts JSON of a filer: every fact of every report, as the register lists them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import NamedTuple

from sandbox import us_quarters
from sandbox.figures import canonical
from sandbox.us_facts import FLOWS, TAGS, Amounts, Filing, UsCompany

_INSTANT_EXTRA = {
    "PropertyPlantAndEquipmentGross",
    "LiabilitiesAndStockholdersEquity",
    "StockholdersEquityIncludingPortionAttributableToNoncontrollingInterest",
}


@dataclass(frozen=True, slots=True)
class _Report:
    """What all facts of one report carry: the labels describe the report, not the fact."""

    accession: str
    form: str
    filed: date
    fiscal_year: int
    fiscal_period: str

    @property
    def labels(self) -> str:
        """As the last members of a fact's JSON object."""
        return (
            f'"accn":"{self.accession}","fy":{self.fiscal_year},"fp":"{self.fiscal_period}",'
            f'"form":"{self.form}","filed":"{self.filed}"'
        )


class _Fact(NamedTuple):
    """`labels`: what `_Report.labels` says."""

    tag: str
    unit: str
    start: date | None
    end: date
    value: Decimal
    labels: str


_FILLER = _Report("0000000000-25-000001", "10-K", date(2025, 2, 20), 2024, "FY")


def filler(size: int) -> str:
    """Concepts nobody asks for, as JSON members, of about `size` bytes; made once, put into every answer."""
    members: list[str] = []
    length, place = 0, 0
    while length < size:
        facts = [
            _entry(_Fact("", "", None, date(year, 12, 31), Decimal(place * 1000 + year), _FILLER.labels))
            for year in range(2009, 2025)
        ]
        members.append(_concept(f"OtherConcept{place:05d}", {"USD": facts}))
        length, place = length + len(members[-1]) + 1, place + 1
    return ",".join(members)


def render(company: UsCompany, padding: str = "") -> bytes:
    """The companyfacts answer. `padding` is what `filler` gave. Written as text: it is a hot path."""
    concepts: dict[str, dict[str, list[str]]] = {}
    for fact in _facts(company):
        concepts.setdefault(fact.tag, {}).setdefault(fact.unit, []).append(_entry(fact))
    members = [_concept(tag, units) for tag, units in sorted(concepts.items())]
    members += [padding] if padding else []
    cover = _concept("EntityCommonStockSharesOutstanding", {"shares": list(map(_entry, _cover(company)))})
    return (
        f'{{"cik":{company.cik},"entityName":{json.dumps(company.name)},"facts":{{"dei":{{{cover}}},'
        f'"{company.taxonomy}":{{{",".join(members)}}}}}}}'
    ).encode()


def _concept(tag: str, units: dict[str, list[str]]) -> str:
    """A concept with its facts as a member of a JSON object."""
    written = ",".join(f'"{unit}":[{",".join(entries)}]' for unit, entries in units.items())
    description = f"Amount of {tag}, as the sandbox defines it."
    return f'"{tag}":{{"label":"{tag}","description":"{description}","units":{{{written}}}}}'


def _entry(fact: _Fact) -> str:
    start = "" if fact.start is None else f'"start":"{fact.start}",'
    return f'{{{start}"end":"{fact.end}","val":{canonical(fact.value)},{fact.labels}}}'


def _facts(company: UsCompany) -> Iterator[_Fact]:
    before: Filing | None = None
    for filing in company.filings:
        labels = _annual(filing).labels
        if before is not None and before.end < filing.end:
            yield from _year(company, before, labels, filing.prior)
        yield from _year(company, filing, labels, {})
        if company.has_quarters:
            yield from _quarters(company, filing)
        before = filing


def _year(company: UsCompany, filing: Filing, labels: str, restated: Amounts) -> Iterator[_Fact]:
    """The facts of one year as one report tells them, the comparative year included."""
    tags = TAGS[company.taxonomy]
    for column, value in (dict(filing.figures) | dict(restated)).items():
        start = filing.start if column in FLOWS else None
        tag = filing.tags.get(column, tags[column])
        yield _Fact(tag, _unit(column, company), start, filing.end, value, labels)
    for tag, value in filing.extra.items():
        start = None if tag in _INSTANT_EXTRA else filing.start
        yield _Fact(tag, company.currency, start, filing.end, value, labels)


def _quarters(company: UsCompany, filing: Filing) -> Iterator[_Fact]:
    """Three quarterly reports of the year that follows: three months, and all months of the year so far."""
    tags = TAGS[company.taxonomy]
    for quarter in us_quarters.after(filing):
        report = _Report(quarter.accession, "10-Q", quarter.filed, quarter.fiscal_year, f"Q{quarter.number}")
        for column, value in quarter.figures.items():
            tag, unit, labels = tags[column], _unit(column, company), report.labels
            if column not in FLOWS:
                yield _Fact(tag, unit, None, quarter.end, value, labels)
                yield _Fact(tag, unit, None, filing.end, filing.figures[column], labels)
                continue
            so_far = column in us_quarters.YEAR_SO_FAR
            if not so_far or quarter.number == 1:
                yield _Fact(tag, unit, quarter.start, quarter.end, value, labels)
            if quarter.number > 1:
                yield _Fact(tag, unit, quarter.begin, quarter.end, value * quarter.number, labels)


def _unit(column: str, company: UsCompany) -> str:
    if column == "shares_diluted":
        return "shares"
    return f"{company.currency}/shares" if column.startswith("eps") else company.currency


def _cover(company: UsCompany) -> Iterator[_Fact]:
    """The cover page's number of shares: its date lies weeks after the year's end."""
    for filing in company.filings:
        shares = filing.figures.get("shares_diluted", Decimal(1_000_000))
        yield _Fact("", "", None, filing.filed - timedelta(days=5), shares, _annual(filing).labels)


def _annual(filing: Filing) -> _Report:
    return _Report(filing.accession, filing.form, filing.filed, filing.fiscal_year, "FY")
