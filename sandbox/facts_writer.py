"""Makes the companyfacts JSON of a filer: every fact of every report, as the register lists them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from sandbox.figures import canonical
from sandbox.us_facts import FLOWS, TAGS, Filing, UsCompany

_INSTANT_EXTRA = {
    "PropertyPlantAndEquipmentGross",
    "LiabilitiesAndStockholdersEquity",
    "StockholdersEquityIncludingPortionAttributableToNoncontrollingInterest",
}
_QUARTERLY = ("revenue", "net_income", "eps_diluted", "total_assets", "cash", "stockholders_equity")
_QUARTER_DAYS = 91


@dataclass(frozen=True, slots=True)
class _Report:
    """What all facts of one report carry: the labels describe the report, not the fact."""

    accession: str
    form: str
    filed: date
    fiscal_year: int
    fiscal_period: str


@dataclass(frozen=True, slots=True)
class _Fact:
    tag: str
    unit: str
    start: date | None
    end: date
    value: Decimal
    report: _Report


def filler(size: int) -> bytes:
    """Concepts nobody asks for, as JSON members, of about `size` bytes; made once, put into every answer."""
    members: list[bytes] = []
    length, place = 0, 0
    while length < size:
        facts = [
            {
                "end": f"{year}-12-31",
                "val": place * 1000 + year,
                "accn": f"0000000000-{year % 100:02d}-000001",
                "fy": year,
                "fp": "FY",
                "form": "10-K",
                "filed": f"{year + 1}-02-20",
            }
            for year in range(2009, 2025)
        ]
        member = json.dumps(f"OtherConcept{place:05d}") + ":" + json.dumps(_concept("Other", {"USD": facts}))
        members.append(member.encode())
        length, place = length + len(member) + 1, place + 1
    return b",".join(members)


def render(company: UsCompany, padding: bytes = b"") -> bytes:
    """The companyfacts answer. `padding` is what `filler` gave; it goes into the last taxonomy."""
    concepts: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for fact in _facts(company):
        concepts.setdefault(fact.tag, {}).setdefault(fact.unit, []).append(_entry(fact))
    body = {tag: _concept(tag, units) for tag, units in sorted(concepts.items())}
    document = {
        "cik": company.cik,
        "entityName": company.name,
        "facts": {"dei": _cover(company), company.taxonomy: body},
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    return text[:-3] + b"," + padding + text[-3:] if padding else text


def _concept(label: str, units: dict[str, list[dict[str, Any]]]) -> dict[str, Any]:
    return {"label": label, "description": f"Amount of {label}, as the sandbox defines it.", "units": units}


def _entry(fact: _Fact) -> dict[str, Any]:
    number = canonical(fact.value)
    entry: dict[str, Any] = {} if fact.start is None else {"start": fact.start.isoformat()}
    return entry | {
        "end": fact.end.isoformat(),
        "val": float(number) if "." in number else int(number),
        "accn": fact.report.accession,
        "fy": fact.report.fiscal_year,
        "fp": fact.report.fiscal_period,
        "form": fact.report.form,
        "filed": fact.report.filed.isoformat(),
    }


def _facts(company: UsCompany) -> Iterator[_Fact]:
    before: Filing | None = None
    for filing in company.filings:
        report = _Report(filing.accession, filing.form, filing.filed, filing.fiscal_year, "FY")
        if before is not None and before.end < filing.end:
            yield from _year(company, before, report, filing.prior)
        yield from _year(company, filing, report, {})
        if company.has_quarters and not filing.form.endswith("/A"):
            yield from _quarters(company, filing)
        before = filing


def _year(company: UsCompany, filing: Filing, report: _Report, restated: Any) -> Iterator[_Fact]:
    """The facts of one year as one report tells them, the comparative year included."""
    tags = TAGS[company.taxonomy]
    for column, value in (dict(filing.figures) | dict(restated)).items():
        start = filing.start if column in FLOWS else None
        tag = filing.tags.get(column, tags[column])
        yield _Fact(tag, _unit(column, company), start, filing.end, value, report)
    for tag, value in filing.extra.items():
        start = None if tag in _INSTANT_EXTRA else filing.start
        yield _Fact(tag, company.currency, start, filing.end, value, report)


def _quarters(company: UsCompany, filing: Filing) -> Iterator[_Fact]:
    """Three quarterly reports of the year that follows: three months, and all months of the year so far."""
    tags = TAGS[company.taxonomy]
    for quarter in (1, 2, 3):
        end = filing.end + timedelta(days=_QUARTER_DAYS * quarter)
        filed = end + timedelta(days=30)
        accession = f"{filing.accession[:10]}-{filed:%y}-8{quarter}{filing.end:%y}00"
        report = _Report(accession, "10-Q", filed, filing.fiscal_year + 1, f"Q{quarter}")
        for column in _QUARTERLY:
            if column not in filing.figures:
                continue
            tag, unit, value = tags[column], _unit(column, company), filing.figures[column]
            if column not in FLOWS:
                yield _Fact(tag, unit, None, end, value + quarter, report)
                yield _Fact(tag, unit, None, filing.end, value, report)
                continue
            begin = filing.end + timedelta(days=1)
            last_start = end - timedelta(days=_QUARTER_DAYS - 1)
            part = round(value * 27 / 100, 2)
            yield _Fact(tag, unit, last_start, end, part, report)
            if quarter > 1:
                yield _Fact(tag, unit, begin, end, part * quarter, report)


def _unit(column: str, company: UsCompany) -> str:
    if column == "shares_diluted":
        return "shares"
    return f"{company.currency}/shares" if column.startswith("eps") else company.currency


def _cover(company: UsCompany) -> dict[str, Any]:
    """The cover page's number of shares: its date lies weeks after the year's end."""
    entries = [
        {
            "end": (filing.filed - timedelta(days=5)).isoformat(),
            "val": int(filing.figures.get("shares_diluted", Decimal(1_000_000))),
            "accn": filing.accession,
            "fy": filing.fiscal_year,
            "fp": "FY",
            "form": filing.form,
            "filed": filing.filed.isoformat(),
        }
        for filing in company.filings
    ]
    return {"EntityCommonStockSharesOutstanding": _concept("Shares outstanding", {"shares": entries})}
