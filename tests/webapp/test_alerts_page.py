"""Alerts' pages: episodes with who was told; somebody takes care or mutes; what every page says of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import psycopg
import pytest
from flask.testing import FlaskClient

from store import alert_rules, alerts, deliveries
from store.alert_rules import RuleText
from store.alerts import AlertSeen, Found, Severity
from store.deliveries import Kind

Alert = Callable[..., int]
Post = Callable[..., Any]
Notices = Callable[[FlaskClient, Any], str]

BAD_KEY = "Key “CH trial” was rejected"


@pytest.fixture
def an_alert(web: psycopg.Connection) -> Alert:
    """`an_alert(severity, subject=…, link=…)`: an open alert that email was told of; returns its id."""

    def make(
        severity: Severity = Severity.CRITICAL,
        *,
        rule: str = "key_invalid",
        subject: str = "key:1",
        message: str = BAD_KEY,
        link: str = "/keys/1",
    ) -> int:
        now = datetime.now(UTC)
        assert alerts.watch(web, [Found(rule, subject, severity, message, link)], now) == 1
        alert_id = alerts.unresolved(web, now)[-1].id
        assert alerts.tell(web, alert_id, 0, Kind.OPENED, ["email"], now)
        return alert_id

    return make


def seen(web: psycopg.Connection, alert_id: int) -> AlertSeen:
    one = alerts.see_one(web, alert_id)
    assert one is not None
    return one


def resolve(web: psycopg.Connection, alert_id: int) -> None:
    now = datetime.now(UTC)
    alerts.not_seen(web, [alert_id], now)
    assert alerts.resolve(web, alert_id, [], now, tells=False)


def test_open_alerts_say_who_was_told_and_what_to_do(
    web: psycopg.Connection, viewer: FlaskClient, an_alert: Alert
) -> None:
    alert_rules.keep(web, [RuleText("key_invalid", "The key is refused.", "Mend it, then enable it.", 0, 0)])
    alert_id = an_alert()
    assert "waits" in viewer.get("/alerts").text
    taken = deliveries.take(web, "email", 60)
    assert taken is not None
    deliveries.sent(web, taken)
    index = viewer.get("/alerts?show=").text
    assert BAD_KEY in index
    page = viewer.get(f"/alerts/{alert_id}").text
    for words in ("The key is refused.", "Mend it, then enable it.", 'href="/keys/1"', "email", ">sent<"):
        assert words in page


def test_resolved_alerts_are_a_place_of_their_own(
    web: psycopg.Connection, viewer: FlaskClient, an_alert: Alert
) -> None:
    resolve(web, an_alert())
    assert "Nothing is wrong." in viewer.get("/alerts").text
    assert BAD_KEY in viewer.get("/alerts?show=resolved").text


def test_an_alert_is_acknowledged_once_and_by_whom_is_said(
    web: psycopg.Connection, operator: FlaskClient, an_alert: Alert, post: Post, notices: Notices
) -> None:
    alert_id = an_alert()
    assert notices(operator, post(operator, f"/alerts/{alert_id}/acknowledge")).startswith("Acknowledged.")
    assert seen(web, alert_id).acknowledged_by == "operator@example.com"
    again = notices(operator, post(operator, f"/alerts/{alert_id}/acknowledge"))
    assert again == "Nothing was changed: operator@example.com has acknowledged it."
    other = an_alert(subject="key:2")
    resolve(web, other)
    late = notices(operator, post(operator, f"/alerts/{other}/acknowledge"))
    assert late == "Nothing was changed: it is resolved."


def test_an_alert_is_muted_for_a_reason_and_unmuted(
    web: psycopg.Connection, operator: FlaskClient, an_alert: Alert, post: Post, notices: Notices
) -> None:
    alert_id = an_alert()
    said = notices(operator, post(operator, f"/alerts/{alert_id}/mute", hours="4", reason="we know"))
    assert "Muted for 4 hours" in said
    one = seen(web, alert_id)
    assert one.muted_until is not None
    assert timedelta(hours=3.9) < one.muted_until - datetime.now(UTC) <= timedelta(hours=4)
    assert (one.mute_reason, one.muted_by) == ("we know", "operator@example.com")
    assert "muted until" in operator.get("/alerts").text
    assert "Unmuted" in notices(operator, post(operator, f"/alerts/{alert_id}/unmute"))
    assert seen(web, alert_id).muted_until is None
    again = notices(operator, post(operator, f"/alerts/{alert_id}/unmute"))
    assert again == "Nothing was changed: it was not muted."


@pytest.mark.parametrize(
    "form",
    [
        {"hours": "4"},
        {"hours": "4", "reason": "  "},
        {"hours": "5", "reason": "x"},
        {"hours": "4", "reason": "x" * 501},
    ],
)
def test_a_mute_without_a_reason_or_for_ever_is_refused_with_the_form(
    web: psycopg.Connection, operator: FlaskClient, an_alert: Alert, post: Post, form: dict[str, str]
) -> None:
    alert_id = an_alert()
    answer = post(operator, f"/alerts/{alert_id}/mute", **form)
    assert answer.status_code == 422
    assert 'class="c-failed"' in answer.text[answer.text.index("<h2>Mute</h2>") :]
    assert seen(web, alert_id).muted_until is None


def test_a_viewer_sees_no_button_and_may_not_act(
    web: psycopg.Connection, viewer: FlaskClient, operator: FlaskClient, an_alert: Alert, post: Post
) -> None:
    alert_id = an_alert()
    assert f'hx-post="/alerts/{alert_id}/acknowledge"' in operator.get("/alerts").text
    for path in ("/alerts", f"/alerts/{alert_id}"):
        page = viewer.get(path).text
        assert "hx-post" not in page
        assert 'method="post"' not in page
    for act in ("acknowledge", "mute", "unmute"):
        assert post(viewer, f"/alerts/{alert_id}/{act}", hours="4", reason="x").status_code == 403
        assert operator.post(f"/alerts/{alert_id}/{act}").status_code == 400
    one = seen(web, alert_id)
    assert (one.acknowledged_at, one.muted_until) == (None, None)


def test_hostile_text_is_text(
    web: psycopg.Connection,
    operator: FlaskClient,
    an_alert: Alert,
    hostile: str,
    is_text: Callable[[str], bool],
) -> None:
    alert_id = an_alert(rule=hostile, subject=hostile, message=hostile)
    alert_rules.keep(web, [RuleText(hostile, hostile, hostile, 0, 0)])
    alerts.mute(web, alert_id, datetime.now(UTC) + timedelta(hours=1), hostile, hostile)
    alerts.acknowledge(web, alert_id, hostile)
    web.execute("UPDATE delivery SET channel = %(x)s, last_error = %(x)s", {"x": hostile})
    web.execute("UPDATE monitor SET channels = %s", ([hostile],))
    for path in ("/alerts", f"/alerts/{alert_id}", "/alerts/rules", "/alerts/channels", "/"):
        assert is_text(operator.get(path).text) or path == "/"
        assert "<script>alert" not in operator.get(path).text
    resolve(web, alert_id)
    assert is_text(operator.get("/alerts?show=resolved").text)


def test_many_alerts_ask_as_many_questions_as_one(
    web: psycopg.Connection,
    viewer: FlaskClient,
    an_alert: Alert,
    expire: Callable[[], None],
    statements: list[str],
) -> None:
    def asked() -> int:
        expire()
        statements.clear()
        assert viewer.get("/alerts").status_code == 200
        return len(statements)

    an_alert()
    few = asked()
    for n in range(20):
        an_alert(subject=f"key:{n + 2}")
    assert asked() == few


@pytest.mark.parametrize("path", ["/alerts/1", f"/alerts/{2**63 - 1}", f"/alerts/{2**70}", "/alerts/x"])
def test_an_alert_that_is_not_there_is_not_found(
    web: psycopg.Connection, viewer: FlaskClient, path: str
) -> None:
    assert viewer.get(path).status_code == 404
    assert "not there any more" in viewer.get("/panels/alert?alert=1").text


def test_what_is_only_watched_so_far_is_no_alert(web: psycopg.Connection, viewer: FlaskClient) -> None:
    alerts.watch(web, [Found("r", "s", Severity.CRITICAL, "not yet", "/")], datetime.now(UTC))
    assert "not yet" not in viewer.get("/alerts").text
    assert viewer.get("/alerts/1").status_code == 404


# Rules and channels.


def test_every_rule_is_shown_with_meaning_times_advice_and_what_is_open(
    web: psycopg.Connection, viewer: FlaskClient, an_alert: Alert
) -> None:
    rules = [RuleText(f"rule_{n}", f"Meaning {n}.", f"Advice {n}.", 30 * n, 300) for n in range(25)]
    alert_rules.keep(web, rules)
    an_alert(rule="rule_2")
    page = viewer.get("/alerts/rules").text
    assert "25 rules" in page
    for n in (0, 2, 24):
        row = re.findall(rf'<tr id="rule-rule_{n}">(.*?)</tr>', page)[0]
        assert f"Meaning {n}." in row
        assert f"Advice {n}." in row
        assert {0: "at once", 2: "1 m 00 s", 24: "12 m"}[n] in row
        assert ('href="/alerts">1<' in row) == (n == 2)


def test_before_a_monitor_ran_there_are_no_rules(web: psycopg.Connection, viewer: FlaskClient) -> None:
    assert "No rules are known yet." in viewer.get("/alerts/rules").text


def test_channels_show_what_became_of_their_last_message_and_are_tested(
    web: psycopg.Connection, operator: FlaskClient, an_alert: Alert, post: Post, notices: Notices
) -> None:
    page = operator.get("/alerts/channels").text
    assert "Nobody is told." in page
    assert "SMTP_URL" in page
    assert "Send a test" not in page
    web.execute("UPDATE monitor SET channels = '{email}'")
    alert_id = an_alert()
    taken = deliveries.take(web, "email", 60)
    assert taken is not None
    deliveries.failed(web, taken, "the mail server said 550", pause_seconds=60, give_up_seconds=0)
    said = notices(operator, post(operator, "/alerts/channels/email/test"))
    assert "The monitor will send a test by email." in said
    page = operator.get("/alerts/channels").text
    for words in (f"alert {alert_id}, opened</a>", "not sent", "the mail server said 550", "a test", "waits"):
        assert words in page
    again = notices(operator, post(operator, "/alerts/channels/email/test"))
    assert "a test by email waits to be sent" in again
    assert post(operator, "/alerts/channels/webhook/test").status_code == 404
    assert [one.kind for one in deliveries.latest(web, 9)] == ["test", "opened"]


def test_a_viewer_sees_channels_and_tests_none(
    web: psycopg.Connection, viewer: FlaskClient, post: Post
) -> None:
    web.execute("UPDATE monitor SET channels = '{email}'")
    assert "hx-post" not in viewer.get("/alerts/channels").text
    assert post(viewer, "/alerts/channels/email/test").status_code == 403
    assert deliveries.latest(web, 9) == []


# What the rest of the console says.


def verdict(client: FlaskClient) -> str:
    page = client.get("/panels/verdict").text
    return " ".join(unescape(re.sub(r"<[^>]+>", "", page)).split())


def bar(client: FlaskClient) -> dict[str, str]:
    page = client.get("/panels/bar").text
    return dict(re.findall(r'href="/(\w+)"[^>]*>\w+ <span class="n">(\d+)<', page))


def test_an_open_alert_is_the_verdict_until_somebody_takes_care(
    web: psycopg.Connection, viewer: FlaskClient, an_alert: Alert, expire: Callable[[], None]
) -> None:
    alert_id = an_alert()
    assert BAD_KEY in verdict(viewer)
    assert bar(viewer) == {"keys": "1", "alerts": "1"}
    alerts.acknowledge(web, alert_id, "operator@example.com")
    expire()
    assert "All is quiet." in verdict(viewer)
    assert bar(viewer) == {}
    assert "operator@example.com takes care" in viewer.get("/panels/needs").text


def test_a_muted_alert_asks_for_nobody(
    web: psycopg.Connection, viewer: FlaskClient, an_alert: Alert, expire: Callable[[], None]
) -> None:
    alerts.mute(web, an_alert(), datetime.now(UTC) + timedelta(hours=1), "planned", "x@example.com")
    assert "All is quiet." in verdict(viewer)
    assert "muted: planned" in viewer.get("/panels/needs").text


def test_a_lost_key_is_said_once_by_its_alert(
    web: psycopg.Connection, viewer: FlaskClient, an_alert: Alert, a_key: Callable[..., int]
) -> None:
    key_id = a_key("CH trial", state="invalid", last_error="no such key")
    assert verdict(viewer).count("rejected") == 1
    an_alert(link=f"/keys/{key_id}")
    panel = viewer.get("/panels/needs").text
    assert panel.count("rejected") == 1
    assert "key_invalid" in panel


def test_a_critical_alert_elsewhere_does_not_say_that_nothing_runs(
    web: psycopg.Connection,
    viewer: FlaskClient,
    an_alert: Alert,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    a_worker: Callable[..., Any],
) -> None:
    a_key("CH main")
    a_list(1)
    a_worker()
    an_alert(Severity.CRITICAL, rule="due", subject="list:1", link="/lists/1", message="late")
    an_alert(Severity.WARNING, rule="stalled", subject="w", link="/workers/1", message="stalled")
    assert verdict(viewer).startswith("Running, with 2 things for you.")


def test_a_monitor_that_stopped_is_said_everywhere_and_its_silence_is_not_called_peace(
    web: psycopg.Connection, viewer: FlaskClient
) -> None:
    web.execute("UPDATE monitor SET looked_at = now() - interval '50 minutes'")
    assert "The monitor does not look any more" in verdict(viewer)
    page = viewer.get("/alerts").text
    assert "The monitor has not looked since" in page
    assert "python -m monitor" in page
    assert "Nothing is wrong." not in page


def test_a_monitor_that_never_looked_is_said_and_is_no_emergency(
    web: psycopg.Connection, viewer: FlaskClient
) -> None:
    web.execute("UPDATE monitor SET looked_at = NULL")
    assert "All is quiet." in verdict(viewer)
    assert "No monitor has looked yet" in viewer.get("/panels/needs").text
    assert "Nothing is wrong." not in viewer.get("/alerts").text
