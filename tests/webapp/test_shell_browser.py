"""What only a real browser shows: polls that disturb nobody, and a page that says when it is not live."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from flask import Flask, abort
from flask.typing import ResponseReturnValue
from playwright.sync_api import Page, expect

from store import settings
from store.people import Role
from webapp import create_app
from webapp.access import needs
from webapp.answers import go_to
from webapp.panels.polling import render_page

Open = Callable[..., Page]
LIVE = re.compile(r"as of \d\d:\d\d:\d\d · live")


def polls(page: Page) -> list[int]:
    """The status of every answer to the page's poll from now on."""
    found: list[int] = []
    page.on("response", lambda answer: found.append(answer.status) if "/panels?" in answer.url else None)
    return found


def poll(page: Page) -> None:
    """Ask for the page's panels now, as its timer does every two seconds."""
    page.evaluate("document.body.dispatchEvent(new CustomEvent('tick'))")


def fill(conn: psycopg.Connection, list_id: int, minutes: int = 50) -> None:
    conn.execute(
        "INSERT INTO tally_minute SELECT %s, date_trunc('minute', now()) - m * interval '1 minute',"
        " 'done', 'complete', '', 90 + m %% 7 FROM generate_series(1, %s) m",
        (list_id, minutes),
    )


def test_a_poll_changes_numbers_and_leaves_people_alone(
    open_page: Open,
    web: psycopg.Connection,
    a_list: Callable[..., int],
    a_worker: Callable[..., Any],
    expire: Callable[[], None],
) -> None:
    list_id = a_list(9, done=4, name="UK mid-caps")
    a_worker(held=1)
    fill(web, list_id)
    page = open_page()
    expect(page.locator("#panel-chart canvas")).to_be_visible()
    page.evaluate("document.querySelector('.as-table').open = true")
    page.focus("#panel-lists td a")
    page.evaluate("window.held = [document.activeElement, document.querySelector('#panel-chart canvas')]")
    expect(page.locator("#panel-counts .v").first).to_have_text("5")

    fill(web, a_list(8), minutes=20)
    expire()
    poll(page)
    expect(page.locator("#panel-counts .v").first).to_have_text("13")
    expect(page.locator("#panel-lists tbody tr")).to_have_count(2)
    assert page.evaluate("window.held[0] === document.activeElement")
    assert page.evaluate("document.querySelector('.as-table').open")
    assert page.evaluate("window.held[1].isConnected")
    expect(page.locator("#panel-verdict .asof")).to_have_text(LIVE)
    assert page.said == []  # type: ignore[attr-defined]


def test_nothing_new_is_304_and_a_hidden_page_asks_nothing(
    open_page: Open, a_list: Callable[..., int]
) -> None:
    a_list(3, done=3)
    page = open_page()
    seen = polls(page)
    expect(page.locator("#panel-verdict .asof")).to_have_text(LIVE)
    page.wait_for_event("response", lambda answer: answer.status == 304)
    page.evaluate("Object.defineProperty(document, 'hidden', {get: () => window.away}); window.away = true")
    page.wait_for_timeout(300)  # one may be on its way
    before = len(seen)
    page.wait_for_timeout(2600)
    assert len(seen) == before
    with page.expect_response(lambda answer: "/panels?" in answer.url, timeout=1000):
        page.evaluate("window.away = false; document.dispatchEvent(new Event('visibilitychange'))")
    assert page.locator("#connection").is_hidden()


def test_selected_text_is_not_pulled_away_and_what_was_missed_comes_after(
    open_page: Open, a_list: Callable[..., int], expire: Callable[[], None]
) -> None:
    a_list(3, name="first")
    page = open_page()
    expect(page.locator("#panel-verdict .asof")).to_have_text(LIVE)
    page.evaluate("getSelection().selectAllChildren(document.querySelector('#panel-lists td a'))")
    a_list(3, name="second")
    expire()
    poll(page)
    expect(page.locator("#panel-counts .v").first).to_have_text("6")
    assert page.locator("#panel-lists tbody tr").count() == 1
    assert page.evaluate("String(getSelection())") == "first"
    page.evaluate("getSelection().removeAllRanges()")
    poll(page)
    expect(page.locator("#panel-lists tbody tr")).to_have_count(2)


def test_a_page_that_is_not_live_says_so_within_ten_seconds_and_comes_back_alone(
    open_page: Open, served: Any, a_list: Callable[..., int]
) -> None:
    a_list(3)
    page = open_page("/account")
    expect(page.locator("#panel-verdict .asof")).to_have_text(LIVE)
    served.stop()
    expect(page.locator("html")).to_have_class(re.compile("stale"), timeout=5000)
    connection = page.locator("#connection")
    expect(connection).to_be_visible(timeout=10_000)
    words = r"What you see is from [\d:]+, \d+ s ago\. Trying again (now|in \d s)\."
    expect(connection).to_have_text(re.compile(rf"Not connected\.\s+{words}\s+Try now"))
    expect(page.locator("#panel-verdict")).to_be_hidden()
    expect(page.get_by_role("button", name="Sign out", exact=True)).to_be_disabled()
    served.start()
    page.get_by_role("button", name="Try now").click()
    expect(connection).to_be_hidden(timeout=10_000)
    expect(page.locator("#panel-verdict .asof")).to_have_text(LIVE)
    expect(page.get_by_role("button", name="Sign out", exact=True)).to_be_enabled()


def test_who_was_signed_out_is_told_and_led_back(open_page: Open, a_list: Callable[..., int]) -> None:
    a_list(3)
    page = open_page("/?range=24h")
    page.context.clear_cookies()
    poll(page)
    expect(page.locator("#connection")).to_contain_text("You were signed out.")
    page.get_by_role("link", name="Sign in").click()
    page.fill("#email", "viewer@example.com")
    page.fill("#password", "correct horse battery")
    page.click("button")
    expect(page).to_have_url(re.compile(r"/\?range=24h$"))


def test_times_are_worded_by_the_browser_and_age_by_themselves(
    open_page: Open, web: psycopg.Connection, a_list: Callable[..., int]
) -> None:
    a_list(3)
    web.execute("UPDATE job SET run_at = now() - interval '2 hours 31 minutes 20 seconds'")
    page = open_page()
    expect(page.locator("#panel-counts time")).to_have_text("2 h 31 m")
    exact = re.compile(r"\d+ \w{3} \d{4} \d\d:\d\d:\d\d (GMT|BST)")
    expect(page.locator("#panel-counts time")).to_have_attribute("title", exact)


def test_the_theme_is_the_systems_until_one_is_chosen(open_page: Open, a_list: Callable[..., int]) -> None:
    a_list(1)
    page = open_page(theme="dark")
    root = page.locator("html")
    expect(root).to_have_attribute("data-bs-theme", "dark")
    page.keyboard.press("t")
    expect(root).to_have_attribute("data-bs-theme", "light")
    page.reload()
    expect(root).to_have_attribute("data-bs-theme", "light")


@pytest.mark.parametrize("width", [320, 360, 768, 1280])
def test_nothing_runs_over_the_edge_with_long_names(
    open_page: Open,
    web: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    a_worker: Callable[..., Any],
    width: int,
) -> None:
    a_list(30, done=20, failed={"parse_error": 3}, name="W" * 200)
    a_key("K" * 200, last_error="E" * 200, state="invalid")
    a_key("CH main")
    a_worker(held=8)
    web.execute("UPDATE worker SET name = %s", ("n" * 80,))
    page = open_page(width=width)
    expect(page.locator("#panel-keys")).to_be_visible()
    wide = page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    assert wide[0] == wide[1]


def test_the_keyboard_opens_help_and_goes_to_pages(open_page: Open, a_list: Callable[..., int]) -> None:
    a_list(1)
    page = open_page("/account")
    page.keyboard.press("?")
    expect(page.locator("#keys-help")).to_be_visible()
    with page.expect_response(lambda answer: "/panels?" in answer.url):
        poll(page)
    expect(page.locator("#keys-help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys-help")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("d")
    expect(page.locator("#panel-counts")).to_be_visible()


@pytest.fixture
def acts(web_dsn: str, serve: Callable[[Flask], Any]) -> Iterator[str]:
    """Where a page is served with a form of each ending, as pages to come have them."""
    app = create_app(settings.read({"DATABASE_URL": web_dsn, "SLUICE_SECRET_KEY": "s" * 32}))

    @app.get("/acts")
    def show() -> str:
        forms = "".join(
            f'<form id="{how}" hx-post="/acts/{how}" method="post"><button>{how}</button></form>'
            for how in ("moves", "fails", "refused")
        )
        return render_page("account/page.html", "acts").replace("<h1>Account</h1>", forms)

    @app.post("/acts/<how>")
    @needs(Role.VIEWER)
    def act(how: str) -> ResponseReturnValue:
        if how == "moves":
            return go_to("/account")
        if how == "refused":
            abort(403, "Ask an administrator for the operator role.")
        return '<p class="c-failed">Give a name.</p>', 422

    yield serve(app).url
    app.extensions["database"].close()


def test_an_act_ends_with_the_next_page_the_form_again_or_a_notice(open_page: Open, acts: str) -> None:
    page = open_page("/acts", base=acts)
    page.get_by_role("button", name="fails").click()
    expect(page.locator("#fails")).to_have_text("Give a name.")
    page.get_by_role("button", name="refused").click()
    expect(page.locator("#notice")).to_contain_text("Ask an administrator for the operator role.")
    expect(page.locator("#refused button")).to_be_visible()
    page.get_by_role("button", name="moves").click()
    expect(page).to_have_url(re.compile("/account$"))
    expect(page.get_by_role("heading", name="Account")).to_be_visible()
    expect(page.locator("#moves")).to_have_count(0)
    with page.expect_response(lambda answer: "page=account" in answer.url):
        expect(page.locator("#panel-verdict .asof")).to_have_text(LIVE)
    page.go_back()
    expect(page.locator("#moves")).to_be_visible()
