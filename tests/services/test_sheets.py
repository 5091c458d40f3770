"""Any table that people upload is read row by row, and damage stays where it is."""

from __future__ import annotations

import csv
import io
import zipfile
from functools import cache

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.sheets import Sheet, UnusableFile, records, sheets

TEXT = "Société;Numéro\r\nCafé – Ltd;09355500\r\n"


def only(data: bytes) -> Sheet:
    (sheet,) = sheets(data, "list.csv")
    return sheet


def cells(data: bytes) -> list[list[str]]:
    return [row for _, row in only(data).rows]


@pytest.mark.parametrize(
    ("encoding", "seen_as"),
    [
        ("utf-8", "utf-8"),
        ("utf-8-sig", "utf-8-sig"),
        ("utf-16", "utf-16"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "utf-16-be"),
        ("utf-32", "utf-32"),
        ("cp1252", "cp1252"),
    ],
)
def test_every_usual_encoding_is_seen(encoding: str, seen_as: str) -> None:
    sheet = only(TEXT.encode(encoding))
    assert (sheet.encoding, sheet.delimiter) == (seen_as, ";")
    assert list(sheet.rows) == [(1, ["Société", "Numéro"]), (2, ["Café – Ltd", "09355500"])]


def test_bytes_that_cp1252_does_not_know_do_not_stop_the_file() -> None:
    assert cells(b"name,number\n\x81\xe9,1\n") == [["name", "number"], ["\x81é", "1"]]


def test_a_file_cut_inside_a_letter_is_still_utf_8() -> None:
    sheet = only("number,name\n1,é\n2,é".encode()[:-1])
    assert sheet.encoding == "utf-8"
    assert list(sheet.rows)[1] == (2, ["1", "é"])


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_the_one_that_cuts_evenly(delimiter: str) -> None:
    rows = [["number", "name"], ["1", "Tesla, Inc."], ["2", "A; B | C"], ["3", "plain"]]
    written = io.StringIO()
    csv.writer(written, delimiter=delimiter).writerows(rows)
    data = written.getvalue().encode()
    assert only(data).delimiter == delimiter
    assert cells(data) == rows


def test_a_stated_delimiter_is_believed_and_its_line_is_no_row() -> None:
    assert list(only(b"sep=|\nnumber|a,b\n1|c,d\n").rows) == [(2, ["number", "a,b"]), (3, ["1", "c,d"])]


def test_quoted_newlines_keep_their_record_together_and_the_line_numbers_right() -> None:
    assert list(only(b'n,name\r\n1,"A\r\nB"\r\n2,C\r\n').rows) == [
        (1, ["n", "name"]),
        (2, ["1", "A\r\nB"]),
        (4, ["2", "C"]),
    ]


def test_nul_bytes_inside_text_are_dropped() -> None:
    assert cells(b"number,name\n0935\x005500,A\x00B\n" + b"1,plain company\n" * 9)[1] == ["09355500", "AB"]


def test_a_cell_beyond_the_csv_modules_limit_is_read() -> None:
    long = "first line\n" + "x" * 300_000
    assert cells(f'number,note\n1,"{long}"\n2,short\n'.encode())[1:] == [["1", long], ["2", "short"]]


def test_a_blank_before_a_quote_does_not_end_the_quoting() -> None:
    assert cells(b'number, name\n1, "A, B"\n')[1] == ["1", "A, B"]


@pytest.mark.parametrize(
    ("damaged", "read"),
    [
        ('1,"Bad Co', ["1", "Bad Co"]),
        ('"Bad Co,1', ["Bad Co", "1"]),
        ('"Bob "The Man" Ltd",1', ['Bob "The Man" Ltd', "1"]),
        ('"Smith, "Bob" Ltd",1', ['Smith, "Bob" Ltd', "1"]),
        ('"A ""B"" C" D,1', ['A ""B"" C" D', "1"]),
        ('"A"B,', ['A"B', ""]),
    ],
)
def test_a_damaged_quote_never_swallows_the_lines_after_it(damaged: str, read: list[str]) -> None:
    text = f'a,b\n{damaged}\n2,"Good, Co"\n3,C\n'
    rows = list(records(io.StringIO(text, newline=""), ","))
    assert rows == [(1, ["a", "b"]), (2, read), (3, ["2", "Good, Co"]), (4, ["3", "C"])]


def test_one_open_quote_does_not_cost_the_rest_of_a_long_file() -> None:
    lines = ['0,"open', *(f"{n},name" for n in range(1, 50_000))]
    rows = [row for _, row in records((line + "\n" for line in lines), ",")]
    assert len(rows) == 50_000
    assert rows[-1] == ["49999", "name"]


cell = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)


@given(rows=st.lists(st.lists(cell, min_size=2, max_size=2), min_size=1, max_size=8))
def test_what_a_csv_writer_wrote_comes_back(rows: list[list[str]]) -> None:
    written = io.StringIO(newline="")
    csv.writer(written, quoting=csv.QUOTE_ALL).writerows(rows)
    read = [row for _, row in records(io.StringIO(written.getvalue(), newline=""), ",")]
    assert read == rows


@given(
    data=st.binary(max_size=400),
    start=st.sampled_from([b"", b"\xff\xfe", b"\xef\xbb\xbf", b"PK\x03\x04", b"a,b\n"]),
)
def test_any_bytes_give_rows_or_a_sentence(data: bytes, start: bytes) -> None:
    try:
        for sheet in sheets(start + data, "list.csv"):
            assert all(isinstance(text, str) for _, row in sheet.rows for text in row)
    except UnusableFile as problem:
        said = str(problem)
    else:
        said = "list.csv was read."
    assert said.startswith("list.csv")
    assert said.endswith(".")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "is empty"),
        (b"\xef\xbb\xbf\r\n \r\n", "is empty"),
        (b"\0" * 50, "is empty"),
        (b"%PDF-1.7 stream", "is a PDF"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 99, "password"),
        (b"\x1f\x8b\x08\x00" + b"x" * 99, "compressed"),
        (b"PK\x03\x04" + b"word/document.xml", "ZIP archive"),
        (bytes(range(256)) * 8, "not a text file"),
        (b"PK\x03\x04" + b"xl/workbook.xml" + b"\x07" * 50, "cannot be read"),
    ],
)
def test_what_is_no_table_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(UnusableFile, match=why):
        list(sheets(data, "list.csv"))


def workbook(**pages: list[list[object]]) -> bytes:
    book = openpyxl.Workbook()
    del book["Sheet"]
    for title, rows in pages.items():
        page = book.create_sheet(title)
        for row in rows:
            page.append(row)
        page.sheet_state = "hidden" if title.startswith("hidden") else "visible"
    written = io.BytesIO()
    book.save(written)
    return written.getvalue()


def test_every_visible_worksheet_is_a_table_whatever_the_file_is_called() -> None:
    data = workbook(
        hiddenOne=[["x"]], Cover=[["About"]], Data=[["number", "share"], [9355500, 0.5], [None, True]]
    )
    found = [(sheet.encoding, sheet.name, list(sheet.rows)) for sheet in sheets(data, "list.csv")]
    assert found == [
        ("xlsx", "Cover", [(1, ["About"])]),
        ("xlsx", "Data", [(1, ["number", "share"]), (2, ["9355500", "0.5"]), (3, ["", "True"])]),
    ]


def test_a_worksheet_that_states_a_wrong_size_is_read_whole() -> None:
    data, changed = workbook(Data=[["number", "name"], [1, "A"]]), io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(changed, "w") as new:
        for member in old.namelist():
            new.writestr(member, old.read(member).replace(b'ref="A1:B2"', b'ref="A1"'))
    assert [row for sheet in sheets(changed.getvalue(), "x.xlsx") for _, row in sheet.rows][1] == ["1", "A"]


def test_a_workbook_that_unpacks_to_far_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.sheets._UNPACKED_BYTES", 1_000)
    with pytest.raises(UnusableFile, match="unpacks to"):
        list(sheets(workbook(Data=[["number"]]), "list.xlsx"))


@cache
def small_workbook() -> bytes:
    """Made once: it holds the time of its making, and what is cut must be the same in every example."""
    return workbook(Data=[["number", "name"], [1, "A"]])


@given(cut=st.integers(0, 4_000))
def test_a_workbook_cut_anywhere_gives_rows_or_a_sentence(cut: int) -> None:
    data = small_workbook()
    try:
        for sheet in sheets(data[: max(1, len(data) - cut)], "list.xlsx"):
            list(sheet.rows)
    except UnusableFile as problem:
        said = str(problem)
    else:
        said = "list.xlsx was read."
    assert said.startswith("list.xlsx")
