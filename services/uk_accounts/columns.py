"""Which tags fill which column of UK accounts: the first that matches, by local name and dimension member.

Names are those of the public tool for Companies House bulk data, so that tables join; its
`tangible_fixed_assets`, which mixes two things, is split. Tags: FRC taxonomies and their predecessors,
https://www.frc.org.uk/library/standards-codes-policy/accounting-and-reporting/frc-taxonomies/
"""

from __future__ import annotations

from typing import Final, NamedTuple

GROUP: Final = "GroupCompanyDataDimension"
_MATURITY: Final = "MaturitiesOrExpirationPeriodsDimension"
_EQUITY: Final = "EquityClassesDimension"

EMPLOYEES: Final = "average_number_employees_during_period"
RESULT: Final = "profit_loss_for_period"


class Choice(NamedTuple):
    """A tag that may fill a column, under one dimension member when `dimension` is set."""

    tag: str
    dimension: str = ""
    member: str = ""


GENERAL: Final[dict[str, tuple[str, ...]]] = {
    "balance_sheet_date": ("BalanceSheetDate",),
    "companies_house_registered_number": (
        "UKCompaniesHouseRegisteredNumber",
        "CompaniesHouseRegisteredNumber",
    ),
    "entity_current_legal_name": ("EntityCurrentLegalOrRegisteredName", "EntityCurrentLegalName"),
    "company_dormant": ("EntityDormantTruefalse", "EntityDormant", "CompanyDormant", "CompanyNotDormant"),
}


def _tags(*names: str) -> tuple[Choice, ...]:
    return tuple(Choice(name) for name in names)


BALANCE_SHEET: Final[dict[str, tuple[Choice, ...]]] = {
    "fixed_assets": _tags("FixedAssets"),
    "tangible_fixed_assets": _tags("TangibleFixedAssets", "PropertyPlantEquipment"),
    "debtors": _tags("Debtors"),
    "cash_bank_in_hand": _tags("CashBankInHand", "CashBankOnHand"),
    "current_assets": _tags("CurrentAssets"),
    "creditors_due_within_one_year": (
        Choice("CreditorsDueWithinOneYear"),
        Choice("Creditors", _MATURITY, "WithinOneYear"),
    ),
    "creditors_due_after_one_year": (
        Choice("CreditorsDueAfterOneYear"),
        Choice("Creditors", _MATURITY, "AfterOneYear"),
    ),
    "net_current_assets_liabilities": _tags("NetCurrentAssetsLiabilities"),
    "total_assets_less_current_liabilities": _tags("TotalAssetsLessCurrentLiabilities"),
    "net_assets_liabilities_including_pension_asset_liability": _tags(
        "NetAssetsLiabilitiesIncludingPensionAssetLiability", "NetAssetsLiabilities"
    ),
    "called_up_share_capital": (Choice("CalledUpShareCapital"), Choice("Equity", _EQUITY, "ShareCapital")),
    "profit_loss_account_reserve": (
        Choice("ProfitLossAccountReserve"),
        Choice("Equity", _EQUITY, "RetainedEarningsAccumulatedLosses"),
    ),
    "shareholder_funds": _tags("ShareholderFunds", "Equity"),
}

PROFIT_AND_LOSS: Final[dict[str, tuple[Choice, ...]]] = {
    "turnover_gross_operating_revenue": _tags("TurnoverGrossOperatingRevenue", "TurnoverRevenue"),
    "other_operating_income": _tags("OtherOperatingIncome", "OtherOperatingIncomeFormat2"),
    "cost_sales": _tags("CostSales"),
    "gross_profit_loss": _tags("GrossProfitLoss"),
    "administrative_expenses": _tags("AdministrativeExpenses"),
    "raw_materials_consumables": _tags("RawMaterialsConsumables", "RawMaterialsConsumablesUsed"),
    "staff_costs": _tags("StaffCosts", "StaffCostsEmployeeBenefitsExpense"),
    "depreciation_other_amounts_written_off_tangible_intangible_fixed_assets": _tags(
        "DepreciationOtherAmountsWrittenOffTangibleIntangibleFixedAssets",
        "DepreciationAmortisationImpairmentExpense",
    ),
    "other_operating_charges_format2": _tags("OtherOperatingChargesFormat2", "OtherOperatingExpensesFormat2"),
    "operating_profit_loss": _tags("OperatingProfitLoss"),
    "profit_loss_on_ordinary_activities_before_tax": _tags("ProfitLossOnOrdinaryActivitiesBeforeTax"),
    "tax_on_profit_or_loss_on_ordinary_activities": _tags(
        "TaxOnProfitOrLossOnOrdinaryActivities", "TaxTaxCreditOnProfitOrLossOnOrdinaryActivities"
    ),
    RESULT: _tags("ProfitLoss", "ProfitLossForPeriod"),
}

PER_PERIOD: Final[dict[str, tuple[Choice, ...]]] = {
    EMPLOYEES: _tags("AverageNumberEmployeesDuringPeriod", "EmployeesTotal"),
    **BALANCE_SHEET,
    **PROFIT_AND_LOSS,
}

ROW: Final[tuple[str, ...]] = (
    "entity_current_legal_name",
    "companies_house_registered_number",
    "balance_sheet_date",
    "scope",
    "period_start",
    "period_end",
    "company_dormant",
    *(name for column in PER_PERIOD for name in (column, f"{column}_prior")),
)
"""The columns of one row for a company, in order."""
