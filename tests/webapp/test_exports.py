"""An export is a snapshot that opens everywhere and runs nowhere."""

from __future__ import annotations

import csv
import io
import json
import re
import zipfile
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import openpyxl
import psycopg
import pytest
from click.testing import Result
from hypothesis import example, given
from hypothesis import strategies as st

from services.service import Kind
from store import lists
from store.cleaning import to_json
from store.lists import ListSeen
from webapp.exports import FORMATS, LONGEST_TEXT, _cell, _never_run

FIELDS = ("entity_current_legal_name", "shareholder_funds", "balance_sheet_date", "company_dormant")
RESULT = {
    "values": {
        "entity_current_legal_name": '=HYPERLINK("http://example.com")\\ "quoted",\nnext line\u2028é',
        "shareholder_funds": 12345678901234567890,
        "balance_sheet_date": "2022-12-31",
        "company_dormant": False,
    },
    "sources": {
        "shareholder_funds": {
            "tag": "core:Equity",
            "context": "c1",
            "unit": "GBP",
            "document": "/document/1",
            "filed": "2023-05-01",
            "position": "#f7",
        }
    },
    "flags": {"shareholder_funds": ["total_member", "unknown_unit"]},
    "notes": ["late"],
}

SOURCE = "core:Equity · c1 · /document/1 · #f7 · filed 2023-05-01"


@pytest.fixture
def a_list(
    run: Callable[..., Result],
    companies: Path,
    end_jobs: Callable[[str, Mapping[str, str]], int],
    committed: psycopg.Connection,
) -> ListSeen:
    run("keys", "add", "companies_house", "--label", "main", stdin=b"secret")
    fields = [part for name in FIELDS for part in ("--field", name)]
    run("lists", "import", companies, "--name", "UK", "--service", "companies_house", *fields)
    end_jobs("companies_house", {"09355500": to_json(RESULT)})
    return lists.see(committed, "UK")[0]


def exported(conn: psycopg.Connection, a_list: ListSeen, form: str, with_sources: bool = False) -> bytes:
    download = FORMATS[form].write(conn, a_list, with_sources)
    assert download.count == 3
    assert isinstance(download.as_of, datetime)
    return b"".join(download.chunks)


def test_csv_has_every_job_once_in_the_order_of_the_file(
    committed: psycopg.Connection, a_list: ListSeen
) -> None:
    rows = list(csv.DictReader(io.StringIO(exported(committed, a_list, "csv").decode(), newline="")))
    assert [row["company"] for row in rows] == ["09355500", "09355501", "SC722766"]
    assert list(rows[0]) == ["company", "name", "status", "outcome", "cause", "message", *FIELDS]
    assert rows[0]["entity_current_legal_name"] == "'" + str(RESULT["values"]["entity_current_legal_name"])  # type: ignore[index]
    assert rows[0]["shareholder_funds"] == "12345678901234567890"
    assert (rows[1]["status"], rows[1]["cause"], rows[1]["shareholder_funds"]) == ("failed", "not_found", "")


def test_csv_with_sources_says_tag_document_and_flags_beside_each_field(
    committed: psycopg.Connection, a_list: ListSeen
) -> None:
    row = next(csv.DictReader(io.StringIO(exported(committed, a_list, "csv", True).decode(), newline="")))
    assert row["shareholder_funds_source"] == SOURCE
    assert row["shareholder_funds_unit"] == "GBP"
    assert row["shareholder_funds_flags"] == "total_member unknown_unit"
    assert row["balance_sheet_date_source"] == row["balance_sheet_date_flags"] == ""


def test_jsonl_has_one_exact_object_per_company_with_sources_and_flags(
    committed: psycopg.Connection, a_list: ListSeen
) -> None:
    lines = exported(committed, a_list, "jsonl").split(b"\n")
    assert lines.pop() == b""
    first, second, _ = map(json.loads, lines)
    assert first["values"] == RESULT["values"]
    assert list(first["values"]) == list(FIELDS)
    assert [first[part] for part in ("sources", "flags", "notes")] == [
        RESULT[part] for part in ("sources", "flags", "notes")
    ]
    assert second["values"] == dict.fromkeys(FIELDS)
    assert (second["cause"], second["sources"], second["flags"]) == ("not_found", {}, {})


def test_xlsx_has_numbers_as_numbers_dates_as_dates_and_text_that_is_never_a_formula(
    committed: psycopg.Connection, a_list: ListSeen
) -> None:
    committed.execute("UPDATE job SET name = '#N/A' WHERE company = '09355501'")
    book = openpyxl.load_workbook(io.BytesIO(exported(committed, a_list, "xlsx", True)))
    head, first, second, _ = book["Companies"].iter_rows()
    cells = dict(zip((cell.value for cell in head), first, strict=True))
    assert cells["company"].value == "09355500"
    assert (cells["entity_current_legal_name"].data_type, cells["shareholder_funds"].value) == (
        "s",
        "12345678901234567890",
    )
    assert cells["balance_sheet_date"].value == datetime(2022, 12, 31)  # noqa: DTZ001
    assert cells["company_dormant"].value is False
    assert (cells["shareholder_funds_unit"].value, cells["shareholder_funds_source"].value) == ("GBP", SOURCE)
    assert (second[1].value, second[1].data_type) == ("#N/A", "s")


@given(st.decimals(-(10**14), 10**14, allow_nan=False, places=4) | st.integers(-(10**15) + 1, 10**15 - 1))
@example(Decimal("8.41"))
def test_numbers_are_in_the_worksheets_file_as_their_digits(number: int | Decimal) -> None:
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet()
    sheet.append([_never_run(sheet, _cell(number, Kind.MONEY))])
    file = io.BytesIO()
    book.save(file)
    xml = zipfile.ZipFile(file).read("xl/worksheets/sheet1.xml").decode()
    written = re.search(r"<v>(.*?)</v>|<t>(.*?)</t>", xml)
    assert written
    assert Decimal(written[1] or written[2]) == number
    assert "e" not in (written[1] or "").lower()


@given(st.text() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False, places=4) | st.none())
def test_a_worksheet_takes_every_value(value: object) -> None:
    book = openpyxl.Workbook(write_only=True)
    book.create_sheet().append([_cell(value, Kind.DATE)])
    file = io.BytesIO()
    book.save(file)
    openpyxl.load_workbook(file)


def test_a_text_that_is_too_long_for_a_cell_is_cut() -> None:
    cell = _cell("x" * 100_000, Kind.TEXT)
    assert isinstance(cell, str)
    assert len(cell) == LONGEST_TEXT
