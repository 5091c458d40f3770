"""Data cannot break a write: it is cleaned, or refused with a name."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from store.cleaning import MAX_TEXT, Unstorable, text, to_json

ANY_TEXT = st.one_of(st.text(), st.text(st.sampled_from('aé😀"\\\n\u2028\x00\ud800\udfff')))
NUMBERS = st.one_of(
    st.integers(-(10**40), 10**40),
    st.decimals(allow_nan=False, allow_infinity=False, places=20, min_value=-(10**20), max_value=10**20),
    st.decimals(allow_nan=True, allow_infinity=True),
    st.integers(),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, ANY_TEXT, st.dates(), st.datetimes()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(ANY_TEXT, inner)),
    max_leaves=8,
)


def read_back(conn: psycopg.Connection, value: Any) -> Any:
    row = conn.execute("SELECT %s::jsonb", (to_json(value),)).fetchone()
    assert row
    return row[0]


def expected(value: Any) -> Any:
    """What of a value must come back."""
    match value:
        case str():
            return "".join("?" if "\ud800" <= c <= "\udfff" else c for c in value if c != "\x00")
        case date():
            return value.isoformat()
        case dict():
            return {expected(name): expected(item) for name, item in value.items()}
        case list():
            return [expected(item) for item in value]
        case _:
            return value


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=VALUES)
def test_postgres_takes_whatever_is_not_refused_and_gives_it_back(
    conn: psycopg.Connection, value: Any
) -> None:
    try:
        to_json(value)
    except Unstorable:
        return
    assert read_back(conn, value) == expected(value)


@pytest.mark.parametrize(
    "value",
    [
        Decimal("1234567890123456789012345678901234567890.0987654321"),
        Decimal("-0.00000000000000000000000000000000000001"),
        Decimal("1E+30"),
        Decimal("100.00"),
        10**40 + 1,
    ],
)
def test_numbers_of_forty_digits_stay_exact(conn: psycopg.Connection, value: Decimal | int) -> None:
    back = read_back(conn, {"n": value})["n"]
    assert back == value
    assert not isinstance(back, float)


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (Decimal("100.00"), "100"),
        (Decimal("1E+3"), "1000"),
        (Decimal("0.50"), "0.5"),
        (Decimal("-0.0"), "-0"),
        (Decimal("1200"), "1200"),
        (True, "true"),
        (date(2026, 1, 31), '"2026-01-31"'),
        (datetime(2026, 1, 31, 12, tzinfo=UTC), '"2026-01-31T12:00:00+00:00"'),
        (("a", None), '["a",null]'),
        ({1: "ü"}, '{"1":"ü"}'),
    ],
)
def test_json_is_plain(value: Any, json: str) -> None:
    assert to_json(value) == json


@pytest.mark.parametrize(
    "value",
    [
        Decimal("NaN"),
        Decimal("sNaN"),
        Decimal("-Infinity"),
        Decimal("1E+101"),
        Decimal("1E-101"),
        Decimal("1." + "1" * 17_000),
        10**5000,
        -(10**101),
        1.5,
        float("nan"),
        float("inf"),
        b"bytes",
        {1, 2},
        object(),
    ],
    ids=lambda value: f"{type(value).__name__}",
)
def test_what_is_no_text_and_no_number_is_refused_by_name(value: Any) -> None:
    with pytest.raises(Unstorable, match=r"\d|object|bytes|NaN|Infinity|nan|inf"):
        to_json({"values": {"total": [value]}})


def test_what_is_nested_without_end_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(Unstorable, match="nested"):
        to_json(deep)


def test_a_long_text_is_cut_and_a_huge_one_stored(conn: psycopg.Connection) -> None:
    huge = "\x00é" * 2_500_000
    back = read_back(conn, huge)
    assert back == "é" * (len(back) - 1) + "…"
    assert len(back) == MAX_TEXT // 2
    assert text("abcdef", 4) == "abc…"
    assert text("abcd", 4) == "abcd"


@given(value=ANY_TEXT, longest=st.integers(1, 20))
def test_cleaned_text_is_short_and_can_be_encoded(value: str, longest: int) -> None:
    cleaned = text(value, longest)
    assert len(cleaned) <= longest
    assert "\x00" not in cleaned.encode().decode()
    assert text(cleaned, longest) == cleaned


def test_what_no_column_takes_is_replaced_or_left_out(conn: psycopg.Connection) -> None:
    assert read_back(conn, {"a\x00": "\ud800b\udfff"}) == {"a": "?b?"}


def test_ordinary_text_stays_as_it_is() -> None:
    assert text("Ærø Færgefart A/S\n") == "Ærø Færgefart A/S\n"
