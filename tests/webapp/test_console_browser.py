"""An operator's day in a real browser: every act is clicked, and its outcome is on the page."""

from __future__ import annotations

import csv
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import psycopg
import pytest
from flask import Flask, Response, request_finished
from playwright.sync_api import Page, expect

from store import alerts, claims, keys, lists
from store.alerts import Found, Severity
from store.claims import Settlement
from store.deliveries import Kind
from store.states import Outcome, Status

A = Callable[..., int]
Open = Callable[..., Page]
Settle = Callable[..., None]

SECRET = "5d2c8a41-not-to-be-seen-9f03"
FILE = b"CompanyNumber;Name\n09355500;Alpha\n9355501;Beta\nSC722766;Gamma\n09355500;Again\nunknown;Delta\n"


@pytest.fixture
def answered(web_app: Flask) -> Iterator[list[str]]:
    """Headers and body of every answer of the console from now on; streamed files are left out."""
    kept: list[str] = []

    def keep(_sender: Flask, response: Response, **_: object) -> None:
        if not (response.is_streamed or response.direct_passthrough):
            kept.append(f"{response.headers}{response.get_data(as_text=True)}")

    with request_finished.connected_to(keep, web_app):
        yield kept


@pytest.fixture
def settle(web: psycopg.Connection, a_worker: Callable[..., UUID]) -> Settle:
    """`settle(cause=…, result=…)`: a worker claims what can run of Companies House and ends it so."""
    worker = a_worker()

    def end(n: int = 100, cause: str | None = None, result: str = '{"values": {}}') -> None:
        held = claims.claim(web, worker, "companies_house", None, n=n, soon_seconds=1.0).claims
        assert held
        how: dict[str, Any] = {"status": Status.DONE, "outcome": Outcome.COMPLETE, "result": result}
        if cause:
            how = {"status": Status.FAILED, "cause": cause, "message": "It said no."}
        ends = [Settlement(one.id, one.worker, one.claim_no, **how) for one in held]
        claims.settle(web, ends, now=time.monotonic())

    return end


def notice(page: Page) -> Any:
    return expect(page.locator("#notice .notice").first)


def silent(page: Page) -> bool:
    """Whether nothing was said in the page's console, by its policy neither."""
    said: list[str] = page.said  # type: ignore[attr-defined]
    return said == []


def state_of(web: psycopg.Connection, name: str) -> str:
    (one,) = lists.see(web, name)
    return one.state


def test_a_secret_is_typed_once_and_seen_nowhere_again(
    open_page: Open, served: Any, web: psycopg.Connection, answered: list[str]
) -> None:
    page = open_page("/keys", "operator")
    page.get_by_role("link", name="Add a key", exact=True).first.click()
    page.get_by_label("Label").fill("CH main")
    page.get_by_label("Secret").fill(SECRET)
    page.get_by_label("Limits").fill("many")
    page.get_by_role("button", name="Add the key").click()
    expect(page.locator("#limits-says")).to_contain_text("is not a limit")
    expect(page.get_by_label("Secret")).to_have_value("")
    page.get_by_label("Limits").fill("10/s")
    page.get_by_label("Secret").fill(SECRET)
    page.get_by_role("button", name="Add the key").click()
    notice(page).to_contain_text("This was the last time the secret could be seen.")

    (key,) = keys.see(web)
    assert f"…{key.fingerprint[-4:]}" in page.content()
    one = f"/keys/{key.id}"
    for path in (one, f"{one}?calls=errors", "/keys", "/keys/new", "/", "/workers", "/alerts"):
        page.goto(served.url + path)
        assert SECRET not in page.content()
    for path in ("/panels/all_keys", f"/panels/key?key={key.id}", f"/panels?page=keys.one&key={key.id}"):
        page.goto(served.url + path)
    assert len(answered) > 12
    assert not any(SECRET in one for one in answered)


def test_a_list_is_uploaded_its_rejects_are_read_and_taken_away_and_it_is_started(
    open_page: Open, web: psycopg.Connection, tmp_path: Path
) -> None:
    page = open_page("/lists", "operator")
    page.get_by_role("link", name="Upload a list").click()
    page.get_by_label("File").set_input_files(
        {"name": "companies.csv", "mimeType": "text/csv", "buffer": FILE}
    )
    page.get_by_label("Name").fill("UK mid-caps")
    page.get_by_label("Service").select_option("companies_house")
    page.get_by_role("button", name="Upload and check").click()

    rejected = page.get_by_role("row").filter(has_text="unknown")
    expect(rejected.locator("td")).to_have_text(["6", "unknown;Delta", re.compile("is not a company number")])
    with page.expect_download() as taken:
        page.get_by_role("link", name="all with reasons").click()
    taken.value.save_as(tmp_path / "rejects.csv")
    (line,) = csv.DictReader((tmp_path / "rejects.csv").read_text("utf-8-sig").splitlines())
    assert (line["line"], line["content"]) == ("6", "unknown;Delta")
    assert "is not a company number" in line["reason"]

    assert state_of(web, "UK mid-caps") == "paused"
    page.get_by_role("button", name="Start 3").click()
    notice(page).to_contain_text("Started. 3 jobs can run.")
    assert state_of(web, "UK mid-caps") == "active"
    assert silent(page)


def test_a_list_is_paused_resumed_and_cancelled_after_the_jobs_were_counted(
    open_page: Open, web: psycopg.Connection, a_list: A
) -> None:
    a_list(7, done=2, name="UK mid-caps")
    page = open_page("/lists", "operator")
    page.get_by_role("button", name="Pause UK mid-caps").click()
    expect(page.get_by_role("button", name="Resume UK mid-caps")).to_be_visible()
    assert state_of(web, "UK mid-caps") == "paused"
    page.get_by_role("link", name="UK mid-caps").first.click()
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    assert state_of(web, "UK mid-caps") == "active"
    page.get_by_role("link", name="Cancel…").click()
    expect(page.get_by_role("heading", name="Cancel 5 pending jobs?")).to_be_visible()
    page.get_by_role("button", name="Cancel 5").click()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    assert state_of(web, "UK mid-caps") == "cancelled"
    assert silent(page)


def test_a_group_of_failures_is_counted_first_and_then_retried(
    open_page: Open, web: psycopg.Connection, a_list: A
) -> None:
    a_list(9, failed={"parse_error": 4, "service_error": 2}, name="UK mid-caps")
    page = open_page("/failures?cause=parse_error", "operator")
    page.get_by_role("link", name="Retry 4…").click()
    expect(page.get_by_role("heading", name="Retry 4 jobs?")).to_be_visible()
    assert failed(web) == 6
    page.get_by_role("button", name="Retry 4").click()
    notice(page).to_contain_text("4 jobs were sent back.")
    assert failed(web) == 2
    assert silent(page)


def failed(web: psycopg.Connection) -> int:
    ((n,),) = web.execute("SELECT count(*) FROM job WHERE status = 'failed'").fetchall()
    return int(n)


def test_a_csv_that_is_clicked_has_every_row(
    open_page: Open, web: psycopg.Connection, a_list: A, a_key: A, settle: Settle, tmp_path: Path
) -> None:
    a_key("CH main")
    list_id = a_list(5, failed={"parse_error": 1}, name="UK mid-caps")
    settle(2, result='{"values": {"name": "Größe, \\"Ltd\\""}}')
    page = open_page(f"/lists/{list_id}")
    with page.expect_download() as taken:
        page.get_by_role("link", name="CSV").click()
    assert taken.value.suggested_filename == "UK mid-caps.csv"
    taken.value.save_as(tmp_path / "out.csv")
    head, *rows = csv.reader((tmp_path / "out.csv").read_text("utf-8-sig").splitlines())
    assert head == ["company", "name", "status", "outcome", "cause", "message", "name"]
    stored = web.execute(
        "SELECT company, coalesce(name, ''), status, coalesce(outcome, ''), coalesce(cause, ''),"
        " coalesce(message, ''), coalesce(result #>> '{values,name}', '') FROM job ORDER BY id"
    ).fetchall()
    assert sorted(map(tuple, rows)) == sorted(stored)
    assert [row[-1] for row in rows].count('Größe, "Ltd"') == 2
    assert silent(page)


def test_counts_change_while_the_page_stays(open_page: Open, a_list: A, a_key: A, settle: Settle) -> None:
    a_key("CH main")
    a_list(6, name="UK mid-caps")
    page = open_page()
    page.evaluate("window.isTheSame = true")
    done = page.locator("#panel-counts .v").nth(2)
    expect(done).to_have_text("0")
    settle(4)
    expect(done).to_have_text("4")
    settle(2, cause="parse_error")
    expect(page.locator("#panel-counts .v").nth(3)).to_have_text("2")
    assert page.evaluate("window.isTheSame")
    assert silent(page)


def test_a_key_is_tested_by_a_worker_while_somebody_watches(
    open_page: Open, a_key: A, settle: Settle
) -> None:
    page = open_page(f"/keys/{a_key('CH main')}", "operator")
    page.get_by_role("button", name="Test now").click()
    notice(page).to_contain_text("A worker will test “CH main”")
    expect(page.locator("#panel-key")).to_contain_text("A test waits for a worker")
    settle()
    expect(page.locator("#panel-key")).to_contain_text(re.compile("Tested .*, ok"))
    page.get_by_role("button", name="Disable…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Disable “CH main”?")
    dialog.get_by_role("button", name="Disable").click()
    notice(page).to_contain_text("Disabled.")
    page.get_by_role("button", name="Enable").click()
    notice(page).to_contain_text("is in use again")
    assert silent(page)


def test_an_alert_is_acknowledged_muted_and_heard_again(open_page: Open, web: psycopg.Connection) -> None:
    now = datetime.now(UTC)
    bad = Found("key_invalid", "key:1", Severity.CRITICAL, "Key “CH trial” was rejected", "/keys/1")
    alerts.watch(web, [bad], now)
    (one,) = alerts.unresolved(web, now)
    alerts.tell(web, one.id, 0, Kind.OPENED, [], now)
    page = open_page("/alerts", "operator")
    page.get_by_role("button", name="Acknowledge").click()
    notice(page).to_contain_text("Acknowledged.")
    page.get_by_label("For", exact=True).select_option("24")
    page.get_by_label("Why").fill("planned")
    page.get_by_role("button", name="Mute", exact=True).click()
    notice(page).to_contain_text("Muted for 1 day")
    expect(page.locator("#panel-alert")).to_contain_text("operator@example.com: planned")
    page.get_by_role("button", name="Unmute").click()
    notice(page).to_contain_text("Unmuted: it is told again.")
    expect(page.get_by_role("button", name="Unmute")).to_have_count(0)
    assert silent(page)
