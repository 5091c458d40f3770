"""Invented British companies: each a pure function of the seed and its index, nothing stored."""

from __future__ import annotations

import random
from datetime import date, timedelta
from decimal import Decimal

from sandbox.figures import Figures
from sandbox.uk_accounts import EMPLOYEES, Accounts, UkCompany
from sandbox.uk_dialects import DIALECTS

FIRST_NUMBER = 90_000_000
MOST = 1_000_000
_TRADES = ("Bakery", "Joinery", "Optics", "Textiles", "Logistics", "Foods", "Software", "Printing", "Energy")
_COSTS_BY_NATURE = (
    "raw_materials_consumables",
    "staff_costs",
    "depreciation_other_amounts_written_off_tangible_intangible_fixed_assets",
    "other_operating_charges_format2",
)
_YEARS = {"uk_gaap": (2011, 2012, 2013, 2014)}
_YEAR_ENDS = ((3, 31), (12, 31), (6, 30), (9, 30), (2, 28), (8, 31))


def number_of(index: int) -> str:
    return str(FIRST_NUMBER + index)


def index_of(number: str) -> int | None:
    """The index of a generated company, or None when the number is not one of theirs."""
    if len(number) != len(str(FIRST_NUMBER)) or not number.isdecimal():
        return None
    index = int(number) - FIRST_NUMBER
    return index if 0 <= index < MOST else None


def generate(seed: int, index: int) -> UkCompany:
    dice = random.Random(f"{seed}:uk:{index}")  # noqa: S311 - a dice, not a secret
    dialect = tuple(DIALECTS)[index % len(DIALECTS)]
    name = f"Generated {dice.choice(_TRADES)} {index:07d} {dice.choice(('Ltd', 'Limited'))}"
    return UkCompany(number_of(index), name, dialect, _accounts(dice, dialect))


def _accounts(dice: random.Random, dialect: str) -> Accounts:
    month, day = dice.choice(_YEAR_ENDS)
    made_up_to = date(dice.choice(_YEARS.get(dialect, (2022, 2023, 2024, 2025))), month, day)
    prior_end = made_up_to.replace(year=made_up_to.year - 1)
    style = DIALECTS[dialect]
    thousands = 1000 if "thousands" in style.habits else 1
    current, prior = (_figures(dice, dialect, thousands) for _ in range(2))
    is_first_year = dice.random() < 0.08  # noqa: PLR2004 - about one in twelve
    has_period = not style.is_micro
    return Accounts(
        made_up_to=made_up_to,
        started=prior_end + timedelta(days=1) if has_period else None,
        prior_made_up_to=None if is_first_year else prior_end,
        prior_started=prior_end.replace(year=prior_end.year - 1) + timedelta(days=1) if has_period else None,
        current=current,
        prior={} if is_first_year else prior,
        scope="consolidated" if dialect == "group" else "company",
        is_dormant=style.is_micro and dice.random() < 0.3,  # noqa: PLR2004
        standalone=_balance_sheet(dice, 1) if dialect == "group" else {},
    )


def _figures(dice: random.Random, dialect: str, thousands: int) -> Figures:
    style = DIALECTS[dialect]
    if style.is_micro:
        return _micro(dice)
    figures = _balance_sheet(dice, thousands)
    figures[EMPLOYEES] = Decimal(dice.randint(0, 300))
    if style.has_profit_and_loss:
        figures |= _profit_and_loss(dice, thousands, is_by_nature=dice.random() < 0.5)  # noqa: PLR2004
    if dice.random() < 0.04:  # noqa: PLR2004 - now and then a required figure is missing
        del figures["shareholder_funds"]
    return figures


def _micro(dice: random.Random) -> Figures:
    assets, owed = Decimal(dice.randint(0, 20_000)), Decimal(dice.randint(0, 25_000))
    return {
        "fixed_assets": Decimal(0),
        "current_assets": assets,
        "creditors_due_within_one_year": owed,
        "net_current_assets_liabilities": assets - owed,
        "total_assets_less_current_liabilities": assets - owed,
        "net_assets_liabilities_including_pension_asset_liability": assets - owed,
        "shareholder_funds": assets - owed,
    }


def _balance_sheet(dice: random.Random, thousands: int) -> dict[str, Decimal | None]:
    def amount(most: int) -> Decimal:
        return Decimal(dice.randint(0, most // thousands) * thousands)

    tangible, debtors, cash = amount(900_000), amount(600_000), amount(400_000)
    fixed, current = tangible + amount(100_000), debtors + cash + amount(200_000)
    soon, late = amount(800_000), dice.choice((Decimal(0), amount(300_000)))
    net, capital = fixed + current - soon - late, Decimal(dice.choice((1, 2, 100, 1000)) * thousands)
    return {
        "fixed_assets": fixed,
        "tangible_fixed_assets": tangible,
        "debtors": dice.choice((debtors, debtors, debtors, None)),
        "cash_bank_in_hand": cash,
        "current_assets": current,
        "creditors_due_within_one_year": soon,
        "creditors_due_after_one_year": late,
        "net_current_assets_liabilities": current - soon,
        "total_assets_less_current_liabilities": fixed + current - soon,
        "net_assets_liabilities_including_pension_asset_liability": net,
        "called_up_share_capital": capital,
        "profit_loss_account_reserve": net - capital,
        "shareholder_funds": net,
    }


def _profit_and_loss(dice: random.Random, thousands: int, is_by_nature: bool) -> dict[str, Decimal | None]:
    def amount(most: int) -> Decimal:
        return Decimal(dice.randint(1, most // thousands) * thousands)

    turnover, income = amount(5_000_000), amount(20_000)
    if is_by_nature:
        lines = {name: amount(1_200_000) for name in _COSTS_BY_NATURE}
        operating = turnover + income - sum(lines.values())
    else:
        sales, admin = amount(3_000_000), amount(1_500_000)
        gross = turnover - sales
        lines = {"cost_sales": sales, "gross_profit_loss": gross, "administrative_expenses": admin}
        operating = gross + income - admin
    before_tax = operating - amount(30_000)
    tax = max(Decimal(0), before_tax // 5)
    return {
        "turnover_gross_operating_revenue": turnover,
        "other_operating_income": income,
        **lines,
        "operating_profit_loss": operating,
        "profit_loss_on_ordinary_activities_before_tax": before_tax,
        "tax_on_profit_or_loss_on_ordinary_activities": tax,
        "profit_loss_for_period": before_tax - tax,
    }
