"""Every setting of Sluice, read once from the environment and refused in one line when it is wrong.

`deploy/env.example` lists the same names; a test compares both. An empty value counts as not set.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import secrets
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
from cryptography.fernet import Fernet
from psycopg.conninfo import conninfo_to_dict

from store import alert_settings
from store.alert_settings import EmailSettings, WebhookSettings

MAKE_A_SECRET = 'python -c "import secrets; print(secrets.token_urlsafe(32))"'  # noqa: S105
MAKE_A_KEY = 'python -c "from cryptography.fernet import Fernet; print(Fernet.generate_key().decode())"'

_FERNET_KEY = re.compile(r"[A-Za-z0-9_-]{43}=")
_DATABASE_SCHEME = re.compile(r"(?:postgresql|postgres)(?:\+psycopg)?://")
_LEAST_LEASE_SECONDS = 2.0
_LEAST_LOOK_SECONDS = 0.1
_BEATS_PER_LEASE = 3
_LEAST_SECRET_LENGTH = 32
_MOST_PROXIES = 9


class BadSetting(ValueError):
    """A setting is missing or wrong. Its text is one line: which one, what it is, what it must be."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says. Secrets are left out of its repr."""

    database_url: str | None = field(repr=False)
    """`postgresql://…`; None: the embedded server."""
    services_url: str | None
    """Where all services are asked instead of their own addresses: the sandbox."""
    filings_root: Path | None
    """Below it lie all folders of filings that lists may name; None: no such list can be made or run."""
    port: int
    public_url: str
    """Where people reach the console, for links in what is printed and sent."""
    trusted_proxies: int
    """How many proxies stand in front and say in X-Forwarded-* who asked, and for which host."""
    lease_seconds: float
    heartbeat_seconds: float
    monitor_seconds: float
    email: EmailSettings | None
    webhook: WebhookSettings | None
    _master_keys: tuple[str, ...] = field(repr=False)
    _secret_key: str = field(repr=False)

    def master_keys(self) -> tuple[str, ...]:
        """The Fernet keys that encrypt secrets at rest: the first encrypts, all decrypt.

        Raises `BadSetting` when there is none; whatever touches a secret asks here first.
        """
        if not self._master_keys:
            raise BadSetting(f"SLUICE_MASTER_KEYS is not set: secrets need a key; make one with {MAKE_A_KEY}")
        return self._master_keys

    def secret_key(self) -> str:
        """What signs the sessions of people. Raises `BadSetting` when there is none; only pages ask."""
        if not self._secret_key:
            raise BadSetting(f"SLUICE_SECRET_KEY is not set: sessions need one; make it with {MAKE_A_SECRET}")
        return self._secret_key


def read(environ: Mapping[str, str]) -> Settings:
    """The settings in `environ`. Raises `BadSetting` for the first one that is wrong."""
    lease_seconds = _seconds(environ, "LEASE_SECONDS", default=30.0)
    if lease_seconds < _LEAST_LEASE_SECONDS:
        raise BadSetting(f"LEASE_SECONDS is {lease_seconds:g}: it must be at least {_LEAST_LEASE_SECONDS:g}")
    heartbeat_seconds = _seconds(environ, "HEARTBEAT_SECONDS", default=2.0)
    if not 0 < heartbeat_seconds * _BEATS_PER_LEASE < lease_seconds:
        raise BadSetting(
            f"HEARTBEAT_SECONDS is {heartbeat_seconds:g}: it must be above 0 and below a third of "
            f"LEASE_SECONDS, which is {lease_seconds:g}"
        )
    monitor_seconds = _seconds(environ, "MONITOR_SECONDS", default=3.0)
    if monitor_seconds < _LEAST_LOOK_SECONDS:
        raise BadSetting(
            f"MONITOR_SECONDS is {monitor_seconds:g}: it must be at least {_LEAST_LOOK_SECONDS:g}"
        )
    email, webhook = _alerts(environ)
    port = _port(_text(environ, "PORT") or "8000")
    return Settings(
        database_url=_database_url(_text(environ, "DATABASE_URL")),
        services_url=_url(environ, "SLUICE_SERVICES_URL", "http://127.0.0.1:8100"),
        filings_root=_folder(environ, "SLUICE_FILINGS_ROOT"),
        port=port,
        public_url=_url(environ, "PUBLIC_URL", "https://sluice.example.com") or f"http://127.0.0.1:{port}",
        trusted_proxies=_proxies(_text(environ, "TRUSTED_PROXIES") or "0"),
        lease_seconds=lease_seconds,
        heartbeat_seconds=heartbeat_seconds,
        monitor_seconds=monitor_seconds,
        email=email,
        webhook=webhook,
        _master_keys=_fernet_keys(_text(environ, "SLUICE_MASTER_KEYS"), "SLUICE_MASTER_KEYS"),
        _secret_key=_secret(_text(environ, "SLUICE_SECRET_KEY")),
    )


def local_master_key(var: Path) -> str:
    """The master key of this checkout, kept in `var/master.key` (0600) and made when it is not there.

    Only for `make run` and `make demo`: a key that lies beside the data it protects is no protection.
    """
    kept = var / "master.key"
    (key,) = _fernet_keys(_kept(kept, lambda: Fernet.generate_key().decode()) or "nothing", str(kept))
    return key


def local_secret_key(var: Path) -> str:
    """What signs the sessions of this checkout's console, kept in `var/secret.key` as above."""
    return _kept(var / "secret.key", lambda: secrets.token_urlsafe(48))


def _kept(kept: Path, make: Callable[[], str]) -> str:
    """The text of this file (0600), made when it is not there."""
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        handle, new = tempfile.mkstemp(dir=kept.parent, prefix=f"{kept.name}.")  # 0600
        try:
            with os.fdopen(handle, "w", encoding="ascii") as file:
                file.write(make())
            with contextlib.suppress(FileExistsError):  # another program was first: its key holds
                os.link(new, kept)
        finally:
            os.unlink(new)
    return kept.read_text(encoding="ascii").strip()


def _text(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name, "").strip()


def _folder(environ: Mapping[str, str], name: str) -> Path | None:
    text = _text(environ, name)
    if not text:
        return None
    folder = Path(text)
    if not folder.is_absolute():
        raise BadSetting(f"{name} is {text}: it must be an absolute path")
    return folder


def _database_url(text: str) -> str | None:
    if not text:
        return None
    scheme = _DATABASE_SCHEME.match(text)
    if not scheme:
        # Never the value itself: it may hold a password.
        begins = text.split("://", maxsplit=1)[0] if "://" in text else "something else"
        raise BadSetting(
            f"DATABASE_URL begins with {begins}: it must be postgresql://user:password@host/name"
        )
    url = "postgresql://" + text[scheme.end() :]
    # A password with a bare @ or / is read as a part of the host, and libpq's words about hosts are shown.
    server = text[scheme.end() :].partition("?")[0]
    is_ambiguous = server.count("@") > 1 or "@" in server.partition("/")[2]
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError:  # its own words can quote the password
        is_ambiguous = True
    if is_ambiguous:
        raise BadSetting(
            "DATABASE_URL cannot be read: it must be postgresql://user:password@host/name, "
            "with special characters of the password percent-encoded (@ is %40, / is %2F)"
        )
    return url


def _url(environ: Mapping[str, str], name: str, example: str) -> str | None:
    text = _text(environ, name)
    if not text:
        return None
    try:
        url = urlsplit(text)
        good = url.scheme in {"http", "https"} and bool(url.hostname) and not (url.query or url.fragment)
    except ValueError:
        good = False
    if not good:
        raise BadSetting(f"{name} is {text}: it must be like {example}")
    return text.rstrip("/")


def _proxies(text: str) -> int:
    if not re.fullmatch(r"[0-9]", text):
        raise BadSetting(f"TRUSTED_PROXIES is {text}: it must be a number from 0 to {_MOST_PROXIES}")
    return int(text)


def _secret(text: str) -> str:
    if text and len(text) < _LEAST_SECRET_LENGTH:
        raise BadSetting(
            f"SLUICE_SECRET_KEY has {len(text)} characters: it needs {_LEAST_SECRET_LENGTH} or more;"
            f" make it with {MAKE_A_SECRET}"
        )
    return text


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65535:  # noqa: PLR2004
        raise BadSetting(f"PORT is {text}: it must be a whole number from 1 to 65535")
    return int(text)


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    text = _text(environ, name)
    if not text:
        return default
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise BadSetting(f"{name} is {text}: it must be a number of seconds such as {default:g}")
    return seconds


def _alerts(environ: Mapping[str, str]) -> tuple[EmailSettings | None, WebhookSettings | None]:
    names = (*alert_settings.EMAIL, *alert_settings.WEBHOOK)
    texts = {name: _text(environ, name) for name in names}
    try:
        return alert_settings.email(texts), alert_settings.webhook(texts)
    except ValueError as error:
        raise BadSetting(str(error)) from None


def _fernet_keys(text: str, source: str) -> tuple[str, ...]:
    keys = tuple(key.strip() for key in text.split(",")) if text else ()
    for number, key in enumerate(keys, start=1):
        if not _FERNET_KEY.fullmatch(key):
            raise BadSetting(
                f"{source}: key {number} of {len(keys)} has {len(key)} characters and is no Fernet key "
                f"(44 characters, base64); make one with {MAKE_A_KEY}"
            )
    return keys
