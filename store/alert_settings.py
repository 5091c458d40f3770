"""How alerts reach people: the settings of email and webhook, read and refused by `store.settings`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

EMAIL = ("ALERT_EMAIL_TO", "ALERT_EMAIL_FROM", "SMTP_URL")
WEBHOOK = ("ALERT_WEBHOOK_URL", "ALERT_WEBHOOK_SECRET")

_LEAST_SECRET = 16
_ADDRESS = re.compile(r"[^\s@<>,;:\"()\[\]\\]+@[^\s@<>,;:\"()\[\]\\]+")
_SMTP_PORTS = {("smtp", False): 25, ("smtp", True): 587, ("smtps", False): 465}
_LOCAL_HOSTS = {"localhost", "127.0.0.1", "::1"}


@dataclass(frozen=True, slots=True)
class EmailSettings:
    """Whom alerts are mailed to, and through which server. `is_tls`: encrypted from the first byte."""

    to: tuple[str, ...]
    sender: str
    host: str
    port: int
    is_tls: bool
    starttls: bool
    user: str | None = None
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Where alerts are posted to. The URL may hold a secret of its own."""

    url: str = field(repr=False)
    secret: str = field(repr=False)


def email(texts: Mapping[str, str]) -> EmailSettings | None:
    """The settings named in `EMAIL`; None: not set. Raises `ValueError` with one line, without a password."""
    to, sender, smtp = _all_or_none(texts, EMAIL)
    if not smtp:
        return None
    addresses = tuple(address.strip() for address in to.split(","))
    for address in addresses:
        _check_address("ALERT_EMAIL_TO", address)
    _check_address("ALERT_EMAIL_FROM", sender)
    url = _split(smtp)
    extras = parse_qsl(url.query, keep_blank_values=True) if url else []
    is_plain = url is not None and url.path in {"", "/"} and extras in ([], [("starttls", "")])
    port = _SMTP_PORTS.get((url.scheme, bool(extras))) if url and is_plain else None
    if url is None or port is None or not url.hostname:
        raise ValueError(
            "SMTP_URL cannot be read: it must be smtp://user:password@host:587?starttls or "
            "smtps://user:password@host:465, with special characters percent-encoded"
        )
    is_tls, starttls = url.scheme == "smtps", bool(extras)
    if url.password and not (is_tls or starttls or url.hostname in _LOCAL_HOSTS):
        raise ValueError("SMTP_URL sends a password in the clear: use smtps:// or add ?starttls")
    user, password = (unquote(part) if part else None for part in (url.username, url.password))
    return EmailSettings(addresses, sender, url.hostname, url.port or port, is_tls, starttls, user, password)


def webhook(texts: Mapping[str, str]) -> WebhookSettings | None:
    """The settings named in `WEBHOOK`; None: not set. Raises `ValueError` with one line, without a secret."""
    address, secret = _all_or_none(texts, WEBHOOK)
    if not address:
        return None
    url = _split(address)
    if not (url and url.scheme in {"http", "https"} and url.hostname):
        raise ValueError("ALERT_WEBHOOK_URL cannot be read: it must be like https://example.com/hook")
    if len(secret) < _LEAST_SECRET:
        raise ValueError(
            f"ALERT_WEBHOOK_SECRET has {len(secret)} characters: it must have at least {_LEAST_SECRET}"
        )
    return WebhookSettings(address, secret)


def _all_or_none(texts: Mapping[str, str], names: tuple[str, ...]) -> list[str]:
    found = [texts[name] for name in names]
    if any(found) and not all(found):
        missing = names[found.index("")]
        raise ValueError(f"{missing} is not set: {', '.join(names)} are set together or not at all")
    return found


def _check_address(name: str, address: str) -> None:
    if not _ADDRESS.fullmatch(address):
        shown = " ".join(address.split())
        raise ValueError(f"{name} holds “{shown}”: it must be an address like ops@example.com")


def _split(text: str) -> SplitResult | None:
    try:
        url = urlsplit(text)
        _ = url.hostname, url.port  # raises for a port that is none
    except ValueError:
        return None
    return url
