"""Company numbers survive what people and spreadsheets do to them, and are never guessed."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.companies import BadNumber, cik, identify_noting_repair, sec_identify, uk_number

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
    "text", ["", "N/A", "#N/A", "Apple Inc.", "GEN ERIC", "TOOLONGATICKER", "-B", "BRK-"]
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
