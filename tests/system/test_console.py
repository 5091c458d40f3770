"""The console beside real programs that are killed: nothing is lost, and it says which part is silent."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from playwright.sync_api import Page, expect, sync_playwright

from deploy.parts import free_port
from store import alerts, people
from store.people import Role

CHROMIUM = Path("/usr/bin/chromium")
UK = "companies_house"
PASSWORD = "correct horse battery"
LIVE = re.compile(r"as of \d\d:\d\d:\d\d · live")
LOOKED = "SELECT coalesce(looked_at > clock_timestamp() - interval '5 s', false) FROM monitor"


class Console:
    """The web program as a server runs it, always on one port."""

    def __init__(self, scene: Any) -> None:
        self._scene = scene
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        arguments = ("-m", "gunicorn", "-c", "deploy/gunicorn.conf.py", "wsgi:app")
        self._process = self._scene.start(
            "web", *arguments, PORT=str(self._port), SLUICE_SECRET_KEY="s" * 32, TRUSTED_PROXIES="0"
        )
        self._scene.until(self._is_ready)

    def _is_ready(self) -> bool:
        try:
            return requests.get(f"{self.url}/readyz", timeout=5).status_code == 200
        except requests.RequestException:
            return False

    def kill(self) -> None:
        """kill -9 of all its processes, which are a group of their own."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()


@pytest.fixture
def scene(dsn: str, scene_on: Callable[[str], Any]) -> Any:
    """On a database of its own: emptying one would take the monitor's row."""
    made = scene_on(dsn)
    made.sandbox([(UK, "uk1", "100/s")])
    made.add_key(UK, "uk1", "90/s")
    return made


@pytest.fixture
def console(scene: Any) -> Console:
    return Console(scene)


@pytest.fixture
def page(scene: Any, console: Console) -> Iterator[Page]:
    """A browser in which an operator has signed in and looks at the dashboard."""
    if not CHROMIUM.exists():
        if os.environ.get("CI"):
            pytest.fail(f"{CHROMIUM} is not there")
        pytest.skip(f"{CHROMIUM} is not there")
    who = people.add(scene.db, "operator@example.com", Role.OPERATOR)
    people.use_link(scene.db, people.make_link(scene.db, who.id), PASSWORD)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.goto(f"{console.url}/sign-in")
        page.fill("#email", "operator@example.com")
        page.fill("#password", PASSWORD)
        page.click("button")
        page.wait_for_url(f"{console.url}/")
        yield page
        browser.close()


def test_a_killed_console_loses_nothing_and_its_pages_say_that_they_are_not_live(
    scene: Any, console: Console, page: Page
) -> None:
    scene.worker()
    list_id = scene.add_list(UK, only=6)
    scene.until(scene.ended)
    page.goto(f"{console.url}/lists/{list_id}")
    expect(page.locator("#panel-verdict .asof")).to_have_text(LIVE)
    console.kill()
    expect(page.locator("#connection")).to_contain_text("Not connected.", timeout=12_000)
    other = scene.add_list(UK, which="companies", only=20)
    scene.until(scene.ended)  # the queue needs no console

    console.start()
    expect(page.locator("#connection")).to_be_hidden(timeout=15_000)
    expect(page.locator("#panel-verdict .asof")).to_have_text(LIVE)
    page.goto(f"{console.url}/lists/{other}")  # still signed in
    expect(page.locator("#panel-list_head")).to_contain_text("20 of 20 ended")
    assert scene.differences(list_id) == []
    assert scene.counts_off() == []


def test_a_killed_monitor_is_named_by_every_page_and_tells_afterwards_what_it_missed(
    scene: Any, console: Console, page: Page
) -> None:
    def looks() -> bool:
        return bool(scene.db.execute(LOOKED).fetchone()[0])

    monitor = scene.start("monitor", "-m", "monitor", MONITOR_SECONDS="0.2")
    scene.until(looks)
    silent = "The monitor does not look any more"
    expect(page.locator("#panel-verdict .asof")).to_have_text(LIVE)
    expect(page.locator("#panel-verdict")).not_to_contain_text(silent)

    monitor.kill()
    scene.db.execute("UPDATE monitor SET looked_at = looked_at - interval '2 minutes'")  # as time does
    expect(page.locator("#panel-verdict")).to_contain_text(silent)
    page.goto(f"{console.url}/alerts")
    expect(page.locator("#panel-alerts")).to_contain_text("Start it: python -m monitor")
    scene.db.execute("UPDATE key SET state = 'invalid', last_error = '401'")
    assert alerts.see_open(scene.db) == []

    scene.start("monitor", "-m", "monitor", MONITOR_SECONDS="0.2")
    scene.until(lambda: [one.rule for one in alerts.see_open(scene.db)] == ["key_invalid"])
    expect(page.locator("#panel-verdict")).to_contain_text("was rejected")
    expect(page.locator("#panel-verdict")).not_to_contain_text(silent)
