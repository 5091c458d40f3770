"""The right value for a field and a year, as real filers at the SEC have it."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.extraction import Source
from services.us_facts import SERIES, annual, latest_annual
from services.us_filed import read

FILES = [
    "companyfacts_CIK0000320193_AAPL.json",
    "companyfacts_CIK0001045810_NVDA.json",
    "companyfacts_CIK0001652044_GOOG.json",
    "companyfacts_LPA.json",
]
Filing = Callable[..., dict[str, Any]]


def filed(accession: str, on: str, form: str = "10-K") -> Filing:
    def fact(val: Any, end: str = "2024-12-31", start: str | None = None) -> dict[str, Any]:
        known = {"val": val, "end": end, "accn": accession, "filed": on, "form": form, "fy": 2031, "fp": "Q2"}
        return known if start is None else known | {"start": start}

    return fact


FIRST, SECOND = filed("0001-25-1", "2025-02-01"), filed("0001-26-1", "2026-02-01")


def document(us_gaap: dict[str, Any] | None = None, ifrs: dict[str, Any] | None = None) -> dict[str, Any]:
    """Facts by tag, in dollars or in the units given."""
    facts = {
        taxonomy: {
            tag: {"units": found if isinstance(found, dict) else {"USD": found}}
            for tag, found in tags.items()
        }
        for taxonomy, tags in (("us-gaap", us_gaap), ("ifrs-full", ifrs))
        if tags
    }
    return {"cik": 7, "entityName": "A Corp", "facts": facts}


def year(make: Filing, val: Any, end: int = 2024) -> dict[str, Any]:
    return make(val, f"{end}-12-31", f"{end}-01-01")


def latest(facts: dict[str, Any], field: str) -> Any:
    found = latest_annual(facts, [field])
    return found[field].value if field in found else None


def load(corpus: Path, name: str) -> Any:
    plain = corpus / "sec_json" / name
    return read(
        plain.read_bytes() if plain.exists() else gzip.decompress(plain.with_suffix(".json.gz").read_bytes())
    )


@pytest.mark.parametrize("name", FILES)
def test_every_expected_value_of_real_companies_comes_out(corpus: Path, name: str) -> None:
    expected = json.loads((corpus / "expected" / "us_companyfacts.json").read_bytes(), parse_float=Decimal)[
        name
    ]
    series = annual(load(corpus, name))
    checked = 0
    for field, years in expected["annual"].items():
        for end, right in years.items():
            value = series[field][date.fromisoformat(end)]
            assert (field, end, value.value) == (field, end, right["value"])
            assert isinstance(value.value, int | Decimal)
            checked += 1
            if (
                field != "revenue"
            ):  # there the last filed wins over the order of the tags; the values are equal
                source = value.source
                assert source is not None
                assert (source.tag, source.document) == (right["tag"], right["accn"])
                assert (source.unit, source.form, str(source.filed)) == (
                    right["unit"],
                    right["form"],
                    right["filed"],
                )
    assert checked > 30


@pytest.mark.parametrize("name", FILES)
def test_the_last_year_of_real_companies_comes_out(corpus: Path, name: str) -> None:
    expected = json.loads((corpus / "expected" / "us_companyfacts.json").read_bytes(), parse_float=Decimal)[
        name
    ]
    row = latest_annual(load(corpus, name), ["entity_name", "cik", "period_end", "form", *SERIES])
    assert row["entity_name"].value == expected["entityName"]
    assert row["cik"].value == str(int(expected["cik"]))
    assert str(row["period_end"].value) == expected["latest_fy_end"]
    for field, right in expected["latest_fy"].items():
        if right is not None:
            assert row[field].value == right["value"]


def test_alphabets_gross_profit_is_derived(corpus: Path) -> None:
    value = latest_annual(load(corpus, FILES[2]), ["gross_profit"])["gross_profit"]
    assert (value.value, value.flags) == (240_301_000_000, ("derived",))
    assert value.source == Source(
        tag="us-gaap:Revenues - us-gaap:CostOfRevenue",
        unit="USD",
        period_start=date(2025, 1, 1),
        period_end=date(2025, 12, 31),
        document="0001652044-26-000018",
        filed=date(2026, 2, 5),
        form="10-K",
    )


@pytest.mark.parametrize(
    ("part", "whole", "smaller", "larger"),
    [  # the figures of Procter & Gamble FY2014 and General Mills FY2024
        ("Revenues", "SalesRevenueNet", 29_400_000_000, 83_062_000_000),
        ("RevenueFromContractWithCustomerExcludingAssessedTax", "Revenues", 2_038_000_000, 19_857_000_000),
    ],
)
def test_revenue_is_the_largest_of_one_filing_and_says_so(
    part: str, whole: str, smaller: int, larger: int
) -> None:
    facts = document({part: [year(SECOND, smaller)], whole: [year(SECOND, larger)]})
    value = latest_annual(facts, ["revenue"])["revenue"]
    assert (value.value, value.flags) == (larger, ("candidates_differ",))
    assert value.source is not None
    assert value.source.tag == f"us-gaap:{whole}"


def test_revenue_of_an_older_filing_does_not_beat_a_restated_one() -> None:
    facts = document({"Revenues": [year(FIRST, 900)], "SalesRevenueNet": [year(SECOND, 700)]})
    assert latest(facts, "revenue") == 700


def test_a_bank_without_any_usual_revenue_has_its_net_revenue() -> None:
    assert latest(document({"RevenuesNetOfInterestExpense": [year(FIRST, 5)]}), "revenue") == 5


def test_the_last_filed_wins_and_is_flagged_and_the_first_is_an_option() -> None:
    facts = document({"NetIncomeLoss": [year(SECOND, 8), year(FIRST, 9)]})
    last = latest_annual(facts, ["net_income", "accession"])
    first = latest_annual(facts, ["net_income", "accession"], first_filed=True)
    assert (last["net_income"].value, last["net_income"].flags) == (8, ("restated",))
    assert (first["net_income"].value, first["accession"].value) == (9, "0001-25-1")


def test_only_whole_years_of_annual_reports_count() -> None:
    quarterly = filed("q", "2026-05-01", "10-Q")
    news = filed("n", "2026-06-01", "8-K")
    facts = document(
        {
            "NetIncomeLoss": [
                year(FIRST, 1),
                SECOND(2, "2024-12-31", "2024-10-01"),
                SECOND(3, "2025-12-31", "2023-01-01"),
                year(quarterly, 4),
                year(news, 5),
            ]
        }
    )
    assert annual(facts)["net_income"].keys() == {date(2024, 12, 31)}
    assert latest(facts, "net_income") == 1


@pytest.mark.parametrize("form", ["10-K", "10-K/A", "20-F", "20-F/A", "40-F", "40-F/A"])
def test_every_annual_form_and_its_amendment_counts(form: str) -> None:
    facts = document({"NetIncomeLoss": [year(filed("a", "2025-03-01", form), 6)]})
    assert latest(facts, "net_income") == 6
    assert latest(facts, "form") == form


@pytest.mark.parametrize(
    ("start", "counts"),
    [("2024-01-17", False), ("2024-01-16", True), ("2023-12-17", True), ("2023-12-16", False)],
)
def test_a_year_has_350_to_380_days(start: str, counts: bool) -> None:
    assert (latest(document({"NetIncomeLoss": [FIRST(1, "2024-12-31", start)]}), "net_income") == 1) is counts


def test_the_period_is_labelled_by_its_end_and_not_by_fy() -> None:
    facts = document({"NetIncomeLoss": [FIRST(1, "2024-02-03", "2023-01-29")]})
    row = latest_annual(
        facts, ["fiscal_year_end", "period_start", "period_end", "filed", "cik", "entity_name"]
    )
    assert {field: value.value for field, value in row.items()} == {
        "fiscal_year_end": "02-03",
        "period_start": date(2023, 1, 29),
        "period_end": date(2024, 2, 3),
        "filed": date(2025, 2, 1),
        "cik": "7",
        "entity_name": "A Corp",
    }


def test_the_report_is_the_one_most_values_are_from() -> None:
    amended = filed("amended", "2025-09-01", "10-K/A")
    facts = document(
        {
            "NetIncomeLoss": [year(FIRST, 1)],
            "Revenues": [year(FIRST, 2)],
            "EarningsPerShareBasic": {"USD/shares": [year(amended, Decimal("0.10"))]},
        }
    )
    row = latest_annual(facts, ["accession", "form"])
    assert (row["accession"].value, row["form"].value) == ("0001-25-1", "10-K")


def test_the_balance_sheet_is_the_one_at_the_years_end() -> None:
    facts = document(
        {
            "NetIncomeLoss": [year(FIRST, 1)],
            "Assets": [FIRST(10, "2024-12-31"), FIRST(11, "2023-12-31"), FIRST(12, "2025-01-15")],
        }
    )
    assert latest(facts, "total_assets") == 10
    assert [value.flags for value in annual(facts)["total_assets"].values()] == [(), (), ("not_at_year_end",)]


def test_a_company_without_a_whole_year_yet_has_its_balance_sheet() -> None:
    facts = document({"Assets": [FIRST(10)], "NetIncomeLoss": [FIRST(1, "2024-12-31", "2024-08-01")]})
    row = latest_annual(facts, ["period_end", "period_start", "total_assets", "net_income"])
    assert {field: value.value for field, value in row.items()} == {
        "period_end": date(2024, 12, 31),
        "total_assets": 10,
    }
    assert row["total_assets"].flags == ()


def test_gross_profit_is_derived_within_one_filing_only() -> None:
    both = document({"Revenues": [year(FIRST, 90)], "CostOfRevenue": [year(FIRST, 60)]})
    apart = document({"Revenues": [year(FIRST, 90)], "CostOfRevenue": [year(SECOND, 60)]})
    tagged = document(
        {"Revenues": [year(FIRST, 90)], "CostOfRevenue": [year(FIRST, 60)], "GrossProfit": [year(FIRST, 31)]}
    )
    assert [latest(facts, "gross_profit") for facts in (both, apart, tagged)] == [30, None, 31]


@pytest.mark.parametrize(
    ("equity", "liabilities"),
    [
        ({"StockholdersEquity": [FIRST(40)]}, 60),
        ({"StockholdersEquity": [FIRST(40)], "MinorityInterest": [FIRST(5)]}, 55),
        (
            {
                "StockholdersEquity": [FIRST(40)],
                "StockholdersEquityIncludingPortionAttributableToNoncontrollingInterest": [FIRST(47)],
            },
            53,
        ),
        ({"StockholdersEquity": [SECOND(40)]}, None),
        ({"MinorityInterest": [FIRST(5)]}, None),
        ({"StockholdersEquity": [FIRST(40)], "Liabilities": [FIRST(61)]}, 61),
    ],
)
def test_total_liabilities_not_tagged_are_the_rest_beside_all_equity(
    equity: Any, liabilities: int | None
) -> None:
    facts = document(
        {"NetIncomeLoss": [year(FIRST, 1)], "LiabilitiesAndStockholdersEquity": [FIRST(100)]} | equity
    )
    assert latest(facts, "total_liabilities") == liabilities


def test_an_ifrs_filer_is_read_with_its_own_tags() -> None:
    report = filed("f", "2025-03-01", "20-F")
    facts = document(
        ifrs={
            "Revenue": [year(report, 9)],
            "CostOfSales": [year(report, 4)],
            "ProfitLoss": [year(report, 2)],
            "EquityAndLiabilities": [report(30)],
            "Equity": [report(12)],
        }
    )
    names = ["revenue", "gross_profit", "net_income", "total_liabilities", "stockholders_equity"]
    assert [latest(facts, name) for name in names] == [9, 5, 2, 18, 12]


def test_a_translation_for_convenience_never_mixes_with_the_reporting_currency() -> None:
    report = filed("f", "2025-03-01", "20-F")
    facts = document(
        ifrs={
            "Revenue": {"USD": [year(report, 14)], "CNY": [year(report, 100), year(report, 90, 2023)]},
            "ProfitLoss": {"USD": [year(report, 3)], "CNY": [year(report, 20), year(report, 10, 2023)]},
            "Assets": {"USD": [report(70)]},
        }
    )
    row = latest_annual(facts, ["revenue", "net_income", "total_assets"])
    assert {field: value.value for field, value in row.items()} == {"revenue": 100, "net_income": 20}


def test_a_company_that_changed_its_currency_has_each_year_as_reported() -> None:
    old, new = filed("o", "2024-03-01", "20-F"), filed("n", "2025-03-01", "20-F")
    facts = document(
        ifrs={"Revenue": {"EUR": [year(old, 5, 2023), year(old, 4, 2022)], "USD": [year(new, 6)]}}
    )
    assert {end.year: value.value for end, value in annual(facts)["revenue"].items()} == {
        2022: 4,
        2023: 5,
        2024: 6,
    }


@pytest.mark.parametrize(
    "damage",
    [
        {"val": None}, {"val": True}, {"val": "12"}, {"val": 10**40}, {"val": float("nan")},
        {"end": "0001-13-01"}, {"end": "2031-12-31", "start": "2031-01-01"}, {"end": None},
        {"filed": "soon"}, {"accn": None}, {"start": "2024-13-01"}, {"form": ["10-K"]},
    ],
)  # fmt: skip
def test_one_damaged_fact_costs_only_itself(damage: dict[str, Any]) -> None:
    facts = document({"NetIncomeLoss": [year(SECOND, 1) | damage, year(FIRST, 7)], "Assets": [FIRST(3)]})
    assert latest(facts, "net_income") == 7
    assert latest(facts, "period_end") == date(2024, 12, 31)


@pytest.mark.parametrize(
    "facts", [{}, {"facts": None}, {"facts": {}}, document(), {"facts": {"us-gaap": {"Assets": {}}}}]
)
def test_a_company_without_facts_has_no_row(facts: dict[str, Any]) -> None:
    assert latest_annual(facts, ["cik", "entity_name", "revenue"]) == {}


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(units=json_like, item=json_like)
def test_no_shape_of_json_raises(units: Any, item: Any) -> None:
    tags = {"Assets": {"units": units}, "Revenues": {"units": {"USD": [item]}}, "Liabilities": units}
    assert set(
        latest_annual({"cik": item, "entityName": units, "facts": {"us-gaap": tags}}, ["revenue"])
    ) <= {"revenue"}


def test_reading_drops_what_no_annual_report_says_and_keeps_numbers_exact() -> None:
    body = json.dumps(
        document({"Revenues": [year(FIRST, 1), year(filed("q", "2025-05-01", "10-Q"), 2)]})
    ).encode()
    found = read(body.replace(b'"val": 1,', b'"val": 0.1000,'))
    assert [fact and fact["val"] for fact in found["facts"]["us-gaap"]["Revenues"]["units"]["USD"]] == [
        Decimal("0.1000"),
        None,
    ]


def test_a_large_answer_needs_memory_of_a_few_times_its_size(corpus: Path) -> None:
    packed = corpus / "sec_json" / f"{FILES[1]}.gz"
    body = gzip.decompress(packed.read_bytes())
    tracemalloc.start()
    try:
        latest_annual(read(body), list(SERIES))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4 * len(body)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe{", b"[" * 200_000, b'{"cik": ' + b"9" * 5_000 + b"}"])
def test_what_is_no_json_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read(body)
