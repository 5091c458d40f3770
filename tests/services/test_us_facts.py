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

from services import earlier
from services.extraction import Source, Value
from services.us_facts import SERIES, Wanted, annual, latest_annual, row
from services.us_filed import QUARTER, read

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


ROUNDING = 2_000_000  # the filers round to millions, each figure by itself
QUARTERLY = [
    # company, periods back, field, value; a fourth quarter is the year less nine months
    (0, 0, "revenue", 143_756_000_000),
    (0, 0, "eps_diluted", Decimal("2.84")),
    (0, 0, "operating_cash_flow", 53_925_000_000),
    (0, 1, "revenue", 416_161_000_000 - 124_300_000_000 - 95_359_000_000 - 94_036_000_000),
    (0, 1, "net_income", 112_010_000_000 - 84_544_000_000),
    (0, 1, "total_assets", 359_241_000_000),
    (0, 3, "net_income", 24_780_000_000),
    (0, 3, "operating_cash_flow", 53_887_000_000 - 29_935_000_000),
    (1, 0, "net_income", 58_321_000_000),
    (1, 1, "operating_cash_flow", 102_718_000_000 - 66_530_000_000),
    (1, 2, "eps_diluted", Decimal("1.3")),
    (2, 1, "net_income", 132_170_000_000 - 34_540_000_000 - 28_196_000_000 - 34_979_000_000),
]


@pytest.mark.parametrize(("company", "back", "field", "value"), QUARTERLY)
def test_real_quarters_come_out(corpus: Path, company: int, back: int, field: str, value: Any) -> None:
    plain = corpus / "sec_json" / FILES[company]
    facts = read(gzip.decompress(plain.with_suffix(".json.gz").read_bytes()), QUARTER)
    column = earlier.column(field, back)
    assert row(facts, [column], Wanted(QUARTER))[column].value == value


@pytest.mark.parametrize("name", FILES[:3])
def test_four_real_quarters_add_up_to_their_year(corpus: Path, name: str) -> None:
    facts = read(gzip.decompress((corpus / "sec_json" / name).with_suffix(".json.gz").read_bytes()), QUARTER)
    years = annual(facts)
    for year in range(2019, 2026):
        for field in ("revenue", "net_income", "operating_cash_flow"):
            columns = [earlier.column(field, back) for back in range(4)]
            found = row(facts, [*columns, "period_end"], Wanted(QUARTER, year))
            end = found["period_end"].value
            assert isinstance(end, date)
            quarters = total([found[column] for column in columns])
            assert abs(quarters - total([years[field][end]])) <= ROUNDING


def total(values: list[Value]) -> Decimal:
    return sum((Decimal(str(value.value)) for value in values), Decimal(0))


def ten_q(number: int, on: str) -> Filing:
    return filed(f"0001-25-{number}", on, "10-Q")


def test_a_quarter_is_never_half_a_year() -> None:
    q2 = ten_q(2, "2025-08-01")
    facts = document({"NetIncomeLoss": [q2(70, "2025-06-30", "2025-01-01")]})
    assert row(facts, ["net_income"], Wanted(QUARTER)) == {}
    q1 = ten_q(1, "2025-05-01")
    facts = document(
        {"NetIncomeLoss": [q2(70, "2025-06-30", "2025-01-01"), q1(30, "2025-03-31", "2025-01-01")]}
    )
    value = row(facts, ["net_income"], Wanted(QUARTER))["net_income"]
    assert (value.value, value.flags) == (40, ("derived",))
    assert value.source is not None
    assert value.source.context == "2025-01-01 to 2025-06-30 less 2025-01-01 to 2025-03-31"
    assert (value.source.period_start, value.source.document) == (date(2025, 4, 1), "0001-25-2")


def test_quarters_of_12_and_16_weeks_are_quarters() -> None:
    """PepsiCo and Costco report three of 12 weeks and one of 16 or 17."""
    q3, k = ten_q(3, "2025-10-09"), filed("0001-26-9", "2026-02-04")
    income = [
        q3(20, "2025-09-06", "2025-06-15"),
        q3(55, "2025-09-06", "2024-12-29"),
        k(80, "2025-12-27", "2024-12-29"),
    ]
    names = ["net_income", "net_income_prior", "period_start"]
    found = row(document({"NetIncomeLoss": income}), names, Wanted(QUARTER))
    assert (found["net_income"].value, found["net_income_prior"].value) == (25, 20)
    assert found["period_start"].value == date(2025, 9, 7)


def test_a_stated_quarter_counts_before_a_difference() -> None:
    q1, q2 = ten_q(1, "2025-05-01"), ten_q(2, "2025-08-01")
    facts = document(
        {
            "NetIncomeLoss": [
                q1(30, "2025-03-31", "2025-01-01"),
                q2(70, "2025-06-30", "2025-01-01"),
                q2(41, "2025-06-30", "2025-04-01"),
            ]
        }
    )
    value = row(facts, ["net_income"], Wanted(QUARTER))["net_income"]
    assert (value.value, value.flags) == (41, ())


def test_what_does_not_add_up_is_never_a_difference() -> None:
    q3, k = ten_q(3, "2025-11-01"), filed("0001-26-9", "2026-02-01")
    per_share = {"USD/shares": [q3(3, "2025-09-30", "2025-01-01"), k(4, "2025-12-31", "2025-01-01")]}
    income = [q3(30, "2025-09-30", "2025-01-01"), k(40, "2025-12-31", "2025-01-01")]
    facts = document({"EarningsPerShareDiluted": per_share, "NetIncomeLoss": income})
    found = row(facts, ["eps_diluted", "net_income"], Wanted(QUARTER))
    assert {name: value.value for name, value in found.items()} == {"net_income": 10}


def test_as_first_reported_a_quarter_is_a_difference_of_first_reports() -> None:
    q3, k = ten_q(3, "2025-11-01"), filed("0001-26-9", "2026-02-01")
    again = filed("0001-27-9", "2027-02-01")
    income = [
        q3(30, "2025-09-30", "2025-01-01"),
        k(40, "2025-12-31", "2025-01-01"),
        again(45, "2025-12-31", "2025-01-01"),
    ]
    for first, value in ((True, 10), (False, 15)):
        found = row(document({"NetIncomeLoss": income}), ["net_income"], Wanted(QUARTER, first_filed=first))
        assert found["net_income"].value == value


def test_a_series_goes_back_over_reported_years() -> None:
    facts = document({"NetIncomeLoss": [year(SECOND, 3), year(FIRST, 1, 2022), year(FIRST, 2, 2023)]})
    names = [earlier.column(name, back) for back in range(4) for name in ("net_income", "period_end")]
    found = row(facts, names, Wanted())
    assert [found[earlier.column("net_income", back)].value for back in range(3)] == [3, 2, 1]
    assert found["period_end_prior_2"].value == date(2022, 12, 31)
    assert "net_income_prior_3" not in found
    assert row(facts, ["net_income"], Wanted(year=2023))["net_income"].value == 2
    assert row(facts, ["net_income"], Wanted(year=2021)) == {}
