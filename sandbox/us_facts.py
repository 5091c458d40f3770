"""American filers and the figures of their annual reports, before any document is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Literal, TypeAlias

from sandbox.figures import canonical

Taxonomy: TypeAlias = Literal["us-gaap", "ifrs-full"]
Amounts: TypeAlias = Mapping[str, Decimal]
UsTrouble: TypeAlias = Literal["no_facts"]

FLOWS = (
    "revenue",
    "cost_of_revenue",
    "gross_profit",
    "operating_income",
    "net_income",
    "eps_basic",
    "eps_diluted",
    "shares_diluted",
    "operating_cash_flow",
    "capex",
)
COLUMNS = (
    *FLOWS[:8],
    "total_assets",
    "current_assets",
    "cash",
    "total_liabilities",
    "current_liabilities",
    "long_term_debt",
    "stockholders_equity",
    *FLOWS[8:],
)
REQUIRED = {"entity_name", "cik", "period_end", "revenue", "net_income", "total_assets"}

TAGS: Mapping[Taxonomy, Mapping[str, str]] = {
    "us-gaap": {
        "revenue": "RevenueFromContractWithCustomerExcludingAssessedTax",
        "cost_of_revenue": "CostOfRevenue",
        "gross_profit": "GrossProfit",
        "operating_income": "OperatingIncomeLoss",
        "net_income": "NetIncomeLoss",
        "eps_basic": "EarningsPerShareBasic",
        "eps_diluted": "EarningsPerShareDiluted",
        "shares_diluted": "WeightedAverageNumberOfDilutedSharesOutstanding",
        "total_assets": "Assets",
        "current_assets": "AssetsCurrent",
        "cash": "CashAndCashEquivalentsAtCarryingValue",
        "total_liabilities": "Liabilities",
        "current_liabilities": "LiabilitiesCurrent",
        "long_term_debt": "LongTermDebtNoncurrent",
        "stockholders_equity": "StockholdersEquity",
        "operating_cash_flow": "NetCashProvidedByUsedInOperatingActivities",
        "capex": "PaymentsToAcquirePropertyPlantAndEquipment",
    },
    "ifrs-full": {
        "revenue": "Revenue",
        "cost_of_revenue": "CostOfSales",
        "gross_profit": "GrossProfit",
        "operating_income": "ProfitLossFromOperatingActivities",
        "net_income": "ProfitLoss",
        "eps_basic": "BasicEarningsLossPerShare",
        "eps_diluted": "DilutedEarningsLossPerShare",
        "shares_diluted": "AdjustedWeightedAverageShares",
        "total_assets": "Assets",
        "current_assets": "CurrentAssets",
        "cash": "CashAndCashEquivalents",
        "total_liabilities": "Liabilities",
        "current_liabilities": "CurrentLiabilities",
        "long_term_debt": "LongtermBorrowings",
        "stockholders_equity": "Equity",
        "operating_cash_flow": "CashFlowsFromUsedInOperatingActivities",
        "capex": "PurchaseOfPropertyPlantAndEquipmentClassifiedAsInvestingActivities",
    },
}


@dataclass(frozen=True, slots=True)
class Filing:
    """An annual report. `figures`: column to value for the year that ends on `end`, as filed here.

    `extra`: other tags of the same report and year (competing revenues, whole equity, decoys).
    `tags`: columns that this report tags otherwise than `TAGS`. `prior`: the comparative figures for the
    year before, as this report restates them.
    """

    start: date
    end: date
    form: str
    filed: date
    accession: str
    figures: Amounts
    extra: Amounts = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    prior: Amounts = field(default_factory=dict)

    @property
    def fiscal_year(self) -> int:
        """The label that the register gives: years that end in January belong to the year before."""
        return (self.end - timedelta(days=45)).year


@dataclass(frozen=True, slots=True)
class UsCompany:
    """A filer. `filings`: its annual reports, oldest first. `has_quarters`: quarterly ones as well."""

    cik: int
    name: str
    ticker: str
    taxonomy: Taxonomy = "us-gaap"
    currency: str = "USD"
    filings: tuple[Filing, ...] = ()
    has_quarters: bool = False
    trouble: UsTrouble | None = None


def columns(company: UsCompany, back: int = 0, *, first: bool = False) -> dict[str, str]:
    """What the reports say of the latest year, or of one `back` years before, as canonical text.

    The last report that tells of the year counts, which may be the next one's; with `first` the first.
    """
    filing = _telling(company, back, first)
    if filing is None:
        return {}
    amounts = _derived(filing)
    row = {
        "entity_name": company.name,
        "cik": str(company.cik),
        "fiscal_year_end": filing.end.isoformat()[5:],
        "period_start": filing.start.isoformat(),
        "period_end": filing.end.isoformat(),
        "form": filing.form,
        "filed": filing.filed.isoformat(),
        "accession": filing.accession,
    }
    return row | {name: canonical(amounts[name]) for name in COLUMNS if name in amounts}


def _telling(company: UsCompany, back: int, first: bool) -> Filing | None:
    """A year as the report that counts tells it: the comparative year of a report repeats the year before."""
    years = [*dict.fromkeys(filing.end for filing in company.filings)]
    if back >= len(years):
        return None
    own = [filing for filing in company.filings if filing.end == years[-1 - back]]
    if first:
        return own[0]
    if back == 0:
        return own[-1]
    later = next(filing for filing in company.filings if filing.end == years[-back])
    figures = dict(own[-1].figures) | dict(later.prior)
    return replace(own[-1], figures=figures, accession=later.accession, form=later.form, filed=later.filed)


def _derived(filing: Filing) -> dict[str, Decimal]:
    """The figures with those that follow from others of the same report (largest revenue, differences)."""
    amounts = dict(filing.figures)
    revenues = [filing.extra[tag] for tag in _REVENUE_TAGS if tag in filing.extra]
    if "revenue" in amounts:
        amounts["revenue"] = max([amounts["revenue"], *revenues])
    if "gross_profit" not in amounts and {"revenue", "cost_of_revenue"} <= amounts.keys():
        amounts["gross_profit"] = amounts["revenue"] - amounts["cost_of_revenue"]
    whole = filing.extra.get("LiabilitiesAndStockholdersEquity")
    equity = filing.extra.get(WHOLE_EQUITY, amounts.get("stockholders_equity"))
    if "total_liabilities" not in amounts and whole is not None and equity is not None:
        amounts["total_liabilities"] = whole - equity
    return amounts


WHOLE_EQUITY = "StockholdersEquityIncludingPortionAttributableToNoncontrollingInterest"
_REVENUE_TAGS = (
    "Revenues",
    "RevenueFromContractWithCustomerExcludingAssessedTax",
    "RevenueFromContractWithCustomerIncludingAssessedTax",
    "SalesRevenueNet",
)
