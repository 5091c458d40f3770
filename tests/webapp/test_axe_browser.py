"""Every page of the route table, with data on it: axe finds nothing, and nothing comes from another host."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import psycopg
import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from flask import Flask
from playwright.sync_api import Page

from store import alert_rules, alerts, claims, key_tests, lists, people, rejects
from store.alert_rules import RuleText
from store.alerts import Found, Severity
from store.answers import KeptAnswer
from store.calls import Call
from store.claims import Settlement
from store.deliveries import Kind
from store.rejects import Rejected
from store.states import Outcome, Status

A = Callable[..., int]
Open = Callable[..., Page]

# What answers a GET with something else than a whole page.
NO_PAGES = {
    "static",
    "panels.poll",
    "panels.panel",
    "health.alive",
    "health.ready",
    "list_files.export",
    "list_files.rejects",
    "job.answer",
}
# Pages that show something else under these; the others are shown once, as their rule says.
QUERIES = {
    "alerts.index": ["", "?show=resolved"],
    "failures.ask_to_retry": ["?cause=parse_error", "?cause=not_found"],
    "jobs.show_all": ["", "?status=failed&q=Alpha"],
    "keys.show": ["?calls=errors"],
}
FOR_NOBODY = {"signing_in.sign_in", "signing_in.open_link"}


@dataclass(slots=True)
class Shown:
    """What the pages of a browser did wrong, by page."""

    origin: str
    wrong: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        page.on("console", lambda message: self.wrong.append(f"{page.url}: {message.text}"))
        page.on("pageerror", lambda error: self.wrong.append(f"{page.url}: {error}"))
        page.on("request", lambda asked: self._asked(page, asked.url))

    def _asked(self, page: Page, url: str) -> None:
        if not url.startswith((self.origin + "/", "data:")):
            self.wrong.append(f"{page.url} asked {url}")

    def judge(self, page: Page) -> None:
        page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        for one in Axe().run(page).response["violations"]:
            nodes = "; ".join(node["html"][:200] for node in one["nodes"][:3])
            self.wrong.append(f"{page.url}: {one['id']}: {nodes}")


@pytest.fixture
def things(
    web: psycopg.Connection, a_list: A, a_key: A, a_worker: Callable[..., UUID]
) -> Mapping[str, Mapping[str, Any]]:
    """Something of everything. What stands in the URL of each endpoint's page; "" are those of most."""
    list_id, job_id, worker = jobs_and_calls(web, a_list, a_key, a_worker)
    draft = a_list(3, name="Draft")
    lists.pause(web, draft)
    rejects.keep(web, draft, [Rejected(4, "unknown;Delta", "“unknown” is not a company number")])
    others = a_list(30, done=21, failed={"service_error": 2}, name="SEC 2026", service="sec_edgar")
    web.execute("UPDATE list SET state = 'cancelled', finished_at = now() WHERE id = %s", (others,))
    keys_of_every_state(web, a_key)
    viewer = people.find(web, "viewer@example.com")
    assert viewer is not None
    usual = {"list_id": list_id, "job_id": job_id, "worker_id": worker, "key_id": 1}
    usual |= {"alert_id": an_alert(web), "token": people.make_link(web, viewer.id)}
    return {"": usual, "list_uploads.check": usual | {"list_id": draft}}


def jobs_and_calls(
    web: psycopg.Connection, a_list: A, a_key: A, a_worker: Callable[..., UUID]
) -> tuple[int, int, UUID]:
    """A running list with jobs of every status, and one of them with an attempt, a call and an answer."""
    a_key("CH main")
    list_id = a_list(40, failed={"parse_error": 6, "not_found": 3}, name="UK mid-caps")
    worker = a_worker(held=2)
    held = claims.claim(web, worker, "companies_house", None, n=4, soon_seconds=5.0).claims
    result = (
        '{"values": {"name": "Alpha"}, "sources": {"name": {"tag": "core:Name"}}, "flags": {"name": ["x"]}}'
    )
    done = Settlement(held[0].id, worker, held[0].claim_no, Status.DONE, Outcome.COMPLETE, result=result)
    asked = ("GET /company/1", "usable", 200, None, 40, 160, False, 99, time.monotonic() - 1)
    calls = [Call(one.id, one.claim_no, worker, 1, *asked) for one in held[:2]]
    head = {"content-type": "text/html"}
    kept = KeptAnswer(held[0].id, b"1" * 32, 1, "companies_house", asked[0], 200, head, b"<p>Alpha</p>")
    lost = claims.settle(web, [done], answers=[kept], calls=calls, now=time.monotonic())
    assert lost == set()
    web.execute("UPDATE job SET name = 'Alpha Ltd'")
    web.execute(
        "INSERT INTO tally_minute SELECT %s, date_trunc('minute', now()) - m * interval '1 minute',"
        " 'done', 'complete', '', 90 FROM generate_series(1, 30) m",
        (list_id,),
    )
    return list_id, held[0].id, worker


def keys_of_every_state(web: psycopg.Connection, a_key: A) -> None:
    for state in ("invalid", "exhausted", "disabled"):
        a_key(f"CH {state}", state=state, last_error="Invalid Authorization")
    rests = a_key("SEC", service="sec_edgar")
    web.execute(
        "UPDATE account SET rest_until = extract(epoch FROM now()) + 900, rest_cause = '429' WHERE id ="
        " (SELECT account_id FROM key WHERE id = %s)",
        (rests,),
    )
    key_tests.order(web, rests, "0000320193")


def an_alert(web: psycopg.Connection) -> int:
    """One that is open, another that is muted, and a third that was resolved; rules and channels."""
    now = datetime.now(UTC)
    alert_rules.keep(web, [RuleText("key_invalid", "The key is refused.", "Mend it.", 0, 60)])
    web.execute("UPDATE monitor SET channels = '{email,webhook}'")
    for n, severity in enumerate(Severity):
        alerts.watch(web, [Found("key_invalid", f"key:{n}", severity, "A key was rejected", "/keys/2")], now)
    open_, muted, over = (one.id for one in alerts.unresolved(web, now))
    for one in (open_, muted, over):
        assert alerts.tell(web, one, 0, Kind.OPENED, ["email", "webhook"], now)
    web.execute("UPDATE delivery SET state = 'sent', sent_at = now() WHERE id = 1")
    alerts.mute(web, muted, now + timedelta(hours=1), "planned", "operator@example.com")
    alerts.not_seen(web, [over], now)
    assert alerts.resolve(web, over, ["email"], now, tells=True)
    return open_


def pages(app: Flask, things: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """Each endpoint that is a page, with each of its paths. A rule with something new to fill in raises."""
    with app.test_request_context():
        for rule in app.url_map.iter_rules():
            if "GET" not in (rule.methods or ()) or rule.endpoint in NO_PAGES:
                continue
            given = things.get(rule.endpoint, things[""])
            values = {name: given[name] for name in rule.arguments}
            path = app.url_map.bind("").build(rule.endpoint, values)
            for query in QUERIES.get(rule.endpoint, [""]):
                yield rule.endpoint, path + query


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_page_is_readable_for_all_and_asks_nobody_else(
    open_page: Open, served: Any, web_app: Flask, things: Mapping[str, Mapping[str, Any]], theme: str
) -> None:
    page = open_page("/account", "operator", theme=theme)
    shown = Shown(served.url)
    shown.watch(page)
    stranger = page.context.browser.new_context(color_scheme=theme)  # type: ignore[union-attr, arg-type]
    seen = 0
    with stranger:
        for endpoint, path in pages(web_app, things):
            tab = stranger.new_page() if endpoint in FOR_NOBODY else page
            if tab is not page:
                shown.watch(tab)
            answer = tab.goto(served.url + path)
            assert answer is not None
            assert (answer.status, tab.url) == (200, served.url + path)
            assert tab.locator("html").get_attribute("data-bs-theme") == theme
            shown.judge(tab)
            seen += 1
    assert seen > 20
    assert shown.wrong == []
