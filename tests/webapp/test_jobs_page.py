"""The jobs page shows what its URL asks for, 50 rows at a time, counted without reading the table."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st

from store.list_pages import Named
from store.tally import Count
from webapp import job_filters
from webapp.job_filters import JobFilter, from_args, from_cursor, matching, to_cursor

AList = Callable[..., int]
TokenOf = Callable[[str], str]


def companies(page: str) -> list[str]:
    return re.findall(r'<a href="/jobs/\d+">(\d{8})</a>', page)


def next_page(page: str) -> str | None:
    found = re.search(r'<a href="(/jobs\?[^"]*cursor=[^"]*)"', page)
    return found[1].replace("&amp;", "&") if found else None


@pytest.mark.parametrize(
    ("query", "n"),
    [
        ("", 130),
        ("?status=pending", 37),
        ("?status=failed", 63),
        ("?cause=parse_error", 60),
        ("?status=done&outcome=complete", 30),
        ("?outcome=partial", 0),
        ("?list=1", 120),
        ("?list=2", 10),
        ("?status=failed&list=2", 3),
        ("?service=sec_edgar", 10),
        ("?q=0000000", 18),
        ("?q=00000111", 1),
        ("?q= 0000 0111 &status=failed", 0),
        ("?status=nonsense&list=zzz&cursor=~~~", 130),
    ],
)
def test_the_url_says_which_jobs_and_each_is_shown_once(
    viewer: FlaskClient, a_list: AList, query: str, n: int
) -> None:
    a_list(120, done=30, failed={"parse_error": 60})
    a_list(10, failed={"not_found": 3}, service="sec_edgar")
    page = viewer.get(f"/jobs{query}").text
    assert f"<h2>{n:,} job{'' if n == 1 else 's'}</h2>" in page
    seen = re.findall(r'<tr id="job-(\d+)"', page)
    while further := next_page(page):
        assert len(re.findall(r'<tr id="job-', page)) == 50
        page = viewer.get(further).text
        seen += re.findall(r'<tr id="job-(\d+)"', page)
    assert len(seen) == len(set(seen)) == n


def test_a_filter_that_matches_nothing_says_how_many_there_are(viewer: FlaskClient, a_list: AList) -> None:
    a_list(3)
    page = viewer.get("/jobs?status=failed&list=1").text
    assert "Nothing matches." in page
    assert "3 jobs are in this list." in page
    assert 'href="/jobs?list=1">Clear filters' in page


def test_without_a_list_there_are_no_jobs_yet(viewer: FlaskClient, web: psycopg.Connection) -> None:
    assert "No jobs yet." in viewer.get("/jobs").text


def test_a_name_is_searched_for_within_one_list(
    viewer: FlaskClient, a_list: AList, web: psycopg.Connection
) -> None:
    a_list(3)
    web.execute("UPDATE job SET name = 'Ärger & Söhne 100%' WHERE company = '00000002'")
    assert "Choose a list to search for a name." in viewer.get("/jobs?q=söhne").text
    page = viewer.get("/jobs?list=1&q=söhne").text
    assert "Ärger &amp; Söhne 100%" in page
    assert "<h2>1 job</h2>" in page


def test_many_matches_are_more_than_ten_thousand(viewer: FlaskClient, a_list: AList) -> None:
    a_list(10_010)
    assert "more than 10,000 jobs" in viewer.get("/jobs?q=00").text
    assert "<h2>10,010 jobs</h2>" in viewer.get("/jobs").text


def test_a_failed_job_is_sent_back_from_its_row(
    operator: FlaskClient, token_of: TokenOf, a_list: AList, web: psycopg.Connection
) -> None:
    a_list(2, failed={"parse_error": 1})
    page = operator.get("/jobs?status=failed").text
    url = re.findall(r'hx-post="(/jobs/\d+/retry-here)"', page)[0]
    headers = {"X-CSRFToken": token_of(page), "HX-Request": "true"}
    answer = operator.post(url, headers=headers)
    assert (answer.status_code, answer.headers["HX-Trigger"]) == (200, "tick")
    assert "00000001 was sent back." in answer.text
    assert web.execute("SELECT status, attempts FROM job ORDER BY id").fetchall() == [("pending", 0)] * 2
    assert operator.post(url, headers=headers).status_code == 409
    assert operator.post("/jobs/999/retry-here", headers=headers).status_code == 409


def test_a_viewer_sends_nothing_back(
    viewer: FlaskClient, token_of: TokenOf, a_list: AList, web: psycopg.Connection
) -> None:
    a_list(1, failed={"parse_error": 1})
    page = viewer.get("/jobs?status=failed").text
    assert "Retry" not in page
    job = re.findall(r'<tr id="job-(\d+)"', page)[0]
    answer = viewer.post(f"/jobs/{job}/retry-here", data={"csrf_token": token_of(page)})
    assert answer.status_code == 403
    assert web.execute("SELECT status FROM job").fetchone() == ("failed",)


def test_what_a_service_said_is_text(viewer: FlaskClient, a_list: AList, web: psycopg.Connection) -> None:
    a_list(1, failed={"parse_error": 1})
    web.execute("UPDATE job SET name = '<img src=x>', message = '<script>alert(1)</script>{{ 7 * 7 }}'")
    page = viewer.get("/jobs?status=failed").text + viewer.get("/failures").text
    assert "<img" not in page
    assert "<script>alert" not in page
    assert "{{ 7 * 7 }}" in page


def test_a_page_asks_as_much_of_many_jobs_as_of_one(
    viewer: FlaskClient, a_list: AList, count_of: Callable[[Callable[[], Any]], int]
) -> None:
    a_list(1, failed={"parse_error": 1})
    one = count_of(lambda: viewer.get("/jobs?status=failed"))
    for _ in range(4):
        a_list(60, failed={"parse_error": 20, "not_found": 20})
    assert count_of(lambda: viewer.get("/jobs?status=failed")) == one
    assert one <= 19


LISTS = [Named(1, "one", "companies_house", "active"), Named(2, "two", "sec_edgar", "active")]


@given(st.dictionaries(st.sampled_from([*job_filters.ARGS, "cursor"]), st.text()))
def test_any_query_is_a_filter_that_its_own_url_asks_for_again(args: dict[str, str]) -> None:
    asked = from_args(args)
    assert from_args(asked.args) == asked
    from_cursor(args.get("cursor"), asked)


@given(st.text())
def test_a_cursor_from_anywhere_is_none_or_one(text: str) -> None:
    for asked in (JobFilter(), JobFilter("pending"), JobFilter("failed")):
        cursor = from_cursor(text, asked)
        assert cursor is None or from_cursor(to_cursor(cursor), asked) == cursor


def test_a_filter_is_counted_from_the_rollups() -> None:
    counts = [
        Count(1, "failed", "", "parse_error", 4),
        Count(1, "done", "empty", "no_accounts", 2),
        Count(2, "failed", "", "parse_error", 3),
        Count(2, "pending", "", "", 9),
        Count(7, "pending", "", "", 1),
    ]
    assert matching(JobFilter(), counts, LISTS) == {1: 6, 2: 12}
    assert matching(JobFilter(cause="parse_error"), counts, LISTS) == {1: 4, 2: 3}
    assert matching(JobFilter("failed", service="sec_edgar"), counts, LISTS) == {2: 3}
    assert matching(JobFilter("done", outcome="empty", list=2), counts, LISTS) == {}
