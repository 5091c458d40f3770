"""Invented American filers: each a pure function of the seed and its index, nothing stored."""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal

from sandbox.us_facts import WHOLE_EQUITY, Amounts, Filing, Taxonomy, UsCompany

FIRST_CIK = 9_000_000
MOST = 900_000
_YEARS = 4
_FOREIGN_EVERY = 9
_RETAIL_EVERY = 4
_AMENDED_EVERY = 11
_TRADES = ("Aerospace", "Biotech", "Foods", "Insurance", "Mining", "Networks", "Robotics", "Semiconductor")
_MILLION = 1_000_000


def index_of(cik: int) -> int | None:
    """The index of a generated filer, or None when the CIK is not one of theirs."""
    index = cik - FIRST_CIK
    return index if 0 <= index < MOST else None


def generate(seed: int, index: int) -> UsCompany:
    dice = random.Random(f"{seed}:us:{index}")  # noqa: S311 - a dice, not a secret
    cik = FIRST_CIK + index
    is_foreign = index % _FOREIGN_EVERY == _FOREIGN_EVERY - 1
    filings = _filings(dice, cik, index, is_foreign)
    name = f"GENERATED {dice.choice(_TRADES).upper()} {index:07d} {'PLC' if is_foreign else 'INC'}"
    currency = dice.choice(("USD", "EUR")) if is_foreign else "USD"
    taxonomy: Taxonomy = "ifrs-full" if is_foreign else "us-gaap"
    return UsCompany(cik, name, f"G{index}", taxonomy, currency, filings, has_quarters=not is_foreign)


def _filings(dice: random.Random, cik: int, index: int, is_foreign: bool) -> tuple[Filing, ...]:
    form = "20-F" if is_foreign else "10-K"
    ends = _year_ends(dice, is_retail=index % _RETAIL_EVERY == 0)
    size = dice.randint(50, 90_000)
    filings: list[Filing] = []
    for place in range(_YEARS):
        size = max(20, size * dice.randint(90, 125) // 100)
        start, end = ends[place] + timedelta(days=1), ends[place + 1]
        filed = end + timedelta(days=dice.randint(25, 75))
        accession = f"{cik:010d}-{filed:%y}-{index % 900_000 + place:06d}"
        figures = _figures(dice, size, is_foreign)
        extra = {} if is_foreign else _extra(figures, index)
        tags = {"revenue": "SalesRevenueNet"} if place == 0 and not is_foreign else {}
        prior = _restated(filings[-1].figures) if filings and index % 3 == 0 else {}
        filings.append(Filing(start, end, form, filed, accession, figures, extra, tags, prior))
    if index % _AMENDED_EVERY == _AMENDED_EVERY - 1:
        filings.append(_amendment(filings[-1], cik))
    return tuple(filings)


def _year_ends(dice: random.Random, is_retail: bool) -> list[date]:
    """One end more than there are years. Retailers close on the last Saturday: 52 or 53 weeks."""
    last = dice.choice((2023, 2024, 2025))
    month, day = dice.choice(((12, 31), (12, 31), (6, 30), (9, 30), (1, 31)))
    ends = [date(year, month, day) for year in range(last - _YEARS, last + 1)]
    return [end - timedelta(days=(end.weekday() - 5) % 7) for end in ends] if is_retail else ends


def _figures(dice: random.Random, size: int, is_foreign: bool) -> dict[str, Decimal]:
    revenue = Decimal(size * _MILLION)
    cost = revenue * dice.randint(30, 80) // 100
    operating = (revenue - cost) * dice.randint(-20, 60) // 100
    net = operating * dice.randint(60, 90) // 100
    shares = Decimal(dice.randint(10, 900) * _MILLION)
    assets = revenue * dice.randint(60, 300) // 100
    liabilities = assets * dice.randint(20, 95) // 100
    figures = {
        "revenue": revenue,
        "cost_of_revenue": cost,
        "gross_profit": revenue - cost,
        "operating_income": operating,
        "net_income": net,
        "eps_basic": round(net / shares, 2),
        "eps_diluted": round(net / (shares * 102 / 100), 2),
        "shares_diluted": shares * 102 / 100,
        "total_assets": assets,
        "current_assets": assets * 2 // 5,
        "cash": assets // 10,
        "total_liabilities": liabilities,
        "current_liabilities": liabilities // 3,
        "long_term_debt": liabilities // 4,
        "stockholders_equity": assets - liabilities,
        "operating_cash_flow": net + revenue // 20,
        "capex": revenue // 25,
    }
    if is_foreign:
        del figures["long_term_debt"]
    return figures


def _extra(figures: dict[str, Decimal], index: int) -> Amounts:
    """Other tags beside the figures; takes away the figures that must then be derived."""
    extra = {
        "IncomeTaxesPaidNet": figures["revenue"] // 50,
        "PropertyPlantAndEquipmentGross": figures["total_assets"] // 2,
        "LiabilitiesAndStockholdersEquity": figures["total_assets"],
    }
    match index % 5:
        case 0:  # the contract revenue is only a part of all revenues
            extra["Revenues"] = figures["revenue"]
            figures["revenue"] = figures["revenue"] * 3 // 5
        case 1:
            extra["Revenues"] = figures["revenue"] // 9
        case 2:
            del figures["gross_profit"]
        case 3:  # a part belongs to others, and no total of liabilities is given
            extra[WHOLE_EQUITY] = figures["total_assets"] - figures.pop("total_liabilities")
            figures["stockholders_equity"] = extra[WHOLE_EQUITY] * 9 // 10
            extra["ProfitLoss"] = figures["net_income"] + _MILLION
        case _:
            del figures["current_assets"], figures["current_liabilities"]
    return extra


def _restated(figures: Amounts) -> Amounts:
    changed = ("revenue", "operating_income", "net_income")
    return {name: figures[name] + 3 * _MILLION for name in changed}


def _amendment(filing: Filing, cik: int) -> Filing:
    """The whole report again, a little later, with another profit."""
    filed = filing.filed + timedelta(days=60)
    net = filing.figures["net_income"] - 2 * _MILLION
    return Filing(
        filing.start,
        filing.end,
        f"{filing.form}/A",
        filed,
        f"{cik:010d}-{filed:%y}-999999",
        {**filing.figures, "net_income": net},
        filing.extra,
        filing.tags,
        filing.prior,
    )
