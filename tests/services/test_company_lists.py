"""Lists of companies come out of files as people upload them, and no line is lost silently."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.companies import BadNumber, sec_identify, sec_name, uk_number
from services.company_lists import Columns, CompanyList, Reject, UnusableFile, read_companies

Identify = Callable[[str], str]


def read(text: str, identify: Identify = uk_number) -> CompanyList:
    return read_companies(text.encode(), "list.csv", identify)


def found(result: CompanyList) -> list[tuple[int, str, str | None]]:
    return [(company.line, company.number, company.name) for company in result.companies]


def test_a_plain_list_is_read_with_everything_else_kept() -> None:
    result = read("note, Company_Number ,Company Name,\nold,09355500,A Ltd,\n,SC722766,,7\n")
    assert found(result) == [(2, "09355500", "A Ltd"), (3, "SC722766", None)]
    assert [dict(company.extra) for company in result.companies] == [{"note": "old"}, {"column 4": "7"}]
    assert (result.number_columns, result.name_column) == (("Company_Number",), "Company Name")
    assert (result.encoding, result.delimiter, result.header_line) == ("utf-8", ",", 1)


def test_every_line_is_a_company_a_reject_a_duplicate_or_blank() -> None:
    result = read("number,x\n 09355500,1\n9355500,2\n\n#N/A,3\n,4\n , \n09355500.0,5\n")
    assert found(result) == [(2, "09355500", None)]
    assert (result.merged, result.repaired) == (2, 2)
    assert [(repair.line, repair.written, repair.number) for repair in result.repairs] == [
        (3, "9355500", "09355500"),
        (8, "09355500.0", "09355500"),
    ]
    assert [(reject.line, reject.text) for reject in result.rejects] == [(5, "#N/A,3"), (6, ",4")]
    assert result.rejects[1].reason == "The number is blank."


def test_a_name_that_is_too_long_is_cut_and_said_to_be() -> None:
    result = read(f"number,name\n09355500,{'a' * 1000}\n09355501,{'b' * 1001}\n09355502,{'c' * 5000}\n")
    assert [len(company.name or "") for company in result.companies] == [1000, 1000, 1000]
    assert (result.companies[1].name or "").endswith("b…")
    assert (result.cut, result.first_cut_line, result.rejects) == (2, 3, [])


def test_reading_again_gives_the_same() -> None:
    text = "number,name\n09355500,A\n9355500,B\nbad,C\n"
    assert asdict(read(text)) == asdict(read(text))


def test_blank_and_repeated_headings_get_names_of_their_own() -> None:
    result = read("number,name,note,note,,note 2\n1,N,a,b,c,d\n2,N,e,f,g,h,spilled\n")
    assert result.headers == ("number", "name", "note", "note 2", "column 5", "note 2 2", "column 7")
    assert dict(result.companies[1].extra) == {
        "note": "e", "note 2": "f", "column 5": "g", "note 2 2": "h", "column 7": "spilled",
    }  # fmt: skip


def test_a_row_longer_than_all_rows_looked_at_first_keeps_its_cells() -> None:
    result = read("number,a\n" + "".join(f"{n},7\n" for n in range(1, 1_100)) + "1100,7,far\n")
    assert dict(result.companies[-1].extra) == {"a": "7", "column 3": "far"}


@pytest.mark.parametrize(
    ("text", "header_line", "numbers"),
    [
        ("09355500\nSC722766\n", None, ["09355500", "SC722766"]),
        ("09355500", None, ["09355500"]),
        ("#N/A\n09355500\nSC722766\n", None, ["09355500", "SC722766"]),
        ("123456789012\n09355500\nSC722766\n", None, ["09355500", "SC722766"]),
        ("Supplier\n09355500\nSC722766\n", 1, ["09355500", "SC722766"]),
        ("Our suppliers\n09355500\n", 1, ["09355500"]),
        ("A Ltd;09355500\nB Ltd;SC722766\n", None, ["09355500", "SC722766"]),
        ("Firm;Ref\nA Ltd;09355500\nB Ltd;SC722766\n", 1, ["09355500", "SC722766"]),
    ],
)
def test_a_list_with_or_without_a_heading_is_told_apart(
    text: str, header_line: int | None, numbers: list[str]
) -> None:
    result = read(text)
    assert result.header_line == header_line
    assert [company.number for company in result.companies] == numbers


def test_tickers_without_a_heading_are_all_kept() -> None:
    assert [c.number for c in read("AAPL\nBRK.B\nMSFT\n", sec_identify).companies] == [
        "AAPL",
        "BRK-B",
        "MSFT",
    ]


def test_lines_above_the_heading_are_kept_as_rejects() -> None:
    result = read("Suppliers of 2025\n\nname,company_number\nA Ltd,09355500\n")
    assert result.header_line == 3
    assert result.rejects == [Reject(1, "Suppliers of 2025", "The line is above the heading.")]
    assert found(result) == [(4, "09355500", "A Ltd")]


def test_a_heading_is_believed_before_content() -> None:
    result = read("employees,company_number\n" + "12345678,n/a\n" * 3 + "12345679,09355500\n")
    assert result.number_columns == ("company_number",)
    assert len(result.rejects) == 3


def test_a_believed_heading_without_a_single_number_gives_way_to_content() -> None:
    assert read("number,registered under\nfirst,09355500\nsecond,SC722766\n").number_columns == (
        "registered under",
    )


def test_by_content_the_column_with_the_most_different_numbers_wins() -> None:
    result = read("year,staff,ref\n2024,12,09355500\n2024,12,SC722766\n2025,13,00225951\n")
    assert result.number_columns == ("ref",)
    assert dict(result.companies[0].extra) == {"year": "2024", "staff": "12"}


def test_a_company_without_a_cik_is_found_by_its_ticker() -> None:
    result = read(
        "Ticker,Company,Cik\nAAPL,Apple Inc.,320193\nBRK.B,Berkshire,\nX,Bad,12345678901\n", sec_identify
    )
    assert result.number_columns == ("Cik", "Ticker")
    assert found(result) == [(2, "320193", "Apple Inc."), (3, "BRK-B", "Berkshire")]
    assert result.companies[0].extra == {"Ticker": "AAPL"}
    assert [reject.line for reject in result.rejects] == [4]


def test_the_name_is_the_other_column_of_words_when_no_heading_says_so() -> None:
    result = read("ref,opened,client\n09355500,2020-01-02,A Ltd\nSC722766,2021-01-02,B Ltd\n")
    assert result.name_column == "client"


def test_a_person_may_choose_other_columns() -> None:
    text = "company_number,other,label\n09355500,SC722766,A\n"
    result = read_companies(text.encode(), "list.csv", uk_number, Columns(number=(1,), name=2))
    assert found(result) == [(2, "SC722766", "A")]
    assert dict(result.companies[0].extra) == {"company_number": "09355500"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "list.csv is empty."),
        ("\n , \n", "list.csv is empty."),
        ("company_number,name\n", "list.csv has a heading but no companies below it."),
        ("Town,Street\nYork,Low Road\nBath,High Road\n", "Its columns are “Town”, “Street”. Looked for"),
        (",".join(f"c{n}" for n in range(20)) + "\n" + ",".join(["a b"] * 20) + "\n", "“c11” and 8 more."),
    ],
)
def test_a_file_without_companies_is_refused_with_what_was_seen(text: str, why: str) -> None:
    with pytest.raises(UnusableFile, match=why.replace(".", r"\.")):
        read(text)


def test_more_than_a_million_rows_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.company_lists.MOST_ROWS", 3)
    assert len(read("1\n2\n3\n").companies) == 3
    with pytest.raises(UnusableFile, match="more than 3 rows"):
        read("1\n2\n3\n3\n")


def test_a_huge_cell_is_kept_where_it_is_data_and_cut_where_it_is_a_reject() -> None:
    huge = "x" * 200_000
    result = read(f'number,name,note\n1,A,"{huge}"\n"{huge}",B,\n')
    assert result.companies[0].extra["note"] == huge
    assert len(result.rejects[0].text) == 2_000
    assert len(result.rejects[0].reason) < 200


def test_the_first_worksheet_with_companies_is_read() -> None:
    book = openpyxl.Workbook()
    book["Sheet"].append(["Prepared by", "the data team"])
    page = book.create_sheet("Data")
    for row in [["Company Number", "Name"], [9355500, "A Ltd"], ["SC722766", None], [3694027.0, 7], ["x", 1]]:
        page.append(row)
    written = io.BytesIO()
    book.save(written)
    result = read_companies(written.getvalue(), "list.xlsx", uk_number)
    assert (result.encoding, result.delimiter, result.sheet) == ("xlsx", "", "Data")
    assert found(result) == [(2, "09355500", "A Ltd"), (3, "SC722766", None), (4, "03694027", "7")]
    assert result.rejects[0].text == "x\t1"


WANTED = ["09355500", "SC722766", "00225951"]
UPLOADED = {
    "UTF-8 with a mark and CRLF": "CompanyNumber,Name\r\n09355500,Café\r\nSC722766,B\r\n00225951,\r\n",
    "UTF-16 with tabs": "CompanyNumber\tName\r\n09355500\tCafé\r\nSC722766\tB\r\n00225951\tC\r\n",
    "cp1252 with semicolons": "CompanyNumber;Name\r\n09355500;Café\r\nSC722766;B\r\n00225951;C\r\n",
    "NUL bytes": "CompanyNumber,Name\n093\x0055500,A\nSC722766,\x00B\n00225951\x00,C\n",
    "quoted newlines": 'CompanyNumber,Name\n09355500,"A\r\nLtd"\nSC722766,"B\n\nLtd"\n00225951,C\n',
    "headings with leading blanks": " CompanyNumber, CompanyName\n09355500,A\nSC722766,B\n00225951,C\n",
    "lost zeros and what Excel makes of numbers": "no\n9355500.0\n SC722766\n225951\n",
    "formulas, apostrophes, blanks that do not break": 'no\n="09355500"\n\'sc722766\n\u00a000225951\u00a0\n',
    "scientific": "company number\n9.355500E+06\nSC722766\n2.25951E+05\n",
    "one column without a heading": "09355500\nSC722766\n00225951\n",
    "duplicates after normalising": "no\n09355500\n9355500\nsc 722766\nSC722766\n225951\n00225951\n",
}
ENCODINGS = {"UTF-8 with": "utf-8-sig", "UTF-16": "utf-16", "cp1252": "cp1252"}


@pytest.mark.parametrize("way", UPLOADED)
def test_lists_are_read_in_every_way_that_people_upload_them(way: str) -> None:
    encoding = next((known for start, known in ENCODINGS.items() if way.startswith(start)), "utf-8")
    result = read_companies(UPLOADED[way].encode(encoding), "list.csv", uk_number)
    assert [company.number for company in result.companies] == WANTED
    assert result.rejects == []
    assert result.companies[0].name in (None, "A", "Café", "A Ltd", "A\nLtd", "A\r\nLtd")


row = st.lists(
    st.one_of(st.text(max_size=9), st.sampled_from(["9355500", "09355500", "sc722766"])), max_size=4
)


@given(rows=st.lists(row, max_size=9), delimiter=st.sampled_from(",;\t"), data=st.data())
def test_no_row_of_any_table_disappears(rows: list[list[str]], delimiter: str, data: st.DataObject) -> None:
    rows = [["company_number", "name"], *rows]
    written = io.StringIO(newline="")
    csv.writer(written, delimiter=delimiter, quoting=csv.QUOTE_ALL).writerows(rows)
    clean = [[text.replace("\0", "") for text in cells] for cells in rows[1:]]
    filled = sum(any(text.strip() for text in cells) for cells in clean)
    try:
        result = read_companies(written.getvalue().encode(errors="replace"), "list.csv", uk_number)
    except UnusableFile:
        return
    below = len(result.companies) + len(result.rejects) + result.merged
    assert below + (result.header_line is not None) == filled + 1
    numbers = [company.number for company in result.companies]
    assert len(set(numbers)) == len(numbers)
    assert all(uk_number(number) == number for number in numbers)


@pytest.mark.parametrize(
    ("file", "identify", "counts"),
    [
        ("BasicCompanyData_sample.csv", uk_number, (4, 0, 0, 0)),
        ("popular_us_stocks.csv", sec_identify, (87, 0, 0, 0)),
        ("uk_cp1252_semicolon.csv", uk_number, (2, 0, 0, 0)),
        ("uk_dupes_spaces_case.csv", uk_number, (6, 3, 4, 1)),
        ("uk_excel_formula_text.csv", uk_number, (2, 0, 0, 2)),
        ("uk_lost_leading_zeros.csv", uk_number, (7, 0, 0, 3)),
        ("uk_utf8_bom_crlf.csv", uk_number, (7, 0, 0, 0)),
    ],
)
def test_the_real_lists_are_read_whole(
    corpus: Path, file: str, identify: Identify, counts: tuple[int, int, int, int]
) -> None:
    result = read_companies((corpus / "company_lists" / file).read_bytes(), file, identify)
    assert (len(result.companies), len(result.rejects), result.merged, result.repaired) == counts


def test_the_public_registers_own_headings_with_leading_blanks_are_known(corpus: Path) -> None:
    data = (corpus / "company_lists" / "BasicCompanyData_sample.csv").read_bytes()
    result = read_companies(data, "BasicCompanyData.csv", uk_number)
    assert (result.number_columns, result.name_column) == (("CompanyNumber",), "CompanyName")
    assert found(result)[0] == (2, "12778855", "! LIMITED")
    assert result.companies[0].extra["IncorporationDate"] == "29/07/2020"


def test_an_identify_that_refuses_everything_rejects_every_line() -> None:
    def never(text: str) -> str:
        raise BadNumber(f"{text} again.")

    assert [reject.reason for reject in read("number\n1\n2\n", never).rejects] == ["1 again.", "2 again."]


def read_named(text: str) -> CompanyList:
    return read_companies(text.encode(), "list.csv", sec_identify, identify_name=sec_name)


@pytest.mark.parametrize(
    "text",
    [
        "Name\nApple Inc.\nBest Buy Co\n",
        "Apple Inc.\nBest Buy Co\n",
        "Company,Sector\nApple Inc.,Tech\nBest Buy Co,Retail\n",
        "Company,Country\nApple Inc.,USA\nBest Buy Co,USA\n",
    ],
)
def test_a_list_of_names_only_is_one_where_companies_are_found_by_name(text: str) -> None:
    result = read_named(text)
    assert [company.number for company in result.companies] == ["APPLE INC.", "BEST BUY CO"]
    assert [company.name for company in result.companies] == ["Apple Inc.", "Best Buy Co"]
    assert (result.number_columns, result.rejects) == ((), [])
    with pytest.raises(UnusableFile, match="no column of company numbers"):
        read(text)


def test_a_column_headed_as_names_holds_names_even_if_they_look_like_tickers() -> None:
    result = read_named("name\nApple\nTesla\nBest Buy\napple\nN/A\n")
    assert [company.number for company in result.companies] == ["APPLE", "TESLA", "BEST BUY"]
    assert result.merged == 1
    assert [(reject.line, reject.reason) for reject in result.rejects] == [(6, "'N/A' is no company's name.")]


def test_a_line_without_a_number_goes_by_its_name_and_a_bad_number_is_never_replaced() -> None:
    result = read_named("ticker,company\nAAPL,Apple Inc.\n,Best Buy Co\n#N/A,Tesla\n,\n ,?\n")
    assert [company.number for company in result.companies] == ["AAPL", "BEST BUY CO"]
    assert [reject.line for reject in result.rejects] == [4, 6]


def test_tickers_beside_names_are_believed_without_a_heading_of_their_own() -> None:
    result = read_named("Company,Code\nApple Inc.,AAPL\nBest Buy Co,BBY\n")
    assert [company.number for company in result.companies] == ["AAPL", "BBY"]


def test_names_beside_numbers_stay_names() -> None:
    result = read_named("Apple Inc.,320193\nBest Buy Co,764478\n")
    assert found(result) == [(1, "320193", "Apple Inc."), (2, "764478", "Best Buy Co")]


def test_the_lists_of_the_corpus_are_read_whole(corpus: Path) -> None:
    popular = corpus / "company_lists" / "popular_us_stocks.csv"
    result = read_companies(popular.read_bytes(), popular.name, sec_identify, identify_name=sec_name)
    lines = popular.read_text().splitlines()[1:]
    assert len(result.companies) + result.merged == len(lines)
    assert {company.number for company in result.companies} >= {"320193", "BRK-B", "TWTR"}
