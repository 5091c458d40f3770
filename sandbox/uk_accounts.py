"""British companies and the figures of their accounts, before any document is made of them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Literal, TypeAlias

from sandbox.figures import Figures, canonical

Scope: TypeAlias = Literal["company", "consolidated"]
Trouble: TypeAlias = Literal["unknown", "no_accounts", "pdf_only", "damaged", "down_at_first"]

BALANCE_SHEET = (
    "fixed_assets",
    "tangible_fixed_assets",
    "debtors",
    "cash_bank_in_hand",
    "current_assets",
    "creditors_due_within_one_year",
    "creditors_due_after_one_year",
    "net_current_assets_liabilities",
    "total_assets_less_current_liabilities",
    "net_assets_liabilities_including_pension_asset_liability",
    "called_up_share_capital",
    "profit_loss_account_reserve",
    "shareholder_funds",
)
PROFIT_AND_LOSS = (
    "turnover_gross_operating_revenue",
    "other_operating_income",
    "cost_sales",
    "gross_profit_loss",
    "administrative_expenses",
    "raw_materials_consumables",
    "staff_costs",
    "depreciation_other_amounts_written_off_tangible_intangible_fixed_assets",
    "other_operating_charges_format2",
    "operating_profit_loss",
    "profit_loss_on_ordinary_activities_before_tax",
    "tax_on_profit_or_loss_on_ordinary_activities",
    "profit_loss_for_period",
)
EMPLOYEES = "average_number_employees_during_period"
PER_PERIOD = (EMPLOYEES, *BALANCE_SHEET, *PROFIT_AND_LOSS)
REQUIRED = {
    "entity_current_legal_name",
    "companies_house_registered_number",
    "balance_sheet_date",
    "shareholder_funds",
}


@dataclass(frozen=True, slots=True)
class Accounts:
    """One set of accounts. `started` None: a balance sheet without a period; `prior_*` None: a first year.

    `standalone`: the company's own balance sheet beside the group's, in consolidated accounts.
    """

    made_up_to: date
    started: date | None
    prior_made_up_to: date | None
    prior_started: date | None
    current: Figures
    prior: Figures = field(default_factory=dict)
    scope: Scope = "company"
    is_dormant: bool = False
    standalone: Figures = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UkCompany:
    """A company of the register. `dialect` names the way its documents are written.

    `older`: accounts of years that the accounts of the last two years do not tell of, latest first.
    """

    number: str
    name: str
    dialect: str
    accounts: Accounts | None
    trouble: Trouble | None = None
    older: tuple[Accounts, ...] = ()
    is_dissolved: bool = False

    def filed_accounts(self) -> list[Accounts]:
        """The filings of the last years, latest first."""
        if self.accounts is None:
            return []
        earlier = _earlier(self.accounts)
        return [self.accounts, *([] if earlier is None else [earlier]), *self.older]


def filed_on(accounts: Accounts) -> date:
    """Accounts reach the register some months after the year's end."""
    return accounts.made_up_to + timedelta(days=181 + accounts.made_up_to.day)


def columns(company: UkCompany, accounts: Accounts | None = None) -> dict[str, str]:
    """What the latest accounts, or those given, say, column by column, as canonical text."""
    accounts = accounts or company.accounts
    if accounts is None:
        return {}
    row = {
        "entity_current_legal_name": company.name,
        "companies_house_registered_number": company.number,
        "balance_sheet_date": accounts.made_up_to.isoformat(),
        "scope": accounts.scope,
    }
    if accounts.started is not None:
        row["period_start"] = accounts.started.isoformat()
    row["period_end"] = accounts.made_up_to.isoformat()
    row["company_dormant"] = str(accounts.is_dormant).lower()
    for column in PER_PERIOD:
        row |= _cell(column, accounts.current) | _cell(column, accounts.prior, "_prior")
    return row


def _cell(column: str, figures: Figures, suffix: str = "") -> dict[str, str]:
    value = figures.get(column)
    return {} if value is None else {column + suffix: canonical(value)}


def _earlier(accounts: Accounts) -> Accounts | None:
    """Last year's filing, as its figures are told by this year's."""
    if accounts.prior_made_up_to is None:
        return None
    return replace(
        accounts,
        made_up_to=accounts.prior_made_up_to,
        started=accounts.prior_started,
        prior_made_up_to=None,
        prior_started=None,
        current=accounts.prior,
        prior={},
        standalone={},
    )
