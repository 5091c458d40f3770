"""The ways in which British accounts are written: taxonomies, namespaces, number formats, habits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import TypeAlias

from sandbox.uk_accounts import BALANCE_SHEET, EMPLOYEES, PROFIT_AND_LOSS

Member: TypeAlias = tuple[str, str]
"""A dimension and its member; the member `typed` stands for a typed one."""

IX_2008 = "http://www.xbrl.org/2008/inlineXBRL"
IX_2013 = "http://www.xbrl.org/2013/inlineXBRL"
_TRANSFORMS = "http://www.xbrl.org/inlineXBRL/transformation/"

_MATURITY = "MaturitiesOrExpirationPeriodsDimension"
EQUITY = "EquityClassesDimension"


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """`tags`: column to concept and the member that it needs. Concepts and members without prefix."""

    core: str
    business: str
    tags: Mapping[str, tuple[str, Member | None]]


_FRS_PLAIN = {
    EMPLOYEES: "AverageNumberEmployeesDuringPeriod",
    "fixed_assets": "FixedAssets",
    "tangible_fixed_assets": "PropertyPlantEquipment",
    "debtors": "Debtors",
    "cash_bank_in_hand": "CashBankOnHand",
    "current_assets": "CurrentAssets",
    "net_current_assets_liabilities": "NetCurrentAssetsLiabilities",
    "total_assets_less_current_liabilities": "TotalAssetsLessCurrentLiabilities",
    "net_assets_liabilities_including_pension_asset_liability": "NetAssetsLiabilities",
    "shareholder_funds": "Equity",
    "turnover_gross_operating_revenue": "TurnoverRevenue",
    "other_operating_income": "OtherOperatingIncomeFormat2",
    "cost_sales": "CostSales",
    "gross_profit_loss": "GrossProfitLoss",
    "administrative_expenses": "AdministrativeExpenses",
    "raw_materials_consumables": "RawMaterialsConsumablesUsed",
    "staff_costs": "StaffCostsEmployeeBenefitsExpense",
    "depreciation_other_amounts_written_off_tangible_intangible_fixed_assets": (
        "DepreciationAmortisationImpairmentExpense"
    ),
    "other_operating_charges_format2": "OtherOperatingExpensesFormat2",
    "operating_profit_loss": "OperatingProfitLoss",
    "profit_loss_on_ordinary_activities_before_tax": "ProfitLossOnOrdinaryActivitiesBeforeTax",
    "tax_on_profit_or_loss_on_ordinary_activities": "TaxTaxCreditOnProfitOrLossOnOrdinaryActivities",
    "profit_loss_for_period": "ProfitLoss",
}
_FRS_WITH_MEMBER: dict[str, tuple[str, Member | None]] = {
    "creditors_due_within_one_year": ("Creditors", (_MATURITY, "WithinOneYear")),
    "creditors_due_after_one_year": ("Creditors", (_MATURITY, "AfterOneYear")),
    "called_up_share_capital": ("Equity", (EQUITY, "ShareCapital")),
    "profit_loss_account_reserve": ("Equity", (EQUITY, "RetainedEarningsAccumulatedLosses")),
}


def _frs(version: str) -> Taxonomy:
    """The taxonomies from 2014 on, in which some columns are a concept with a member."""
    tags = _FRS_WITH_MEMBER | {name: (concept, None) for name, concept in _FRS_PLAIN.items()}
    base = "http://xbrl.frc.org.uk"
    return Taxonomy(f"{base}/fr/{version}/core", f"{base}/cd/{version}/business", tags)


def _uk_gaap() -> Taxonomy:
    """The taxonomy of 2009, in which every column has a concept of its own and no dimension."""

    def concept(column: str) -> str:
        words = column.replace("format2", "Format2").split("_")
        return "".join(word[0].upper() + word[1:] for word in words)

    tags: dict[str, tuple[str, Member | None]] = {
        column: (concept(column), None) for column in (*BALANCE_SHEET, *PROFIT_AND_LOSS)
    }
    tags[EMPLOYEES] = ("EmployeesTotal", None)
    base = "http://www.xbrl.org/uk"
    return Taxonomy(f"{base}/gaap/core/2009-09-01", f"{base}/cd/business/2009-09-01", tags)


@dataclass(frozen=True, slots=True)
class Numbers:
    """How numbers are shown: the transform and its separators, and what stands for zero."""

    transform: str
    group: str
    zero_transform: str | None = None
    zero: str = "0"


@dataclass(frozen=True, slots=True)
class Dialect:
    """`dormancy`: the concept that says it, and whether by text, by a transform or by its opposite.

    `habits`: thousands, nested, continuation, exclude, typed, duplicates, decoys, bare_number,
    misleading_ids, single_quotes, brackets.
    """

    taxonomy: Taxonomy
    ix: str
    ix_namespace: str
    core: str
    business: str
    transforms: str
    numbers: Numbers
    date_transform: str | None
    date_text: Callable[[date], str]
    dormancy: tuple[str, str]
    habits: frozenset[str] = frozenset()
    encoding: str = "utf-8"
    has_profit_and_loss: bool = True
    is_micro: bool = False


def _long(day: date) -> str:
    return f"{day.day} {day:%B} {day.year}"


DIALECTS: Mapping[str, Dialect] = {
    "plain": Dialect(
        _frs("2021-01-01"), "ix", IX_2013, "frs-core", "frs-bus", _TRANSFORMS + "2011-07-31",
        Numbers("numdotdecimal", ",", "zerodash", "-"), "datedaymonthyearen", _long,
        ("EntityDormantTruefalse", "text"), frozenset({"decoys", "brackets"}),
    ),
    "first_inline": Dialect(
        _frs("2019-01-01"), "ix", IX_2008, "core", "bus", "http://www.xbrl.org/2008/inlineXBRL/transformation",
        Numbers("numcommadot", ",", "numdash", "-"), "datelonguk", _long,
        ("EntityDormantTruefalse", "text"), frozenset({"decoys", "misleading_ids", "brackets"}),
        has_profit_and_loss=False,
    ),
    "other_prefix": Dialect(
        _frs("2023-01-01"), "ixbrl", IX_2013, "d", "c", _TRANSFORMS + "2020-02-12",
        Numbers("num-dot-decimal", ",", "fixed-zero", "nil"), "date-day-monthname-year-en", _long,
        ("EntityDormantTruefalse", "fixed-"), frozenset({"continuation", "exclude", "typed", "brackets"}),
    ),
    "uk_gaap": Dialect(
        _uk_gaap(), "ix", IX_2008, "uk-gaap-pt", "uk-gaap-cd-bus", _TRANSFORMS + "2011-07-31",
        Numbers("numdotdecimal", ",", "zerodash", "-"), None, date.isoformat,
        ("CompanyNotDormant", "opposite"), frozenset({"brackets"}), encoding="windows-1252",
    ),
    "thousands": Dialect(
        _frs("2022-01-01"), "ix", IX_2013, "ns6", "ns10", _TRANSFORMS + "2015-02-26",
        Numbers("numdotdecimal", "\u00a0", "zerodash", "\u2013"), "datedaymonthyear",
        lambda day: f"{day.day}.{day.month}.{day:%y}",
        ("EntityDormantTruefalse", "boolean"), frozenset({"thousands", "nested", "duplicates", "decoys"}),
    ),
    "decimal_comma": Dialect(
        _frs("2021-01-01"), "i", IX_2013, "e", "f", _TRANSFORMS + "2020-02-12",
        Numbers("num-comma-decimal", "."), "date-day-month-year", lambda day: f"{day:%d/%m/%Y}",
        ("EntityDormantTruefalse", "text"), frozenset({"bare_number", "single_quotes", "typed"}),
        encoding="utf-8-sig",
    ),
    "group": Dialect(
        _frs("2021-01-01"), "ix", IX_2013, "core", "bus", _TRANSFORMS + "2010-04-20",
        Numbers("numcommadot", ",", "numdash", "-"), "datelonguk", _long,
        ("EntityDormantTruefalse", "text"), frozenset({"decoys", "brackets", "typed"}),
    ),
    "micro": Dialect(
        _frs("2014-09-01"), "ix", IX_2008, "uk-core", "uk-bus", _TRANSFORMS + "2010-04-20",
        Numbers("numcommadot", ","), "dateslasheu", lambda day: f"{day:%d/%m/%Y}",
        ("EntityDormant", "text"), frozenset({"brackets"}),
        has_profit_and_loss=False, is_micro=True,
    ),
}  # fmt: skip
