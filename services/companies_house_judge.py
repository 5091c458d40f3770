"""What an answer of Companies House means for the key, the service and the job."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from services import json_limits
from services.rests import rest_seconds
from services.verdicts import KeyInvalid, KeyRests, Refused, ServiceFailed, Usable, Verdict

WINDOW_SECONDS: Final = 300.0
WORDS_ALLOWED: Final = 300
KEY_REFUSED: Final = "Companies House does not accept the key."

_UNAUTHORISED, _FORBIDDEN, _NOT_FOUND, _NOT_ACCEPTABLE = 401, 403, 404, 406
_TIMEOUT, _TOO_MANY, _SERVER_ERROR = 408, 429, 500
_BLANK: Final = b"\xef\xbb\xbf\xff\xfe\0 \t\r\n"
_ABOUT_THE_KEY: Final = ("authoris", "authoriz", "authentic", "api key", "api-key")


def judge(status: int, headers: Mapping[str, str], body: bytes, now: float) -> Verdict:
    """What Companies House's answer means. Its errors come as JSON in two shapes and as plain text."""
    words = _words(body)
    if status == _UNAUTHORISED:
        return KeyInvalid(words or KEY_REFUSED)
    if status == _FORBIDDEN:
        return _judge_forbidden(headers, body, words)
    if status == _TOO_MANY:
        asked = rest_seconds(headers, now)
        return KeyRests(WINDOW_SECONDS if asked is None else asked, words)
    if status >= _SERVER_ERROR or status == _TIMEOUT:
        return ServiceFailed("service_error", words or f"Companies House answered {status}.")
    if status in (_NOT_FOUND, _NOT_ACCEPTABLE):
        return Usable()
    return _judge_others(status, headers, body, words)


def _judge_others(status: int, headers: Mapping[str, str], body: bytes, words: str) -> Verdict:
    if status // 100 == 4:  # noqa: PLR2004
        return Refused(words or f"Companies House answered {status}.")
    if status // 100 != 2:  # noqa: PLR2004
        return ServiceFailed("bad_answer", f"Companies House answered {status}, which is no answer.")
    promised = headers.get("content-type", "")
    if "json" in promised and _json(body) is None:
        return ServiceFailed(
            "bad_answer", "The answer says it is JSON and is not: it was cut short or garbled."
        )
    if "xhtml" in promised and not _begins_with_a_tag(body):
        return ServiceFailed(
            "bad_answer", "The answer says it is XHTML and is no document: empty or garbled."
        )
    return Usable()


def _begins_with_a_tag(body: bytes) -> bool:
    """In any encoding, after marks and blanks. What does may be a broken filing: that is its company's."""
    return body.lstrip(_BLANK).startswith(b"<")


def _judge_forbidden(headers: Mapping[str, str], body: bytes, words: str) -> Verdict:
    """A firewall's 403 page says nothing of the key; only the service's own words may cost it."""
    said = " ".join(_messages(_json(body))).lower()
    if "ch-authentication-error" in headers or any(word in said for word in _ABOUT_THE_KEY):
        return KeyInvalid(words or KEY_REFUSED)
    return Refused(words or f"Companies House answered {_FORBIDDEN}.")


def _words(body: bytes) -> str:
    """The service's own words: `{"error": …}`, `{"errors": [{"error": …}]}` or plain text; no HTML."""
    text = " ".join(body[: 4 * WORDS_ALLOWED].decode("utf-8", "replace").split())
    words = "; ".join(_messages(_json(body))) or ("" if text.startswith(("<", "{", "[")) else text)
    return words[:WORDS_ALLOWED]


def _messages(found: Any) -> list[str]:
    if not isinstance(found, dict):
        return []
    errors = found.get("errors")
    holders = [found, *(errors if isinstance(errors, list) else [])]
    texts = (holder.get("error") for holder in holders if isinstance(holder, dict))
    return [text for text in texts if isinstance(text, str) and text]


def _json(body: bytes) -> Any:
    """None when it is not JSON."""
    try:
        return json_limits.loads(body)
    except ValueError:
        return None
