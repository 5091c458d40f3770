"""A finished list is asked for anew: counted first, at once or by schedule, by whoever may."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest
from click.testing import Result
from flask.testing import FlaskClient
from playwright.sync_api import Page, expect

from store import jobs, lists, tally
from store.lists import ListSeen

A = Callable[..., int]
Open = Callable[..., Page]
Post = Callable[..., Any]
Notices = Callable[[FlaskClient, Any], str]
Run = Callable[..., Result]


@pytest.fixture
def ended(web: psycopg.Connection, a_list: A) -> int:
    """A finished list: five companies, one of them failed."""
    list_id = a_list(5, done=4, failed={"parse_error": 1}, name="UK mid-caps")
    assert lists.finish(web) == [list_id]
    return list_id


def seen(web: psycopg.Connection, list_id: int) -> ListSeen:
    one = lists.one(web, list_id)
    assert one
    return one


def pending(web: psycopg.Connection) -> int:
    return sum(one.n for one in tally.totals(web) if one.status == "pending")


def test_a_refresh_is_counted_before_anything_changes(
    operator: FlaskClient, web: psycopg.Connection, ended: int
) -> None:
    assert f'href="/lists/{ended}/refresh"' in operator.get(f"/lists/{ended}").text
    page = operator.get(f"/lists/{ended}/refresh").text
    assert "Refresh 5 companies?" in page
    assert "5 companies will be asked again of Companies House." in page
    assert pending(web) == 0


def test_a_confirmed_refresh_sends_every_job_back_and_says_so(
    operator: FlaskClient, web: psycopg.Connection, ended: int, post: Post, notices: Notices
) -> None:
    answer = post(operator, f"/lists/{ended}/refresh", counted="5")
    assert "5 companies will be asked again." in notices(operator, answer)
    assert pending(web) == 5
    assert seen(web, ended).state == "active"


def test_a_count_that_moved_between_question_and_answer_is_said(
    operator: FlaskClient, web: psycopg.Connection, ended: int, post: Post, notices: Notices
) -> None:
    jobs.retry(web, ended)
    web.execute("UPDATE list SET state = 'finished', finished_at = now()")
    answer = post(operator, f"/lists/{ended}/refresh", counted="5")
    assert "4 companies will be asked again. 5 had been counted." in notices(operator, answer)


@pytest.mark.parametrize("stop", [lists.pause, lists.cancel])
def test_a_list_that_has_not_finished_is_not_refreshed(
    operator: FlaskClient, web: psycopg.Connection, a_list: A, post: Post, stop: Callable[..., object]
) -> None:
    list_id = a_list(3, done=2)
    stop(web, list_id)
    page = operator.get(f"/lists/{list_id}/refresh").text
    assert f"This list is {seen(web, list_id).state}. It can be refreshed when it has finished." in page
    assert post(operator, f"/lists/{list_id}/refresh", counted="2").status_code == 409
    assert sum(one.n for one in tally.totals(web) if one.status == "done") == 2


def test_a_draft_has_nothing_to_refresh(operator: FlaskClient, web: psycopg.Connection, a_list: A) -> None:
    list_id = a_list(3)
    lists.pause(web, list_id)
    answer = operator.get(f"/lists/{list_id}/refresh")
    assert (answer.status_code, answer.location) == (303, f"/lists/{list_id}/start")


def test_who_only_looks_refreshes_nothing(
    viewer: FlaskClient, web: psycopg.Connection, ended: int, post: Post
) -> None:
    assert "/refresh" not in viewer.get(f"/lists/{ended}").text
    assert viewer.get(f"/lists/{ended}/refresh").status_code == 403
    assert post(viewer, f"/lists/{ended}/refresh", counted="5").status_code == 403
    assert post(viewer, f"/lists/{ended}/schedule", refresh_every="day").status_code == 403
    assert (pending(web), seen(web, ended).refresh_every) == (0, None)


def test_a_schedule_is_set_shown_and_taken_away(
    operator: FlaskClient, web: psycopg.Connection, ended: int, post: Post, notices: Notices
) -> None:
    url = f"/lists/{ended}/schedule"
    assert "every quarter from now on" in notices(operator, post(operator, url, refresh_every="quarter"))
    page = " ".join(operator.get(f"/lists/{ended}").text.split())
    assert "<dt>Refresh</dt><dd>every quarter, next <time" in page
    assert re.search(r'<option selected value="quarter">', operator.get(f"/lists/{ended}/refresh").text)
    assert post(operator, url, refresh_every="hour").status_code == 409
    assert seen(web, ended).refresh_every == "quarter"
    assert "refreshed by hand only" in notices(operator, post(operator, url, refresh_every=""))
    assert seen(web, ended).refresh_at is None


def test_a_schedule_is_chosen_before_the_start(
    operator: FlaskClient, web: psycopg.Connection, a_list: A, post: Post
) -> None:
    list_id = a_list(1)
    lists.pause(web, list_id)
    start = f"/lists/{list_id}/start"
    at = (datetime.now(UTC) + timedelta(days=3)).strftime("%Y-%m-%dT%H:%M")
    post(operator, start, priority="0", when="later", start_at=at, refresh_every="week")
    one = seen(web, list_id)
    assert one.refresh_at == one.start_at + timedelta(days=7)
    assert '<option selected value="week">' in operator.get(start).text
    assert post(operator, start, priority="0", when="later", refresh_every="hour").status_code == 422
    post(operator, start, priority="0", when="now", refresh_every="")
    assert (seen(web, list_id).refresh_every, seen(web, list_id).state) == (None, "active")


def test_a_schedule_is_set_by_command(run: Run, companies: Any, committed: psycopg.Connection) -> None:
    run("lists", "import", companies, "--name", "UK", "--service", "companies_house")
    said = run("lists", "schedule", "UK", "month").stdout
    (one,) = lists.see(committed)
    assert one.refresh_at
    assert said == f"“UK” is refreshed every month, next at {one.refresh_at:%Y-%m-%d %H:%M:%S} UTC.\n"
    assert run("lists", "schedule", "UK", "never").stdout == "“UK” is refreshed by hand only.\n"
    assert run("lists", "schedule", "UK", "hour").exit_code == 2
    assert run("lists", "schedule", "Nix", "day").exit_code == 1


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 360)])
def test_a_finished_list_is_refreshed_with_three_clicks(
    open_page: Open, web: psycopg.Connection, ended: int, theme: str, width: int
) -> None:
    page = open_page(f"/lists/{ended}", "operator", width=width, theme=theme)
    page.get_by_role("link", name="Refresh…").click()
    page.get_by_label("Refresh", exact=True).select_option("week")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#notice .notice").first).to_contain_text("every week from now on")
    page.get_by_role("link", name="Refresh…").click()
    expect(page.get_by_role("heading", name="Refresh 5 companies?")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.get_by_role("button", name="Refresh 5").click()
    expect(page.locator("#notice .notice").first).to_contain_text("5 companies will be asked again.")
    assert pending(web) == 5
    said: list[str] = page.said  # type: ignore[attr-defined]
    assert said == []
