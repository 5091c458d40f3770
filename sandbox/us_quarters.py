"""Quarterly reports of American filers: made of the annual report before them, told by three things alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, timedelta

from sandbox.figures import canonical
from sandbox.us_facts import FLOWS, Amounts, Filing, UsCompany

YEAR_SO_FAR = ("operating_cash_flow",)
"""Columns that a 10-Q tells of the year so far only, as cash flow statements do."""

_TOLD = ("revenue", "net_income", "eps_diluted", "total_assets", "cash", "stockholders_equity", *YEAR_SO_FAR)
_DAYS = 91


@dataclass(frozen=True, slots=True)
class Quarter:
    """The `number`th report of the year that begins on `begin`. `figures` are of its three months alone."""

    number: int
    begin: date
    start: date
    end: date
    filed: date
    accession: str
    fiscal_year: int
    figures: Amounts


def after(filing: Filing) -> Iterator[Quarter]:
    """Three quarterly reports of the year that follows an annual one; an amendment has none of its own."""
    if filing.form.endswith("/A"):
        return
    for number in (1, 2, 3):
        end = filing.end + timedelta(days=_DAYS * number)
        filed = end + timedelta(days=30)
        yield Quarter(
            number=number,
            begin=filing.end + timedelta(days=1),
            start=end - timedelta(days=_DAYS - 1),
            end=end,
            filed=filed,
            accession=f"{filing.accession[:10]}-{filed:%y}-8{number}{filing.end:%y}00",
            fiscal_year=filing.fiscal_year + 1,
            figures={
                name: round(value * 27 / 100, 2) if name in FLOWS else value + number
                for name, value in filing.figures.items()
                if name in _TOLD
            },
        )


def latest_columns(company: UsCompany) -> dict[str, str]:
    """What the last quarterly report says of its quarter, column by column, as canonical text."""
    annual = [filing for filing in company.filings if not filing.form.endswith("/A")]
    if not annual or not company.has_quarters:
        return {}
    quarter = [*after(annual[-1])][-1]
    row = {
        "entity_name": company.name,
        "cik": str(company.cik),
        "fiscal_year_end": annual[-1].end.isoformat()[5:],
        "period_start": quarter.start.isoformat(),
        "period_end": quarter.end.isoformat(),
        "form": "10-Q",
        "filed": quarter.filed.isoformat(),
        "accession": quarter.accession,
    }
    return row | {name: canonical(value) for name, value in quarter.figures.items()}
