from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest

from store import alert_rules, alerts, deliveries, pulse
from store.alert_rules import RuleText
from store.alerts import Episode, Found, Severity
from store.deliveries import Kind
from store.pulse import Leader

NOW = datetime(2026, 3, 5, 14, 0, tzinfo=UTC)
KEY = Found("key_invalid", "key:5", Severity.CRITICAL, "Key “CH trial” was rejected", "/keys/5")
CHANNELS = ["email", "webhook"]


def watched(conn: psycopg.Connection, found: Found = KEY, now: datetime = NOW) -> Episode:
    alerts.watch(conn, [found], now)
    (episode,) = [
        e for e in alerts.unresolved(conn, now) if (e.rule, e.subject) == (found.rule, found.subject)
    ]
    return episode


def opened(conn: psycopg.Connection, found: Found = KEY, now: datetime = NOW) -> int:
    episode = watched(conn, found, now)
    assert alerts.tell(conn, episode.id, 0, Kind.OPENED, CHANNELS, now)
    return episode.id


def resolved(conn: psycopg.Connection, found: Found = KEY, now: datetime = NOW) -> int:
    alert_id = opened(conn, found, now)
    alerts.not_seen(conn, [alert_id], now)
    assert alerts.resolve(conn, alert_id, CHANNELS, now, tells=False)
    return alert_id


def told(conn: psycopg.Connection) -> list[tuple[str, str]]:
    return list(conn.execute("SELECT channel, kind FROM delivery ORDER BY id").fetchall())


def leader(*channels: str) -> Leader:
    return Leader(uuid4(), "test", "0", channels)


def test_at_most_one_episode_is_open_per_rule_and_subject(conn: psycopg.Connection) -> None:
    opened(conn)
    assert alerts.watch(conn, [KEY, KEY], NOW) == 0
    with pytest.raises(psycopg.errors.UniqueViolation), conn.transaction():
        conn.execute(
            "INSERT INTO alert (rule, subject, severity, message, link, flaps, seen_from, last_seen_at)"
            " SELECT rule, subject, severity, message, link, flaps, seen_from, last_seen_at FROM alert"
        )


def test_opening_and_its_deliveries_are_one_statement(conn: psycopg.Connection) -> None:
    opened(conn)
    assert told(conn) == [("email", "opened"), ("webhook", "opened")]
    (seen,) = alerts.see_open(conn)
    assert (seen.opened_at, seen.told) == (NOW, 1)


def test_who_tells_second_tells_nobody(conn: psycopg.Connection) -> None:
    episode = watched(conn)
    assert alerts.tell(conn, episode.id, episode.told, Kind.OPENED, CHANNELS, NOW)
    assert not alerts.tell(conn, episode.id, episode.told, Kind.OPENED, CHANNELS, NOW)
    assert len(told(conn)) == 2


def test_a_resolved_alert_is_neither_told_nor_resolved_again(conn: psycopg.Connection) -> None:
    alert_id = resolved(conn)
    assert not alerts.tell(conn, alert_id, 1, Kind.REMINDER, CHANNELS, NOW)
    assert not alerts.resolve(conn, alert_id, CHANNELS, NOW, tells=True)
    assert len(told(conn)) == 2


def test_what_was_seen_again_meanwhile_is_not_resolved(conn: psycopg.Connection) -> None:
    alert_id = opened(conn)
    alerts.not_seen(conn, [alert_id], NOW)
    alerts.seen_again(conn, [(alert_id, KEY, False)], NOW)
    assert not alerts.resolve(conn, alert_id, CHANNELS, NOW, tells=True)


def test_an_opened_alert_is_never_forgotten(conn: psycopg.Connection) -> None:
    alert_id = opened(conn)
    other = watched(conn, Found("disk_full", "disk", Severity.WARNING, "full", "/"))
    assert alerts.forget(conn, [alert_id, other.id]) == 1
    assert alerts.see_one(conn, alert_id) is not None


def test_episodes_of_the_last_day_are_counted_as_flaps(conn: psycopg.Connection) -> None:
    for hours in (30, 20, 2):
        resolved(conn, now=NOW - timedelta(hours=hours))
    assert watched(conn).flaps == 2


def test_a_mute_outlives_its_episode_and_ends_in_time(conn: psycopg.Connection) -> None:
    real = datetime.now(UTC)
    alert_id = resolved(conn, now=real)
    assert alerts.mute(conn, alert_id, real + timedelta(hours=1), "new key is ordered", "ops")
    again = watched(conn, now=real)
    assert again.is_muted
    (later,) = alerts.unresolved(conn, real + timedelta(hours=2))
    assert not later.is_muted


def test_an_unmuted_subject_stays_unmuted(conn: psycopg.Connection) -> None:
    real = datetime.now(UTC)
    alerts.mute(conn, resolved(conn, now=real), real + timedelta(hours=1), "why", "ops")
    again = opened(conn, now=real)
    assert alerts.unmute(conn, again)
    alerts.not_seen(conn, [again], real)
    alerts.resolve(conn, again, [], real, tells=False)
    assert not watched(conn, now=real).is_muted


def test_a_mute_until_a_moment_that_is_past_is_none(conn: psycopg.Connection) -> None:
    assert not alerts.mute(conn, opened(conn), NOW - timedelta(days=999), "why", "ops")


def test_acknowledging_says_who_was_first(conn: psycopg.Connection) -> None:
    alert_id = opened(conn)
    assert alerts.acknowledge(conn, alert_id, "ada@example.com")
    assert not alerts.acknowledge(conn, alert_id, "bob@example.com")
    seen = alerts.see_one(conn, alert_id)
    assert seen is not None
    assert seen.acknowledged_by == "ada@example.com"


def test_the_worst_alert_is_shown_first_with_its_meaning(conn: psycopg.Connection) -> None:
    alert_rules.keep(conn, [RuleText("gone", "m", "a", 0, 0)])
    alert_rules.keep(conn, [RuleText("key_invalid", "It was rejected.", "Replace it.", 0, 60)])
    opened(conn, Found("list_finished", "list:1", Severity.INFO, "done", "/lists/1"))
    opened(conn)
    first, second = alerts.see_open(conn)
    assert (first.meaning, first.advice) == ("It was rejected.", "Replace it.")
    assert (second.severity, second.meaning) == ("info", None)
    assert [rule.name for rule in alert_rules.see(conn)] == ["key_invalid"]


def test_text_that_postgres_refuses_is_cleaned(conn: psycopg.Connection) -> None:
    opened(conn, Found("r", "s", Severity.INFO, "a\x00b\ud800" + "c" * 9000, "/"))
    assert len(alerts.see_open(conn)[0].message) < 2001


def test_a_delivery_is_nobody_elses_while_it_is_held(
    dsn: str, connect: Callable[[], psycopg.Connection]
) -> None:
    first, second = connect(), connect()
    opened(first)
    taken = deliveries.take(first, "email", 30.0)
    assert taken is not None
    assert (taken.tries, taken.message) == (1, KEY.message)
    assert deliveries.take(second, "email", 30.0) is None
    assert deliveries.take(second, "webhook", 30.0) is not None


def test_a_delivery_whose_sender_died_comes_back_with_the_same_key(conn: psycopg.Connection) -> None:
    opened(conn)
    first = deliveries.take(conn, "email", 0.0)
    again = deliveries.take(conn, "email", 30.0)
    assert first is not None
    assert again is not None
    assert (again.idempotency_key, again.tries) == (first.idempotency_key, 2)
    assert deliveries.sent(conn, again)
    assert not deliveries.sent(conn, first)


def test_the_end_is_told_after_the_beginning(conn: psycopg.Connection) -> None:
    alert_id = opened(conn)
    alerts.not_seen(conn, [alert_id], NOW)
    alerts.resolve(conn, alert_id, CHANNELS, NOW, tells=True)
    first = deliveries.take(conn, "email", 30.0)
    assert first is not None
    assert first.kind == Kind.OPENED
    assert deliveries.take(conn, "email", 30.0) is None
    deliveries.sent(conn, first)
    second = deliveries.take(conn, "email", 30.0)
    assert second is not None
    assert second.kind == Kind.RESOLVED


def test_a_try_that_failed_is_recorded_and_waits_and_an_old_one_is_given_up(conn: psycopg.Connection) -> None:
    alert_id = opened(conn)
    taken = deliveries.take(conn, "email", 30.0)
    assert taken is not None
    assert not deliveries.failed(conn, taken, "550 no", pause_seconds=60.0, give_up_seconds=3600.0)
    email = deliveries.of_alerts(conn, [alert_id])[0]
    assert (email.state, email.tries, email.last_error) == ("pending", 1, "550 no")
    assert deliveries.take(conn, "email", 30.0) is None
    assert deliveries.failed(conn, taken, "550 no", pause_seconds=60.0, give_up_seconds=0.0)
    assert deliveries.of_alerts(conn, [alert_id])[0].state == "failed"


def test_a_late_failure_of_an_earlier_try_does_not_touch_a_later_one(conn: psycopg.Connection) -> None:
    alert_id = opened(conn)
    first = deliveries.take(conn, "email", 0.0)
    second = deliveries.take(conn, "email", 30.0)
    assert first is not None
    assert second is not None
    deliveries.failed(conn, first, "late", pause_seconds=60.0, give_up_seconds=3600.0)
    assert deliveries.of_alerts(conn, [alert_id])[0].last_error is None


def test_a_test_message_has_no_alert_and_removed_channels_are_given_up(conn: psycopg.Connection) -> None:
    deliveries.order_test(conn, "email")
    taken = deliveries.take(conn, "email", 30.0)
    assert taken is not None
    assert (taken.kind, taken.alert_id) == ("test", None)
    assert deliveries.abandon(conn, ["email"]) == 0
    assert deliveries.abandon(conn, ["webhook"]) == 1


def test_one_test_of_a_channel_waits_at_a_time(conn: psycopg.Connection) -> None:
    assert deliveries.order_test(conn, "email")
    assert deliveries.order_test(conn, "email") is None
    assert deliveries.order_test(conn, "webhook")
    taken = deliveries.take(conn, "email", 30.0)
    assert taken is not None
    deliveries.sent(conn, taken)
    assert deliveries.order_test(conn, "email")
    assert [(one.channel, one.state) for one in deliveries.latest(conn, 2)] == [
        ("email", "pending"),
        ("webhook", "pending"),
    ]


def test_one_monitor_leads_until_its_lease_is_over_or_it_steps_down(conn: psycopg.Connection) -> None:
    first, second = leader("email"), leader()
    assert pulse.lead(conn, first, 30.0)
    assert not pulse.lead(conn, second, 30.0)
    assert pulse.lead(conn, first, -1.0)
    assert pulse.lead(conn, second, 30.0)
    assert not pulse.looked(conn, first.id)
    assert not pulse.step_down(conn, first.id)
    assert pulse.step_down(conn, second.id)
    assert pulse.lead(conn, first, 30.0)


def test_the_pulse_says_when_a_look_was_finished(conn: psycopg.Connection) -> None:
    who = leader("email")
    pulse.lead(conn, who, 30.0)
    assert pulse.monitor_pulse(conn) is None
    assert pulse.looked(conn, who.id)
    assert pulse.monitor_pulse(conn) is not None


def test_the_count_check_has_one_turn_per_interval_and_only_for_the_leader(conn: psycopg.Connection) -> None:
    who = leader()
    assert not pulse.check_if_due(conn, who.id, 600.0)
    pulse.lead(conn, who, 30.0)
    assert pulse.check_if_due(conn, who.id, 600.0)
    assert not pulse.check_if_due(conn, who.id, 600.0)


def test_the_newest_delivery_of_every_channel_is_shown(conn: psycopg.Connection) -> None:
    pulse.lead(conn, leader("email", "webhook"), 30.0)
    opened(conn)
    test_id = deliveries.order_test(conn, "email")
    shown = deliveries.last_of_channels(conn)
    assert [(d.channel, d.kind) for d in shown] == [("email", "test"), ("webhook", "opened")]
    assert shown[0].id == test_id
