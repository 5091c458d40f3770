from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from monitor.channels.email import Email
from monitor.channels.notice import Notice
from monitor.sending import LONGEST_PAUSE_SECONDS, pause_seconds, send_due
from store import alerts, deliveries
from store.alert_settings import EmailSettings
from store.alerts import Found, Severity
from store.deliveries import Kind

URL = "https://sluice.example.com"
FOUND = Found("key_invalid", "key:5", Severity.CRITICAL, "Key “CH trial” was rejected", "/keys/5")


class Recorder:
    """A channel that remembers, or raises."""

    name = "email"

    def __init__(self, error: Exception | None = None) -> None:
        self.got: list[Notice] = []
        self.error = error

    def send(self, notice: Notice) -> str | None:
        self.got.append(notice)
        if self.error:
            raise self.error
        return None


def opened(conn: psycopg.Connection, found: Found = FOUND) -> int:
    now = datetime.now(UTC)
    alerts.watch(conn, [found], now)
    episode = alerts.unresolved(conn, now)[-1]
    alerts.tell(conn, episode.id, 0, Kind.OPENED, ["email"], now)
    return episode.id


def wait_is_over(conn: psycopg.Connection) -> None:
    conn.execute("UPDATE delivery SET next_try_at = now() - interval '1 second'")


def test_a_mail_server_that_was_down_gets_everything_once_it_is_back(
    db: psycopg.Connection, unused_port: Callable[[], int], serve_mail: Callable[..., Any], mail: Any
) -> None:
    alert_id, port = opened(db), unused_port()
    email = Email(EmailSettings(("ops@example.com",), "sluice@example.com", "127.0.0.1", port, False, False))
    for tries in (1, 2):
        assert send_due(db, email, URL) == 0
        (kept,) = deliveries.of_alerts(db, [alert_id])
        assert (kept.state, kept.tries) == ("pending", tries)
        assert "refused" in (kept.last_error or "")
        assert (kept.next_try_at - datetime.now(UTC)).total_seconds() == pytest.approx(5 * tries, abs=1)
        wait_is_over(db)
    mail.messages.clear()
    with serve_mail(type(mail)(port=port)) as server:
        assert send_due(db, email, URL) == 1
        assert send_due(db, email, URL) == 0
        assert len(server.messages) == 1
    (kept,) = deliveries.of_alerts(db, [alert_id])
    assert (kept.state, kept.tries, kept.last_error) == ("sent", 3, None)


def test_it_is_marked_sent_only_after_the_channel_has_taken_it(db: psycopg.Connection) -> None:
    alert_id = opened(db)

    class Looking(Recorder):
        def send(self, notice: Notice) -> str | None:
            (kept,) = deliveries.of_alerts(db, [alert_id])
            assert (kept.state, kept.tries, kept.sent_at) == ("pending", 1, None)
            return super().send(notice)

    assert send_due(db, Looking(), URL) == 1
    assert deliveries.of_alerts(db, [alert_id])[0].state == "sent"


def test_a_sender_that_dies_while_sending_leaves_it_to_be_sent_again_with_the_same_key(
    db: psycopg.Connection,
) -> None:
    opened(db)
    dying, next_one = Recorder(KeyboardInterrupt()), Recorder()  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        send_due(db, dying, URL)
    wait_is_over(db)
    assert send_due(db, next_one, URL) == 1
    assert dying.got[0].key == next_one.got[0].key


def test_a_bug_in_a_channel_is_recorded_and_the_monitor_goes_on(
    db: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    alert_id = opened(db)
    assert send_due(db, Recorder(ZeroDivisionError("secret")), URL) == 0
    assert deliveries.of_alerts(db, [alert_id])[0].last_error == "a bug: ZeroDivisionError"


def test_one_that_fails_does_not_keep_the_next_from_being_tried_soon(db: psycopg.Connection) -> None:
    opened(db)
    opened(db, Found("disk_full", "disk", Severity.WARNING, "full", "/"))
    assert send_due(db, Recorder(ZeroDivisionError()), URL) == 0
    good = Recorder()
    assert send_due(db, good, URL) == 1
    assert [notice.rule for notice in good.got] == ["disk_full"]


def test_a_day_of_failures_is_given_up_and_recorded(db: psycopg.Connection) -> None:
    alert_id = opened(db)
    db.execute("UPDATE delivery SET created_at = now() - interval '25 hours'")
    send_due(db, Recorder(ZeroDivisionError()), URL)
    assert deliveries.of_alerts(db, [alert_id])[0].state == "failed"


def test_pauses_grow_and_stay_bounded() -> None:
    assert [pause_seconds(tries) for tries in (1, 2, 3)] == [5, 10, 20]
    assert pause_seconds(10_000) == LONGEST_PAUSE_SECONDS
