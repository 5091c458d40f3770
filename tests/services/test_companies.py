"""Company numbers survive what people and spreadsheets do to them, and are never guessed."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.companies import (
    BadNumber,
    cik,
    identify_noting_repair,
    lei,
    sec_identify,
    sec_name,
    uk_number,
)

IDENTIFIERS = [uk_number, cik, sec_identify]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("09355500", "09355500"),
        (" 09355500\u00a0", "09355500"),
        ("9355500", "09355500"),
        ("9355500.0", "09355500"),
        ("9355500,00", "09355500"),
        ("3.694027E+06", "03694027"),
        ("3,694027e+06", "03694027"),
        ("3.6940270E+06", "03694027"),
        ("9,355,500", "09355500"),
        ("9.355.500", "09355500"),
        ("9'355'500", "09355500"),
        ("9 355 500", "09355500"),
        ("9,355,500.00", "09355500"),
        ("9.355.500,0", "09355500"),
        ("225,951", "00225951"),
        ('="09355500"', "09355500"),
        ("=09355500", "09355500"),
        ("'00225951", "00225951"),
        ("\u200b00225951\ufeff", "00225951"),
        ("0022\x005951", "00225951"),
        ("sc 722766", "SC722766"),
        ("ni682066", "NI682066"),
        ("OC437536", "OC437536"),
        ("lp003115", "LP003115"),
        ("R0000001", "R0000001"),
        ("IP000CUS", "IP000CUS"),
        ("RC000123", "RC000123"),
        ("1E000123", "1E000123"),
        ("fc 034567", "FC034567"),  # overseas companies and their branches
        ("BR012345", "BR012345"),
        ("NF003456", "NF003456"),
        ("SL001234", "SL001234"),
        ("SO301234", "SO301234"),
        ("CE012345", "CE012345"),
        ("SE000045", "SE000045"),
        ("15052776", "15052776"),
        ("1", "00000001"),
    ],
)
def test_uk_numbers_are_read_as_people_write_them(text: str, number: str) -> None:
    assert uk_number(text) == number


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "blank"),
        (" \u00a0\t", "blank"),
        ('=""', "holds no number"),
        ("12345678901", "11 digits"),
        ("#N/A", "not a company number"),
        ("BEST MONEY HOLDING LIMITED", "'BEST MONEY HOLDING LIMITED' is not a company number"),
        ("9355500.5", "not a company number"),
        ("1.505E+07", "lost digits"),
        ("1E+07", "lost digits"),
        ("3.694E+06", "lost digits"),
        ("1.23E+10", "lost digits"),
        ("320,000", "may be 320 or 320000"),
        ("320.000", "may be 320 or 320000"),
        ("225.951", "not a company number"),
        ("9,35,500", "not a company number"),
        ("2021-03-31", "is a date"),
        ("2021-03-31 00:00:00", "is a date"),
        ("01/03/2024", "is a date"),
        ("Mar-21", "is a date"),
        ("1-Sep", "is a date"),
        ("HWUPKR0MPOU8FGXBT394", "is an LEI (HWUP"),
        ("HWUPKR0MPOU8FGXBT395", "not a company number"),
        ("SC1234", "SC001234"),
        ("00000000", "zero"),
        ("0", "zero"),
        ("٣٢٠١٩٣", "not a company number"),
    ],
)
def test_what_is_no_uk_number_is_refused_with_the_reason(text: str, why: str) -> None:
    with pytest.raises(BadNumber, match=re.escape(why)):
        uk_number(text)


@pytest.mark.parametrize(
    "text",
    ["320193", "0000320193", "CIK0000320193", "cik 320193", "CIK: 320193", "320193.0", '="0000320193"'],
)
def test_a_cik_is_digits_without_leading_zeros(text: str) -> None:
    assert cik(text) == "320193"


def test_trailing_zeros_of_a_cik_stay() -> None:
    assert cik("0001318600") == "1318600"


@pytest.mark.parametrize("text", ["", "CIK", "0", "0000000000", "00000320193", "12.5", "AAPL", "3.2E+09"])
def test_what_is_no_cik_is_refused(text: str) -> None:
    with pytest.raises(BadNumber):
        cik(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("BRK.B", "BRK-B"),
        ("BRK/B", "BRK-B"),
        ("1,318,605", "1318605"),
        ("brk-b", "BRK-B"),
        (" aapl ", "AAPL"),
        ("CIK", "CIK"),
        ("CIK0000320193", "320193"),
        ("0000320193", "320193"),
    ],
)
def test_a_company_of_the_sec_is_a_cik_or_a_ticker(text: str, number: str) -> None:
    assert sec_identify(text) == number


@pytest.mark.parametrize(
    "text",
    [
        "",
        "N/A",
        "#N/A",
        "SEP-21",
        "1-Mar",
        "HWUPKR0MPOU8FGXBT394",
        "Apple Inc.",
        "GEN ERIC",
        "TOOLONGATICKER",
        "-B",
        "BRK-",
    ],
)
def test_what_is_neither_cik_nor_ticker_is_refused(text: str) -> None:
    with pytest.raises(BadNumber):
        sec_identify(text)


@pytest.mark.parametrize(
    ("identify", "text", "repaired"),
    [
        (uk_number, "09355500", False),
        (uk_number, " sc 722766\u00a0", False),
        (uk_number, "9355500", True),
        (uk_number, "9355500.0", True),
        (uk_number, '="09355500"', True),
        (uk_number, "'00225951", True),
        (uk_number, "3.694027E+06", True),
        (uk_number, "9,355,500", True),
        (sec_identify, "brk/b", False),
        (cik, "0000320193", False),
        (cik, "CIK0000320193", False),
        (cik, "320193.0", True),
        (sec_identify, "brk.b", False),
    ],
)
def test_only_what_a_spreadsheet_changed_counts_as_repaired(
    identify: Callable[[str], str], text: str, repaired: bool
) -> None:
    assert identify_noting_repair(identify, text) == (identify(text), repaired)


@pytest.mark.parametrize("identify", IDENTIFIERS)
@given(text=st.one_of(st.text(), st.from_regex(r"[='\"]{0,2}[A-Z0-9.,E+ ]{0,12}\"?", fullmatch=True)))
def test_any_text_is_a_lasting_number_or_a_bad_one(identify: Callable[[str], str], text: str) -> None:
    try:
        number = identify(text)
    except BadNumber as bad:
        number, said = None, str(bad)
    if number is None:
        assert said.endswith(".")
        assert len(said) < 400
        return
    assert identify(number) == number
    assert re.fullmatch(r"[A-Z0-9-]{1,11}", number)


@given(number=st.integers(1, 99_999_999))
def test_every_way_a_spreadsheet_writes_a_uk_number_comes_back(number: int) -> None:
    right = f"{number:08d}"
    for written in (str(number), f"{number}.0", f'="{right}"', f"'{right}", right, f"{number:.7E}"):
        assert uk_number(written) == right


@given(number=st.integers(10_000, 99_999_999), kept=st.integers(0, 3))
def test_a_scientific_number_that_lost_digits_is_never_guessed(number: int, kept: int) -> None:
    with pytest.raises(BadNumber):
        uk_number(f"{number:.{kept}E}")


@given(number=st.integers(1, 9_999_999_999))
def test_every_way_to_write_a_cik_comes_back(number: int) -> None:
    for written in (str(number), f"{number:010d}", f"CIK{number:010d}", f"{number}.0"):
        assert cik(written) == sec_identify(written) == str(number)


@given(number=st.integers(1, 99_999_999), separator=st.sampled_from(",'’"))
def test_thousands_separators_come_out_or_are_refused_where_they_may_be_decimals(
    number: int, separator: str
) -> None:
    written = f"{number:,}".replace(",", separator)
    if written.count(separator) == 1 and written.endswith(",000"):
        with pytest.raises(BadNumber, match="write it without separators"):
            uk_number(written)
    else:
        assert uk_number(written) == f"{number:08d}"


LEI_CHARACTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
LEI_BODIES = st.text(LEI_CHARACTERS, min_size=18, max_size=18)


def with_check_digits(body: str) -> str:
    """As ISO 7064 MOD 97-10 makes them, by long division."""
    rest = 0
    for character in f"{body}00":
        value = ord(character) - (48 if character.isdigit() else 55)
        rest = (rest * (100 if value > 9 else 10) + value) % 97
    return f"{body}{98 - rest:02d}"


@pytest.mark.parametrize("text", ["HWUPKR0MPOU8FGXBT394", "5493001KJTIIGC8Y1R12", "hwup kr0m pou8 fgxb t394"])
def test_a_real_lei_is_an_lei(text: str) -> None:
    assert lei(text) == re.sub(" ", "", text.upper())


@given(LEI_BODIES, st.integers(0, 19), st.data())
def test_an_lei_with_one_character_changed_or_two_swapped_is_refused(
    body: str, place: int, data: st.DataObject
) -> None:
    right = with_check_digits(body)
    assert lei(right) == right
    other = data.draw(st.sampled_from(LEI_CHARACTERS.replace(right[place], "")))
    wrong = [right[:place] + other + right[place + 1 :]]
    if place and right[place] != right[place - 1]:
        wrong.append(right[: place - 1] + right[place] + right[place - 1] + right[place + 1 :])
    for text in wrong:
        if not (text[18:].isdigit() and has_wrapped(right, text)):
            with pytest.raises(BadNumber):
                lei(text)


def has_wrapped(one: str, other: str) -> bool:
    """MOD 97-10 misses a change by a multiple of 97: letters are two digits, so a few swaps are one."""
    return as_number(one) % 97 == as_number(other) % 97


def as_number(text: str) -> int:
    return int("".join(str(int(character, 36)) for character in text))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Apple Inc.", "APPLE INC."),
        ("  Johnson &\u00a0 Johnson ", "JOHNSON & JOHNSON"),
        ('"Tesla, Inc."', "TESLA, INC."),
        ("3M Co", "3M CO"),
        ("Café\u200b Söhne", "CAFÉ SÖHNE"),
        ("A\x00B\x07Corp\ud800", "A B CORP"),
    ],
)
def test_a_name_stays_as_given_in_capitals(text: str, name: str) -> None:
    assert sec_name(text) == name
    assert sec_name(name) == name


@pytest.mark.parametrize(
    "text", ["", " ", "N/A", "#N/A", "#REF!", "#NAME?", "null", "123", "-", "A", "x" * 201]
)
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(BadNumber):
        sec_name(text)


@given(st.text(max_size=300))
def test_any_text_is_a_lasting_name_or_none(text: str) -> None:
    try:
        name = sec_name(text)
    except BadNumber as bad:
        name, said = "", str(bad)
    if not name:
        assert said.endswith(".")
        return
    assert sec_name(name) == name
    assert len(name) <= 600
