"""Which XBRL tags the SEC's filers use for each field, in the order in which they are believed.

Sources: the US-GAAP taxonomy (FASB) and the IFRS taxonomy (IFRS Foundation, `ifrs-full`).
"""

from __future__ import annotations

# Filers tag their top line in different ways, and some tag a part of it with one of these names:
# the largest of one filing and period is the whole.
REVENUES = (
    "us-gaap:Revenues",
    "us-gaap:RevenueFromContractWithCustomerExcludingAssessedTax",
    "us-gaap:RevenueFromContractWithCustomerIncludingAssessedTax",
    "us-gaap:SalesRevenueNet",
    "ifrs-full:Revenue",
)
REVENUES_WHERE_NONE_OF_THOSE = (
    "us-gaap:RevenuesNetOfInterestExpense",
    "us-gaap:RegulatedAndUnregulatedOperatingRevenue",
    "ifrs-full:RevenueFromContractsWithCustomers",
)

FLOWS: dict[str, tuple[str, ...]] = {
    "cost_of_revenue": (
        "us-gaap:CostOfRevenue",
        "us-gaap:CostOfGoodsAndServicesSold",
        "us-gaap:CostOfGoodsSold",
        "ifrs-full:CostOfSales",
    ),
    "gross_profit": ("us-gaap:GrossProfit", "ifrs-full:GrossProfit"),
    "operating_income": ("us-gaap:OperatingIncomeLoss", "ifrs-full:ProfitLossFromOperatingActivities"),
    "net_income": (
        "us-gaap:NetIncomeLoss",
        "us-gaap:ProfitLoss",
        "us-gaap:NetIncomeLossAvailableToCommonStockholdersBasic",
        "ifrs-full:ProfitLoss",
        "ifrs-full:ProfitLossAttributableToOwnersOfParent",
    ),
    "eps_basic": (
        "us-gaap:EarningsPerShareBasic",
        "us-gaap:EarningsPerShareBasicAndDiluted",
        "ifrs-full:BasicEarningsLossPerShare",
    ),
    "eps_diluted": (
        "us-gaap:EarningsPerShareDiluted",
        "us-gaap:EarningsPerShareBasicAndDiluted",
        "ifrs-full:DilutedEarningsLossPerShare",
    ),
    "shares_diluted": (
        "us-gaap:WeightedAverageNumberOfDilutedSharesOutstanding",
        "us-gaap:WeightedAverageNumberOfShareOutstandingBasicAndDiluted",
        "ifrs-full:AdjustedWeightedAverageShares",
    ),
    "operating_cash_flow": (
        "us-gaap:NetCashProvidedByUsedInOperatingActivities",
        "us-gaap:NetCashProvidedByUsedInOperatingActivitiesContinuingOperations",
        "ifrs-full:CashFlowsFromUsedInOperatingActivities",
    ),
    "capex": (
        "us-gaap:PaymentsToAcquirePropertyPlantAndEquipment",
        "us-gaap:PaymentsToAcquireProductiveAssets",
        "ifrs-full:PurchaseOfPropertyPlantAndEquipmentClassifiedAsInvestingActivities",
    ),
}
INSTANTS: dict[str, tuple[str, ...]] = {
    "total_assets": ("us-gaap:Assets", "ifrs-full:Assets"),
    "current_assets": ("us-gaap:AssetsCurrent", "ifrs-full:CurrentAssets"),
    "cash": (
        "us-gaap:CashAndCashEquivalentsAtCarryingValue",
        "us-gaap:CashCashEquivalentsRestrictedCashAndRestrictedCashEquivalents",
        "us-gaap:Cash",
        "ifrs-full:CashAndCashEquivalents",
    ),
    "total_liabilities": ("us-gaap:Liabilities", "ifrs-full:Liabilities"),
    "current_liabilities": ("us-gaap:LiabilitiesCurrent", "ifrs-full:CurrentLiabilities"),
    "long_term_debt": (
        "us-gaap:LongTermDebtNoncurrent",
        "us-gaap:LongTermDebt",
        "us-gaap:LongTermDebtAndCapitalLeaseObligations",
        "ifrs-full:NoncurrentPortionOfNoncurrentBorrowings",
        "ifrs-full:LongtermBorrowings",
    ),
    "stockholders_equity": (
        "us-gaap:StockholdersEquity",
        "us-gaap:StockholdersEquityIncludingPortionAttributableToNoncontrollingInterest",
        "ifrs-full:Equity",
        "ifrs-full:EquityAttributableToOwnersOfParent",
    ),
}

# Total liabilities, where they are not tagged, are the balance sheet's total less all equity. Each way to
# state all equity is a sum; a part that may be absent counts as nothing when the parts before it are there.
BALANCE_TOTALS = ("us-gaap:LiabilitiesAndStockholdersEquity", "ifrs-full:EquityAndLiabilities")
ALL_EQUITY = (
    "us-gaap:StockholdersEquityIncludingPortionAttributableToNoncontrollingInterest",
    "ifrs-full:Equity",
)
OWNERS_EQUITY = "us-gaap:StockholdersEquity"
OTHERS_EQUITY = "us-gaap:MinorityInterest"
