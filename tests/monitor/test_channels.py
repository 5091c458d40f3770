from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.channels import CHANNELS, configured
from monitor.channels.email import Email, message
from monitor.channels.notice import Notice, NotSent, notice
from monitor.channels.webhook import Webhook, body
from store import settings
from store.alert_settings import EmailSettings, WebhookSettings
from store.deliveries import Taken

KEY = UUID("6f1c2f8e-1f1e-4b53-9a60-0d8f2a6f7b11")
NOW = datetime(2026, 3, 5, 14, 0, tzinfo=UTC)
TAKEN = Taken(
    1, "opened", 1, NOW, KEY, 9, "key_invalid", "key:5", "critical", "Key “CH trial” was rejected", "/keys/5",
    NOW, None, "The service does not accept the key.", "Replace it.",
)  # fmt: skip
HOSTILE = "Key “a\r\nBcc: everybody@example.com\r\n\r\n<script>\x00\u2028.\r\nQUIT” was rejected"
SECRET = "0123456789abcdef"


def email(port: int, **more: Any) -> EmailSettings:
    to = ("ops@example.com", "oncall@example.com")
    return replace(EmailSettings(to, "sluice@example.com", "127.0.0.1", port, False, False), **more)


def told(message: str = TAKEN.message or "", **more: Any) -> Notice:
    return notice(replace(TAKEN, message=message, **more), "https://sluice.example.com")


def test_an_email_says_what_is_wrong_what_to_do_and_where(mail: Any) -> None:
    assert Email(email(mail.port)).send(told()) is None
    (got,) = mail.messages
    assert mail.recipients == ["ops@example.com", "oncall@example.com"]
    assert got["Subject"] == "[Sluice critical] Key “CH trial” was rejected"
    assert got["Message-ID"] == f"<{KEY}@example.com>"
    assert got["Auto-Submitted"] == "auto-generated"
    text = got.get_content()
    for part in (
        "does not accept",
        "What to do: Replace it.",
        "https://sluice.example.com/keys/5",
        "14:00 UTC",
    ):
        assert part in text


def test_an_email_of_the_end_says_so() -> None:
    mail = message(told(kind="resolved", resolved_at=NOW), email(25))
    assert mail["Subject"] == "[Sluice critical] Resolved: Key “CH trial” was rejected"
    assert "What to do" not in mail.get_content()


def test_a_name_cannot_add_headers_or_end_the_message(mail: Any) -> None:
    Email(email(mail.port)).send(told(HOSTILE))
    (got,) = mail.messages
    assert sorted(got.keys()) == sorted(
        ["From", "To", "Subject", "Date", "Message-ID", "Auto-Submitted", "MIME-Version", "Content-Type",
         "Content-Transfer-Encoding"]
    )  # fmt: skip
    assert "Bcc: everybody@example.com" in got["Subject"]
    assert mail.recipients == ["ops@example.com", "oncall@example.com"]


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_makes_a_message(text: str, advice: str) -> None:
    clean = text.encode(errors="replace").decode()
    made = told(clean, advice=advice.encode(errors="replace").decode())
    parsed = message(made, email(25)).as_bytes()
    assert parsed.count(b"\nTo: ") == 1
    assert json.loads(body(made))["alert"]["message"] == clean


def test_an_address_that_is_refused_does_not_make_the_others_hear_it_again(mail: Any) -> None:
    mail.refused = frozenset({"oncall@example.com"})
    assert Email(email(mail.port)).send(told()) == "refused for oncall@example.com"
    mail.refused = frozenset({"ops@example.com", "oncall@example.com"})
    with pytest.raises(NotSent, match=r"refused for oncall@example\.com, ops@example\.com"):
        Email(email(mail.port)).send(told())


def test_a_server_that_says_goodbye_wrongly_has_accepted_the_message(mail: Any) -> None:
    mail.goodbye = b"500 what"
    assert Email(email(mail.port)).send(told()) is None


def test_a_message_that_is_not_kept_is_not_sent(mail: Any) -> None:
    mail.after = b"452 disk full"
    with pytest.raises(NotSent, match="452 disk full"):
        Email(email(mail.port)).send(told())


def test_a_password_that_the_server_repeats_is_hidden(mail: Any) -> None:
    mail.password = "hidden!"
    with pytest.raises(NotSent) as failed:
        Email(email(mail.port, user="me", password="hidden!")).send(told())
    assert "535 no, ••• is wrong" in str(failed.value)


def test_no_mail_server_is_said_in_one_line(unused_port: Callable[[], int]) -> None:
    with pytest.raises(NotSent, match="refused") as failed:
        Email(email(unused_port())).send(told())
    assert "\n" not in str(failed.value)


def test_a_webhook_is_signed_and_carries_the_deliverys_key(hook: Any) -> None:
    Webhook(WebhookSettings(hook.url, SECRET)).send(told())
    (got,) = hook.received
    assert got.headers["Idempotency-Key"] == str(KEY)
    stated = dict(part.split("=") for part in got.headers["Sluice-Signature"].split(","))
    signed = stated["t"].encode() + b"." + got.body
    assert hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest() == stated["v1"]
    told_alert = json.loads(got.body)
    assert (told_alert["id"], told_alert["kind"]) == (str(KEY), "opened")
    assert told_alert["alert"]["link"] == "https://sluice.example.com/keys/5"
    assert told_alert["alert"]["opened_at"] == "2026-03-05T14:00:00+00:00"


@pytest.mark.parametrize("status", [302, 400, 404, 500])
def test_only_2xx_counts_and_redirects_are_not_followed(hook: Any, status: int) -> None:
    hook.status = status
    with pytest.raises(NotSent, match=f"answered {status}"):
        Webhook(WebhookSettings(hook.url, SECRET)).send(told())
    assert len(hook.received) == 1


def test_the_secret_in_a_webhooks_url_is_in_no_error(unused_port: Callable[[], int]) -> None:
    with pytest.raises(NotSent) as failed:
        Webhook(WebhookSettings(f"http://127.0.0.1:{unused_port()}/T1/hidden", SECRET)).send(told())
    assert "hidden" not in str(failed.value)
    assert failed.value.__cause__ is None


def test_a_test_message_says_that_the_channel_works(hook: Any) -> None:
    test = notice(replace(TAKEN, kind="test", alert_id=None, message=None), "")
    Webhook(WebhookSettings(hook.url, SECRET)).send(test)
    assert json.loads(hook.received[0].body) == {
        "id": str(KEY), "kind": "test", "text": "Test from Sluice: this channel works.", "alert": None,
    }  # fmt: skip
    assert message(test, email(25))["Subject"] == "[Sluice] Test from Sluice: this channel works."


def test_only_what_is_set_up_is_told() -> None:
    assert configured(settings.read({})) == []
    hook = {"ALERT_WEBHOOK_URL": "https://x/y", "ALERT_WEBHOOK_SECRET": SECRET}
    assert [channel.name for channel in configured(settings.read(hook))] == ["webhook"]
    assert sorted(CHANNELS) == ["email", "webhook"]
