"""Values by type: kept exactly, or missing with a flag; whatever comes, nothing is raised or a float."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.archives import Document, documents
from services.extraction import Empty, Failed, Fields, Source, Value
from services.filings import read_document
from services.registry import SERVICES
from services.service import Kind
from services.typed import BAD_VALUE, NO_CURRENCY, BadType, Column, checked, columns, read_type

SCALARS: dict[Kind, Any] = {
    Kind.TEXT: str,
    Kind.NUMBER: (int, Decimal),
    Kind.INTEGER: int,
    Kind.DATE: date,
    Kind.BOOLEAN: bool,
    Kind.MONEY: (int, Decimal),
}
ANYTHING = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.decimals()
    | st.dates()
    | st.datetimes()
    | st.text()
    | st.text(alphabet="0123456789.,()-+ eE£$GBP", max_size=30)
    | st.binary()
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(), st.integers(), max_size=2)
)


def clean(value: Any, kind: Kind, unit: str | None = None, source: Source | None = None) -> Value:
    wanted = [Column("x", kind, unit)]
    return checked(Fields({"x": Value(value, source, ("kept",)), "more": Value(1)}), wanted).values["x"]


@given(ANYTHING, st.sampled_from(Kind))
def test_whatever_comes_is_of_its_type_or_missing(value: Any, kind: Kind) -> None:
    found = clean(value, kind)
    assert found.value is None or isinstance(found.value, SCALARS[kind])
    if kind is not Kind.BOOLEAN:
        assert not isinstance(found.value, bool | float | datetime)
    is_nothing = value is None or (isinstance(value, str) and not value.strip())
    lost = found.value is None and not is_nothing
    unit = found.source.unit if found.source else None
    vague = kind is Kind.MONEY and unit is not None and not re.fullmatch("[A-Z]{3}", unit)
    more = BAD_VALUE[kind] if lost else NO_CURRENCY if vague else None
    assert found.flags == (("kept", more) if more else ("kept",))


@given(st.decimals(-(10**30), 10**30, allow_nan=False), st.sampled_from((Kind.NUMBER, Kind.MONEY)))
def test_numbers_stay_exact_as_numbers_and_as_text(number: Decimal, kind: Kind) -> None:
    assert clean(number, kind).value is number
    assert clean(f" {number:f} ", kind).value == number
    assert clean(f"{number:,f}", kind).value == number
    brackets = f"({abs(number):,f})"
    assert clean(brackets, kind).value == -abs(number)


@given(st.integers(-(10**40), 10**40))
def test_whole_numbers_are_whole_however_they_come(number: int) -> None:
    for written in (number, Decimal(number), Decimal(f"{number}.00"), f"{number:,}"):
        assert clean(written, Kind.INTEGER).value == number
    assert clean(Decimal(f"{number}.5"), Kind.INTEGER).flags == ("kept", "not_whole")
    assert clean(number, Kind.TEXT).value == str(number)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("£1,204.50", "1204.50"),
        ("1,204.50 GBP", "1204.50"),
        ("US$ 3", "3"),
        ("EUR 1 204", "1204"),
        ("−5", "-5"),
        ("1.5e3", "1500"),
        ("(£500)", "-500"),
        ("5£3", None),
        ("£5£", None),
        ("1.234,56", None),
        ("1,23", None),
        ("12%", None),
        ("about 3", None),
        ("1e999", None),
        ("9" * 500, None),
        ("GBP", None),
    ],
)
def test_printed_money_is_read_where_it_is_clear(written: str, value: str | None) -> None:
    assert clean(written, Kind.MONEY).value == (None if value is None else Decimal(value))


@pytest.mark.parametrize(
    ("written", "day"),
    [
        ("2024-03-31", date(2024, 3, 31)),
        ("2024-03-31T23:59:59Z", date(2024, 3, 31)),
        ("31 OCTOBER 2024", date(2024, 10, 31)),
        ("March 31, 2024", date(2024, 3, 31)),
        (datetime(2024, 3, 31, 12), date(2024, 3, 31)),  # noqa: DTZ001
        ("03/04/2024", None),
        ("2024-02-30", None),
        ("2024", None),
        (20240331, None),
    ],
)
def test_dates_are_read_where_they_are_one(written: Any, day: date | None) -> None:
    assert clean(written, Kind.DATE).value == day


@pytest.mark.parametrize(
    ("written", "truth"), [("Yes", True), ("FALSE", False), (1, True), (0, False), (2, None), ("maybe", None)]
)
def test_yes_and_no_are_told_apart_from_the_rest(written: Any, truth: bool | None) -> None:
    assert clean(written, Kind.BOOLEAN).value is truth


def test_a_value_of_another_unit_is_missing_and_says_where_it_was() -> None:
    dollars = Source(tag="Turnover", unit="USD")
    found = clean(5, Kind.MONEY, "GBP", dollars)
    assert (found.value, found.source, found.flags) == (None, dollars, ("kept", "other_unit"))
    assert clean(5, Kind.MONEY, "USD", dollars).value == 5
    assert clean(5, Kind.MONEY, None, dollars).value == 5
    assert clean(5, Kind.MONEY, "GBP").value == 5
    assert clean("£5", Kind.MONEY, "GBP").value == 5
    assert clean("5 USD", Kind.MONEY, "GBP").flags == ("kept", "other_unit")


def test_money_keeps_the_currency_that_is_printed_beside_it() -> None:
    assert clean("£1,204", Kind.MONEY).source == Source(unit="GBP")
    of_a_page = Source(document="a.pdf", position="page 4")
    assert clean("EUR 5", Kind.MONEY, None, of_a_page).source == replace(of_a_page, unit="EUR")
    assert clean("EUR 5", Kind.MONEY, "GBP", of_a_page).flags == ("kept", "other_unit")
    assert clean("£5", Kind.MONEY, None, Source(unit="USD")).source == Source(unit="USD")
    assert clean("5", Kind.MONEY).source is None


def test_money_in_no_currency_stays_and_says_so() -> None:
    shares = Source(tag="Turnover", unit="shares")
    assert clean(5, Kind.MONEY, None, shares) == Value(5, shares, ("kept", "no_currency"))
    assert clean("$5", Kind.MONEY).flags == ("kept", "no_currency")
    assert clean(5, Kind.NUMBER, None, shares).flags == ("kept",)
    assert clean(5, Kind.MONEY).flags == ("kept",)


@pytest.mark.parametrize("kind", ["uk_ixbrl/*", "uk_xbrl21/*", "sec_json/companyfacts*"])
def test_no_value_of_a_real_filing_is_changed_by_its_columns_usual_type(corpus: Path, kind: str) -> None:
    service = SERVICES["filings_folder"]
    amounts = 0
    for path in sorted(corpus.glob(kind)):
        (document,) = documents(path.name, path.read_bytes())
        assert isinstance(document, Document)
        report = read_document(document)
        if isinstance(report, Empty | Failed):
            continue
        found = checked(Fields(report.row), columns(service, list(report.row), {}))
        assert found.values == report.row
        of_money = [name for name in report.row if service.kind_of(name) is Kind.MONEY]
        assert all((report.row[name].source or Source()).unit for name in of_money)
        amounts += len(of_money)
    assert amounts > 10


def test_only_what_the_list_asks_for_is_left_and_in_its_order() -> None:
    wanted = [Column("b", Kind.TEXT), Column("a", Kind.NUMBER), Column("c", Kind.DATE)]
    found = checked(Fields({"a": Value(1), "b": Value(" x "), "z": Value(2)}, ("note",)), wanted)
    assert [(name, value.value) for name, value in found.values.items()] == [("b", "x"), ("a", 1)]
    assert found.flags == ("note",)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("money GBP", (Kind.MONEY, "GBP")),
        ("number USD/shares", (Kind.NUMBER, "USD/shares")),
        (" integer ", (Kind.INTEGER, None)),
    ],
)
def test_types_are_read_with_their_units(text: str, read: tuple[Kind, str | None]) -> None:
    assert read_type(text) == read


@pytest.mark.parametrize(
    "text", ["", "float", "money pounds", "money gbp", "text GBP", "number <b>", "Money"]
)
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(BadType):
        read_type(text)


def test_a_list_states_types_where_they_differ_from_the_services() -> None:
    names = ["entity_name", "revenue", "unheard_of"]
    found = columns(SERVICES["sec_edgar"], names, {"revenue": "money USD"})
    assert found == (
        Column("entity_name", Kind.TEXT),
        Column("revenue", Kind.MONEY, "USD"),
        Column("unheard_of", Kind.TEXT),
    )
