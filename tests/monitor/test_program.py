"""The monitor as a process: really started, really killed, telling a real receiver."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from store import alerts, deliveries, pulse, tally


def leader(conn: psycopg.Connection) -> str:
    return str(pulse.see(conn).name or "")


def looks(conn: psycopg.Connection) -> bool:
    return pulse.monitor_pulse(conn) is not None


def errors(conn: psycopg.Connection) -> list[str | None]:
    return [error for (error,) in conn.execute("SELECT last_error FROM delivery ORDER BY id")]


def states(conn: psycopg.Connection) -> list[str]:
    return [state for (state,) in conn.execute("SELECT state FROM delivery ORDER BY id")]


def test_an_alert_is_told_within_seconds_and_once(
    db: psycopg.Connection,
    start: Callable[..., Any],
    until: Callable[..., None],
    hook: Any,
    a_key: Callable[..., int],
) -> None:
    process = start(ALERT_WEBHOOK_URL=hook.url, PUBLIC_URL="https://sluice.example.com")
    until(lambda: looks(db))
    a_key(db, "CH trial", "invalid")
    until(lambda: states(db) == ["sent"], 5)
    (seen,) = alerts.see_open(db)
    until(lambda: alerts.see_open(db)[0].seen > seen.seen + 3)
    assert len(hook.received) == 1
    assert "Replace its secret" in (seen.advice or "")
    assert "hidden" not in process.said()
    assert "alerts are told by webhook" in process.said()


def test_two_monitors_tell_once_and_the_second_takes_over_from_a_killed_first(
    db: psycopg.Connection,
    start: Callable[..., Any],
    until: Callable[..., None],
    hook: Any,
    a_key: Callable[..., int],
) -> None:
    first = start(ALERT_WEBHOOK_URL=hook.url)
    until(lambda: looks(db))
    second = start(ALERT_WEBHOOK_URL=hook.url)
    until(lambda: "waiting to take over" in second.said())
    a_key(db, "CH trial", "invalid")
    until(lambda: states(db) == ["sent"])
    assert leader(db).endswith(str(first.popen.pid))

    first.popen.kill()
    killed_at = time.monotonic()
    until(lambda: leader(db).endswith(str(second.popen.pid)), 3)
    assert time.monotonic() - killed_at < 2.0
    a_key(db, "CH other", "invalid")
    until(lambda: states(db) == ["sent", "sent"])
    assert len(hook.received) == 2


def test_kill_9_between_the_alert_and_its_telling_loses_nothing(
    db: psycopg.Connection,
    start: Callable[..., Any],
    until: Callable[..., None],
    hook: Any,
    a_key: Callable[..., int],
) -> None:
    """The first try fails, so the alert is there and untold; then the monitor is killed."""
    hook.status = 500
    first = start(ALERT_WEBHOOK_URL=hook.url)
    a_key(db, "CH trial", "invalid")
    until(lambda: errors(db) == ["the receiver answered 500"])
    (opened,) = alerts.see_open(db)
    first.popen.kill()
    first.popen.wait()
    hook.status = 204
    db.execute("UPDATE delivery SET next_try_at = now()")
    start(ALERT_WEBHOOK_URL=hook.url)
    until(lambda: states(db) == ["sent"])
    assert [alert.id for alert in alerts.see_open(db)] == [opened.id]
    assert len({got.headers["Idempotency-Key"] for got in hook.received}) == 1


def test_kill_9_while_sending_sends_at_most_twice_with_one_key(
    db: psycopg.Connection,
    start: Callable[..., Any],
    until: Callable[..., None],
    hook: Any,
    a_key: Callable[..., int],
) -> None:
    hook.go_on.clear()
    first = start(ALERT_WEBHOOK_URL=hook.url)
    a_key(db, "CH trial", "invalid")
    until(lambda: len(hook.received) == 1)
    first.popen.kill()
    first.popen.wait()
    assert states(db) == ["pending"]
    hook.go_on.set()
    db.execute("UPDATE delivery SET next_try_at = now()")  # the hold of the killed one is over
    start(ALERT_WEBHOOK_URL=hook.url)
    until(lambda: states(db) == ["sent"])
    keys = [got.headers["Idempotency-Key"] for got in hook.received]
    assert len(keys) == 2
    assert len(set(keys)) == 1


def test_a_test_message_is_sent_by_the_monitor(
    db: psycopg.Connection, start: Callable[..., Any], until: Callable[..., None], mail: Any
) -> None:
    start(
        SMTP_URL=f"smtp://127.0.0.1:{mail.port}",
        ALERT_EMAIL_TO="ops@example.com",
        ALERT_EMAIL_FROM="sluice@example.com",
    )
    until(lambda: looks(db))
    deliveries.order_test(db, "email")
    until(lambda: len(mail.messages) == 1)
    assert pulse.see(db).channels == ["email"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_within_a_second_even_while_a_receiver_hangs(
    db: psycopg.Connection,
    start: Callable[..., Any],
    until: Callable[..., None],
    hook: Any,
    a_key: Callable[..., int],
    number: signal.Signals,
) -> None:
    hook.go_on.clear()
    a_key(db, "CH trial", "invalid")
    process = start(ALERT_WEBHOOK_URL=hook.url)
    until(lambda: len(hook.received) == 1)
    process.popen.send_signal(number)
    assert process.popen.wait(1.5) == 0
    assert leader(db) == ""
    assert "Traceback" not in process.said()


def test_once_looks_once_and_leaves_the_lead(
    db: psycopg.Connection, start: Callable[..., Any], hook: Any, a_key: Callable[..., int]
) -> None:
    a_key(db, "CH trial", "invalid")
    process = start("--once", ALERT_WEBHOOK_URL=hook.url)
    assert process.popen.wait(10) == 0
    assert len(hook.received) == 1
    assert looks(db)
    assert leader(db) == ""


def test_counts_that_are_off_are_corrected_and_told(
    db: psycopg.Connection, start: Callable[..., Any], hook: Any
) -> None:
    db.execute("INSERT INTO service VALUES ('uk')")
    db.execute("INSERT INTO list (name, service, fields) VALUES ('x', 'uk', '{a}')")
    db.execute("INSERT INTO tally SELECT id, 'done', 'complete', '', 12 FROM list")
    for _ in range(2):
        assert start("--once", ALERT_WEBHOOK_URL=hook.url).popen.wait(10) == 0
    assert tally.read(db) == []
    assert [alert.message.split(" at ")[0] for alert in alerts.see_open(db)] == [
        "The counts shown were off by 12 jobs"
    ]


def test_without_channels_it_says_that_nobody_is_told(start: Callable[..., Any]) -> None:
    process = start("--once")
    assert process.popen.wait(10) == 0
    assert "nobody is told" in process.said()


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"MONITOR_SECONDS": "often"}, "monitor: MONITOR_SECONDS is often"),
        ({"ALERT_EMAIL_TO": "ops@example.com"}, "monitor: ALERT_EMAIL_FROM is not set"),
        (
            {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/x"},
            "monitor: The database of DATABASE_URL does not",
        ),
    ],
)
def test_what_keeps_it_from_starting_is_one_line(
    start: Callable[..., Any], environ: dict[str, str], says: str
) -> None:
    process = start(**environ)
    assert process.popen.wait(15) == 1
    assert process.said().startswith(says)
    assert process.said().count("\n") == 1


def test_a_session_that_is_ended_does_not_end_the_monitor(
    db: psycopg.Connection, start: Callable[..., Any], until: Callable[..., None]
) -> None:
    process = start()
    until(lambda: looks(db))
    for _ in range(20):
        db.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice monitor'"
        )
    looked_at = pulse.monitor_pulse(db)
    until(lambda: pulse.monitor_pulse(db) != looked_at)
    assert process.popen.poll() is None
