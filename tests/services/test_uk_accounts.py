"""Which value is the right one: real filings in columns, and the rules one by one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.extraction import Source
from services.ixbrl import Context, Fact, Filing, read
from services.uk_accounts import PER_PERIOD, ROW, Accounts, Period, latest, normalise, padded_number

GENERAL = (
    "balance_sheet_date",
    "companies_house_registered_number",
    "entity_current_legal_name",
    "company_dormant",
)
CONSOLIDATED = {"GroupCompanyDataDimension": "Consolidated"}
DAY, YEAR_BEFORE, TWO_BEFORE = date(2024, 12, 31), date(2023, 12, 31), date(2022, 12, 31)
FIRST_DAY = date(2024, 1, 1)


def accounts_of(corpus: Path, name: str) -> Accounts:
    path = corpus / name
    data = path.read_bytes() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes())
    return normalise(read(data))


def as_expected(period: Period) -> dict[str, Any]:
    """The expected file has one column for what is two here."""
    values = {column: value.value for column, value in period.values.items()}
    assets = [values.pop(name) for name in ("fixed_assets", "tangible_fixed_assets") if name in values]
    if assets:
        values["tangible_fixed_assets"] = assets[0]
    return values


def test_every_cell_of_every_real_filing_is_right(corpus: Path) -> None:
    wrong: list[str] = []
    cells = 0
    for name, right in json.loads((corpus / "expected/uk_normalised.json").read_text()).items():
        accounts = accounts_of(corpus, name)
        for column in GENERAL:
            cells += 1
            value = accounts.general[column].value if column in accounts.general else None
            ours = value.isoformat() if isinstance(value, date) else value
            if ours != right.get(column):
                wrong.append(f"{name} {column}: {ours!r} instead of {right.get(column)!r}")
        wrong += [f"{name} {difference}" for difference in period_differences(accounts, right["periods"])]
        cells += sum(len(period) for period in right["periods"])
    assert not wrong, f"{len(wrong)} of {cells} cells are wrong:\n" + "\n".join(wrong[:20])
    assert cells == 1258


def period_differences(accounts: Accounts, right: list[dict[str, Any]]) -> list[str]:
    ours = {
        (period.span.scope, period.span.start.isoformat(), period.span.end.isoformat()): as_expected(period)
        for period in accounts.periods
    }
    names = ("scope", "period_start", "period_end")
    expected = {
        tuple(period[name] for name in names): {
            column: Decimal(value) for column, value in period.items() if column not in names
        }
        for period in right
    }
    if [*ours] != [*expected]:
        return [f"periods: {[*ours]} instead of {[*expected]}"]
    return [
        f"{span} {column}: {ours[span].get(column)} instead of {expected[span].get(column)}"
        for span in ours
        for column in ours[span].keys() | expected[span].keys()
        if ours[span].get(column) != expected[span].get(column)
    ]


def test_no_cell_that_a_well_known_tool_gets_wrong_is_wrong_here(corpus: Path) -> None:
    cells = json.loads((corpus / "expected/peer_stream_read_xbrl_wrong_cells.json").read_text())
    for cell in (cell for cell in cells if "period_end" in cell and cell["column"] in PER_PERIOD):
        accounts = accounts_of(corpus, f"uk_ixbrl/{cell['file']}")
        ours = {
            str(as_expected(period)[cell["column"]])
            for period in accounts.periods
            if period.span.end.isoformat() == cell["period_end"] and cell["column"] in as_expected(period)
        }
        assert ours <= set(cell["right"]), cell


def test_a_group_shows_its_own_profit_and_loss_and_the_other_filings_the_companys(corpus: Path) -> None:
    group = latest(accounts_of(corpus, "uk_ixbrl/Prod223_2911_05078870_20200930.html"))
    assert group["scope"].value == "consolidated"
    assert group["turnover_gross_operating_revenue"].value == Decimal(21444801)
    assert group["turnover_gross_operating_revenue_prior"].value == Decimal(19372069)
    assert group["shareholder_funds"].value == Decimal(2288664)
    company = latest(accounts_of(corpus, "uk_ixbrl/Prod223_2911_03195231_20200630.html"))
    assert company["scope"].value == "company"
    assert company["shareholder_funds"].value == Decimal(34965012)


def test_share_capital_is_never_shareholders_funds(corpus: Path) -> None:
    row = latest(accounts_of(corpus, "uk_ixbrl/Prod223_3384_09355500_20221231.html"))
    assert row["shareholder_funds"].value == Decimal(375004)
    assert row["called_up_share_capital"].value == Decimal(200)
    assert row["average_number_employees_during_period"].value == Decimal("0.03")
    assert row["average_number_employees_during_period"].flags == ("fractional_employees",)


def context(end: date, start: date | None = None, dimensions: Mapping[str, str] | None = None) -> Context:
    instant = end if start is None else None
    return Context("c", "1", start, None if instant else end, instant, dimensions or {})


def fact(tag: str, value: Decimal | int | str, where: Context, **changes: Any) -> Fact:
    amount = Decimal(value) if isinstance(value, int) else value
    made = Fact(
        name=f"core:{tag}",
        namespace="http://xbrl.frc.org.uk/fr/2023-01-01/core",
        local=tag,
        value=amount,
        numeric=isinstance(amount, Decimal),
        nil=False,
        context_id="c",
        context=where,
        unit="GBP" if isinstance(amount, Decimal) else None,
        decimals="0",
        scale=None,
        format=None,
        flags=(),
        position="#f1",
    )
    return replace(made, **changes)


def row_of(*facts: Fact) -> dict[str, Any]:
    return {column: value.value for column, value in latest(normalise(Filing("ixbrl", [*facts], {}))).items()}


def values_of(*facts: Fact) -> dict[str, Any]:
    (period,) = normalise(Filing("ixbrl", [*facts], {})).periods
    return {column: (value.value, value.flags) for column, value in period.values.items()}


NOW = context(DAY)
YEAR = context(DAY, FIRST_DAY)
LAST_YEAR = context(YEAR_BEFORE, date(2023, 1, 1))


def test_the_first_tag_that_matches_fills_the_column() -> None:
    assert values_of(fact("Equity", 2, NOW), fact("ShareholderFunds", 1, NOW)) == {
        "shareholder_funds": (Decimal(1), ())
    }


def test_creditors_and_equity_are_told_apart_by_their_members() -> None:
    maturity, classes = "MaturitiesOrExpirationPeriodsDimension", "EquityClassesDimension"
    found = values_of(
        fact("Creditors", 1, context(DAY, None, {maturity: "WithinOneYear"})),
        fact("Creditors", 2, context(DAY, None, {maturity: "AfterOneYear"})),
        fact("Creditors", 99, NOW),
        fact("Equity", 3, context(DAY, None, {classes: "ShareCapital"})),
        fact("Equity", 4, context(DAY, None, {classes: "RetainedEarningsAccumulatedLosses"})),
        fact("Equity", 98, context(DAY, None, {classes: "SharePremium"})),
        fact("Equity", 5, NOW),
        fact("Debtors", 97, context(DAY, None, {"SomeDimension": "Part"})),
    )
    assert {column: value for column, (value, _) in found.items()} == {
        "creditors_due_within_one_year": 1,
        "creditors_due_after_one_year": 2,
        "called_up_share_capital": 3,
        "profit_loss_account_reserve": 4,
        "shareholder_funds": 5,
    }


def test_fixed_and_tangible_assets_are_two_columns() -> None:
    found = values_of(fact("FixedAssets", 9, NOW), fact("PropertyPlantEquipment", 4, NOW))
    assert {column: value for column, (value, _) in found.items()} == {
        "fixed_assets": 9,
        "tangible_fixed_assets": 4,
    }


@pytest.mark.parametrize(
    ("first", "second", "kept", "flags"),
    [
        ((1234567, "0"), (1234567, "0"), 1234567, ()),
        ((1235000, "-3"), (1234567, "0"), 1234567, ()),
        ((1234567, "INF"), (1234600, "-2"), 1234567, ()),
        ((1234567, "0"), (1234568, "0"), 1234567, ("inconsistent_duplicate",)),
        ((1234567, "0"), (9000000, "-3"), 1234567, ("inconsistent_duplicate",)),
        ((1234567, None), (1234568, "2"), 1234568, ("inconsistent_duplicate",)),
    ],
)
def test_of_duplicates_the_more_precise_wins_and_contradictions_are_flagged(
    first: tuple[int, str], second: tuple[int, str], kept: int, flags: tuple[str, ...]
) -> None:
    found = values_of(
        *(fact("Debtors", value, NOW, decimals=decimals) for value, decimals in (first, second))
    )
    assert found == {"debtors": (Decimal(kept), flags)}


def test_nil_and_american_facts_fill_nothing() -> None:
    nil = replace(fact("Debtors", 1, NOW), value=None, nil=True)
    american = fact("ProfitLoss", 1, YEAR, namespace="http://fasb.org/us-gaap/2024")
    assert normalise(Filing("ixbrl", [nil, american], {})).periods == ()


def test_a_total_member_stands_in_the_row_only_and_flagged() -> None:
    total = {"GeographicSegmentsDimension": "TotalGeographicSegmentsIncludingAnyUnallocatedAmount"}
    part = {"CharityFundsDimension": "TotalRestrictedIncomeFunds"}
    facts = [
        fact("TurnoverRevenue", 7, context(DAY, FIRST_DAY, total)),
        fact("TurnoverRevenue", 6, context(DAY, FIRST_DAY, {"GeographicSegmentsDimension": "Europe"})),
        fact("ProfitLoss", 5, context(DAY, FIRST_DAY, part)),
    ]
    accounts = normalise(Filing("ixbrl", facts, {}))
    assert [dict(period.values) for period in accounts.periods] == [{}]
    row = latest(accounts)
    assert (row["turnover_gross_operating_revenue"].value, row["turnover_gross_operating_revenue"].flags) == (
        Decimal(7),
        ("total_member",),
    )
    assert "profit_loss_for_period" not in row


def test_the_row_has_the_current_and_the_prior_year_and_no_older_one() -> None:
    row = row_of(
        fact("BalanceSheetDate", "31 December 2024", NOW),
        *(fact("Debtors", year, context(date(year, 12, 31))) for year in (2022, 2023, 2024)),
        fact("ProfitLoss", 10, YEAR),
        fact("ProfitLoss", 9, LAST_YEAR),
        fact("ProfitLoss", 3, context(DAY, date(2024, 10, 1))),
    )
    assert row == {
        "balance_sheet_date": DAY,
        "scope": "company",
        "period_start": FIRST_DAY,
        "period_end": DAY,
        "debtors": 2024,
        "debtors_prior": 2023,
        "profit_loss_for_period": 10,
        "profit_loss_for_period_prior": 9,
    }
    assert [*row] == [column for column in ROW if column in row]


def test_an_opening_balance_of_two_years_ago_is_not_the_prior_year() -> None:
    row = row_of(
        fact("Debtors", 1, NOW), fact("TurnoverRevenue", 2, YEAR), fact("Debtors", 3, context(TWO_BEFORE))
    )
    assert "debtors_prior" not in row


def test_a_quarters_profit_is_not_the_years() -> None:
    quarter = context(DAY, date(2024, 10, 1))
    row = row_of(
        fact("Debtors", 1, NOW), fact("EntityTradingStatus", "x", YEAR), fact("ProfitLoss", 3, quarter)
    )
    assert "profit_loss_for_period" not in row


def test_the_years_figure_stands_before_the_days_except_on_the_balance_sheet() -> None:
    row = row_of(
        *(fact("AverageNumberEmployeesDuringPeriod", people, when) for people, when in ((1, NOW), (2, YEAR))),
        *(fact("Debtors", amount, when) for amount, when in ((3, NOW), (4, YEAR))),
    )
    assert (row["average_number_employees_during_period"], row["debtors"]) == (2, 3)


def test_without_a_duration_the_period_has_no_start() -> None:
    row = row_of(fact("BalanceSheetDate", "2024-12-31", NOW), fact("Debtors", 1, NOW))
    assert "period_start" not in row
    assert row["period_end"] == DAY


def test_figures_at_another_date_than_the_stated_one_are_flagged() -> None:
    facts = [fact("BalanceSheetDate", "2025-01-01", NOW), fact("Debtors", 1, NOW)]
    assert latest(normalise(Filing("ixbrl", facts, {})))["period_end"].flags == (
        "balance_sheet_date_differs",
    )


def test_figures_later_than_the_stated_date_are_left_out_and_flagged() -> None:
    facts = [
        fact("BalanceSheetDate", "2024-12-31", NOW),
        fact("Debtors", 1, NOW),
        fact("Debtors", 2, context(date(2025, 12, 31))),
    ]
    row = latest(normalise(Filing("ixbrl", facts, {})))
    assert (row["debtors"].value, row["period_end"].flags) == (Decimal(1), ("later_figures",))


@pytest.mark.parametrize(
    ("group", "company", "scope"),
    [
        (("Debtors", "TurnoverRevenue"), ("Debtors", "ProfitLoss"), "consolidated"),
        (("Debtors", "TurnoverRevenue"), ("Debtors",), "consolidated"),
        (("Debtors", "TurnoverRevenue"), ("Debtors", "TurnoverRevenue"), "company"),
        (("ProfitLoss",), ("Debtors", "StaffCosts"), "company"),
        (("TurnoverRevenue",), ("Debtors",), "company"),
        (("Debtors", "TurnoverRevenue"), (), "consolidated"),
        ((), ("Debtors",), "company"),
    ],
)
def test_consolidated_only_when_the_profit_and_loss_is_only_there(
    group: tuple[str, ...], company: tuple[str, ...], scope: str
) -> None:
    facts = [
        fact(tag, 1, context(DAY, None if tag == "Debtors" else FIRST_DAY, dimensions))
        for tags, dimensions in ((group, CONSOLIDATED), (company, {}))
        for tag in tags
    ]
    assert row_of(*facts)["scope"] == scope


def test_names_of_officers_and_subsidiaries_are_not_the_companys() -> None:
    named = "EntityCurrentLegalOrRegisteredName"
    row = row_of(
        fact(named, "Daughter Ltd", context(DAY, FIRST_DAY, {"SubsidiariesDimension": "Subsidiary1"})),
        fact(named, "Mother Ltd", YEAR),
        fact("EntityCurrentLegalName", "Old Name Ltd", YEAR),
    )
    assert row["entity_current_legal_name"] == "Mother Ltd"


@pytest.mark.parametrize(
    ("tag", "text", "format_name", "dormant"),
    [
        ("EntityDormantTruefalse", "", "ixt2:booleanfalse", False),
        ("EntityDormant", "The company was dormant", "ixt:fixed-true", True),
        ("CompanyDormant", "true", None, True),
        ("CompanyNotDormant", "true", None, False),
        ("EntityDormantTruefalse", "perhaps", None, None),
    ],
)
def test_dormant_is_what_the_format_fixes_whatever_the_page_shows(
    tag: str, text: str, format_name: str | None, dormant: bool | None
) -> None:
    assert row_of(fact(tag, text, YEAR, format=format_name)).get("company_dormant") is dormant


def test_every_value_says_where_it_is_from() -> None:
    origin = Source(document="/document/abc", filed=date(2025, 3, 1), form="AA")
    filing = Filing("ixbrl", [fact("ProfitLoss", 1, YEAR)], {})
    assert latest(normalise(filing, origin))["profit_loss_for_period"].source == Source(
        tag="core:ProfitLoss",
        context="c",
        unit="GBP",
        period_start=FIRST_DAY,
        period_end=DAY,
        document="/document/abc",
        filed=date(2025, 3, 1),
        form="AA",
        position="#f1",
    )


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("5078870", "05078870"),
        (" 0507 8870 ", "05078870"),
        ("sc1234", "SC001234"),
        ("OC437536", "OC437536"),
        ("IP000CUS", "IP000CUS"),
        ("Company 1", None),
        ("", None),
        ("123456789", None),
    ],
)
def test_registered_numbers_are_padded_to_eight(text: str, number: str | None) -> None:
    assert padded_number(text) == number


@given(st.text(max_size=12))
def test_a_padded_number_has_eight_characters_and_stays(text: str) -> None:
    number = padded_number(text)
    assert number is None or (len(number) == 8 and padded_number(number) == number)
