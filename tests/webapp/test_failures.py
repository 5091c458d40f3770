"""Failures are groups with what to do, and a retry is counted before anything changes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from store import lists
from webapp.pages.failures import _outcome

AList = Callable[..., int]
TokenOf = Callable[[str], str]


@pytest.fixture
def three(a_list: AList) -> list[int]:
    """Lists with failures: of two causes, of one, and of one in a paused list."""
    return [
        a_list(20, failed={"parse_error": 6, "not_found": 3}, name="first"),
        a_list(9, failed={"parse_error": 4}, name="second", service="sec_edgar"),
        a_list(5, failed={"service_error": 2}, name="third"),
    ]


def retry(client: FlaskClient, token_of: TokenOf, **values: Any) -> TestResponse:
    return client.post(
        "/failures/retry", data={"csrf_token": token_of(client.get("/failures").text), **values}
    )


def counted_in(page: str) -> str:
    found: list[str] = re.findall(r'name="counted" value="(\d+)"', page)
    return found[0]


def groups(page: str) -> list[tuple[str, str]]:
    return re.findall(r'id="group-(\d+)-(\w+)"', page)


def status_counts(conn: psycopg.Connection) -> dict[str, int]:
    return dict(conn.execute("SELECT status, count(*) FROM job GROUP BY 1").fetchall())


def test_each_cause_of_each_list_is_a_group_with_what_to_do(viewer: FlaskClient, three: list[int]) -> None:
    page = viewer.get("/failures").text
    first, second, third = map(str, three)
    # What a person can mend stands first, what no retry changes last.
    assert groups(page) == [
        (second, "parse_error"),
        (first, "parse_error"),
        (third, "service_error"),
        (first, "not_found"),
    ]
    assert "15 jobs · 3 causes · 3 lists" in page
    for words in (
        "Retry after a fix",
        "Retry helps now",
        "Retry will not help",
        "The document could not be read.",
    ):
        assert words in page
    assert page.count('<tr><td class="who">') == 3 + 3 + 2 + 3


@pytest.mark.parametrize(
    ("query", "n"),
    [("list=1", 2), ("service=sec_edgar", 1), ("cause=parse_error", 2), ("since=1h", 4), ("list=99", 0)],
)
def test_the_url_narrows_the_groups(viewer: FlaskClient, three: list[int], query: str, n: int) -> None:
    page = viewer.get(f"/failures?{query}").text
    assert len(groups(page)) == n
    assert ("No failed job matches." in page) == (n == 0)


def test_a_group_without_a_recent_failure_is_not_among_the_recent(
    viewer: FlaskClient, three: list[int], web: psycopg.Connection
) -> None:
    web.execute("UPDATE tally_minute SET minute = minute - interval '2 hours' WHERE list_id = 1")
    assert {list_id for list_id, _ in groups(viewer.get("/failures?since=1h").text)} == {"2", "3"}
    assert len(groups(viewer.get("/failures?since=24h").text)) == 4


def test_nothing_failed_says_so(viewer: FlaskClient, a_list: AList) -> None:
    a_list(3)
    assert "No failed jobs." in viewer.get("/failures").text


def test_a_retry_is_counted_first_and_changes_nothing_until_it_is_sent(
    operator: FlaskClient, token_of: TokenOf, three: list[int], web: psycopg.Connection
) -> None:
    page = operator.get("/failures/retry?list=1&cause=parse_error").text
    assert "Retry 6 jobs?" in page
    assert status_counts(web)["failed"] == 15
    answer = retry(operator, token_of, list=1, cause="parse_error", counted=counted_in(page))
    assert (answer.status_code, answer.location) == (303, "/failures?cause=parse_error&list=1")
    assert "6 jobs were sent back." in operator.get(answer.location).text
    left = web.execute("SELECT list_id, cause, count(*) FROM job WHERE status = 'failed' GROUP BY 1, 2")
    assert set(left.fetchall()) == {(1, "not_found", 3), (2, "parse_error", 4), (3, "service_error", 2)}


def test_what_changed_between_count_and_retry_is_said(
    operator: FlaskClient, token_of: TokenOf, three: list[int], web: psycopg.Connection
) -> None:
    page = operator.get("/failures/retry?cause=parse_error").text
    assert counted_in(page) == "10"
    retry(operator, token_of, list=2, cause="parse_error", counted=4)
    operator.get("/failures")
    answer = retry(operator, token_of, cause="parse_error", counted=10)
    assert "6 were retried. 4 had changed meanwhile." in operator.get(answer.location).text


@pytest.mark.parametrize(
    ("sent", "expected", "says"),
    [
        (1, 1, "1 job was sent back."),
        (209, 212, "209 were retried. 3 had changed meanwhile."),
        (1_215, 1_212, "1,215 were retried. 3 more had failed meanwhile."),
        (0, 3, "0 were retried. 3 had changed meanwhile."),
    ],
)
def test_a_retry_ends_with_a_sentence(sent: int, expected: int, says: str) -> None:
    assert _outcome(sent, expected) == says


def test_the_count_says_who_waits_and_for_whom_a_retry_brings_nothing(
    operator: FlaskClient, three: list[int], web: psycopg.Connection
) -> None:
    lists.pause(web, three[2])
    page = operator.get("/failures/retry").text
    assert "Retry 15 jobs?" in page
    assert "13 will run again; 2 will wait" in page
    assert "3 of them failed for causes that a retry does not change" in page
    assert "Retry 2 jobs?" in operator.get("/failures/retry?list=3").text


def test_a_group_that_no_retry_helps_has_no_button(operator: FlaskClient, three: list[int]) -> None:
    page = operator.get("/failures").text
    assert "/failures/retry?list=1&amp;cause=parse_error" in page
    assert "/failures/retry?list=1&amp;cause=not_found" not in page


def test_nothing_is_retried_without_a_count(
    operator: FlaskClient, token_of: TokenOf, three: list[int], web: psycopg.Connection
) -> None:
    for counted in ({}, {"counted": "many"}):
        assert retry(operator, token_of, list=1, **counted).status_code == 409
    assert "Nothing to retry" in operator.get("/failures/retry?list=1&cause=too_slow").text
    assert status_counts(web)["failed"] == 15


def test_a_viewer_looks_and_does_not_retry(
    viewer: FlaskClient, token_of: TokenOf, three: list[int], web: psycopg.Connection
) -> None:
    page = viewer.get("/failures").text
    assert "/failures/retry" not in page
    assert viewer.get("/failures/retry?list=1").status_code == 403
    assert retry(viewer, token_of, list=1, counted=9).status_code == 403
    assert status_counts(web)["failed"] == 15


def test_a_page_asks_as_much_of_many_groups_as_of_one(
    viewer: FlaskClient, a_list: AList, count_of: Callable[[Callable[[], Any]], int]
) -> None:
    a_list(1, failed={"parse_error": 1})
    one = count_of(lambda: viewer.get("/failures"))
    for _ in range(4):
        a_list(9, failed={"parse_error": 3, "not_found": 3})
    assert count_of(lambda: viewer.get("/failures")) == one
    assert one <= 19
