"""Alerts by webhook: a signed POST of JSON. Only an answer of 2xx counts as accepted.

`Sluice-Signature: t=SECONDS,v1=HEX` where HEX is HMAC-SHA256 with the shared secret over `SECONDS.BODY`;
receivers refuse old times. `Idempotency-Key` is the same for every try of one delivery.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time

import requests

from monitor.channels.notice import Channel, Notice, NotSent
from store.alert_settings import WebhookSettings
from store.settings import Settings

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
FIRST_REFUSED_STATUS = 300


class Webhook:
    """`send` returns when the receiver has answered with 2xx. Redirects are not followed."""

    name = "webhook"

    def __init__(self, settings: WebhookSettings) -> None:
        self._settings = settings

    def send(self, notice: Notice) -> str | None:
        content, seconds = body(notice), int(time.time())
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": notice.key,
            "Sluice-Signature": f"t={seconds},v1={signature(self._settings.secret, seconds, content)}",
            "User-Agent": "Sluice",
        }
        try:
            with requests.post(
                self._settings.url,
                data=content,
                headers=headers,
                timeout=(CONNECT_SECONDS, ANSWER_SECONDS),
                allow_redirects=False,
                stream=True,  # what the receiver says beyond its status is not read
            ) as answer:
                status = answer.status_code
        except requests.Timeout:
            raise NotSent("the receiver did not answer in time") from None
        except (requests.RequestException, UnicodeError) as error:
            # Never its text: it holds the URL, which often is a secret itself.
            raise NotSent(f"the receiver could not be reached ({type(error).__name__})") from None
        if status >= FIRST_REFUSED_STATUS:
            raise NotSent(f"the receiver answered {status}")
        return None


def body(notice: Notice) -> bytes:
    """The JSON of a notice."""
    alert = notice.alert_id and {
        "id": notice.alert_id,
        "rule": notice.rule,
        "subject": notice.subject,
        "severity": notice.severity,
        "message": notice.message,
        "meaning": notice.meaning,
        "advice": notice.advice,
        "link": notice.link,
        "opened_at": notice.opened_at and notice.opened_at.isoformat(),
        "resolved_at": notice.resolved_at and notice.resolved_at.isoformat(),
    }
    told = {"id": notice.key, "kind": notice.kind, "text": notice.summary, "alert": alert or None}
    return json.dumps(told, ensure_ascii=False).encode()


def signature(secret: str, seconds: int, content: bytes) -> str:
    """HMAC-SHA256 in hex over the time and the body, so that neither can be changed nor sent again later."""
    return hmac.new(secret.encode(), b"%d." % seconds + content, hashlib.sha256).hexdigest()


def from_settings(settings: Settings) -> Channel | None:
    """None: no webhook is set up."""
    return Webhook(settings.webhook) if settings.webhook else None
