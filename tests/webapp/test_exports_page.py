"""A list is taken away as a file of its name, by anybody who may look."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from datetime import datetime

import openpyxl
import psycopg
import pytest
from flask.testing import FlaskClient
from werkzeug.http import parse_options_header

from store import rejects
from store.rejects import Rejected
from webapp import exports

AList = Callable[..., int]


@pytest.fixture
def list_id(a_list: AList, web: psycopg.Connection) -> int:
    made = a_list(3, done=1, failed={"not_found": 1}, name="UK mid-caps")
    web.execute("""UPDATE job SET result = '{"values": {"name": "=1+1"}}' WHERE status = 'done'""")
    return made


def test_each_format_has_every_job_as_of_a_moment(viewer: FlaskClient, list_id: int) -> None:
    csv, jsonl, xlsx = (viewer.get(f"/lists/{list_id}/export.{form}") for form in ("csv", "jsonl", "xlsx"))
    assert csv.text.splitlines()[0] == "company,name,status,outcome,cause,message,name"
    assert "00000001,,done,complete,,,'=1+1" in csv.text
    assert [json.loads(line)["company"] for line in jsonl.text.splitlines()] == [
        "00000001",
        "00000002",
        "00000003",
    ]
    rows = list(openpyxl.load_workbook(io.BytesIO(xlsx.data))["Companies"].iter_rows(values_only=True))
    assert len(rows) == 4
    for answer in (csv, jsonl, xlsx):
        assert answer.status_code == 200
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", answer.headers["Sluice-As-Of"])
        datetime.fromisoformat(answer.headers["Sluice-As-Of"])
        assert answer.headers["Cache-Control"] == "no-store"
    assert csv.headers["Content-Type"] == "text/csv; charset=utf-8"
    assert csv.headers["Content-Disposition"] == 'attachment; filename="UK mid-caps.csv"'


def test_sources_are_added_when_asked_for(viewer: FlaskClient, list_id: int) -> None:
    assert "name_source,name_flags" in viewer.get(f"/lists/{list_id}/export.csv?sources").text.splitlines()[0]


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ('a/b\\c:"d"\r\ne', "a_b_c_d_e.csv"),
        ("../../etc/passwd", "etc_passwd.csv"),
        ("???", "list 1.csv"),
        ("Größe 数", "Größe 数.csv"),
        ("x" * 200, "x" * 100 + ".csv"),
    ],
)
def test_the_name_of_the_file_is_safe_whatever_the_list_is_called(
    viewer: FlaskClient, a_list: AList, name: str, file: str
) -> None:
    answer = viewer.get(f"/lists/{a_list(1, name=name)}/export.csv")
    kind, options = parse_options_header(answer.headers["Content-Disposition"])
    assert kind == "attachment"
    assert options["filename"] == file


def test_a_list_that_does_not_fit_on_a_worksheet_is_refused_in_words(
    viewer: FlaskClient, list_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "MOST_ROWS", 2)
    answer = viewer.get(f"/lists/{list_id}/export.xlsx")
    assert answer.status_code == 422
    assert "Use csv or jsonl." in answer.text


def test_rejects_are_harmless_in_a_spreadsheet(
    viewer: FlaskClient, list_id: int, web: psycopg.Connection
) -> None:
    rejects.keep(web, list_id, [Rejected(3, "=cmd|' /C calc'!A0", "no number")])
    assert viewer.get(f"/lists/{list_id}/rejects.csv").text.splitlines()[1].startswith("3,'=cmd")


def test_unknown_formats_and_lists_are_no_pages(viewer: FlaskClient, list_id: int) -> None:
    for url in (f"/lists/{list_id}/export.exe", "/lists/99/export.csv", "/lists/99/rejects.csv"):
        assert viewer.get(url).status_code == 404


def test_nothing_is_taken_by_who_is_not_signed_in(web_app: object, viewer: FlaskClient, list_id: int) -> None:
    viewer.delete_cookie("sluice")
    answer = viewer.get(f"/lists/{list_id}/export.csv")
    assert answer.status_code == 302
    assert answer.location.startswith("/sign-in")
