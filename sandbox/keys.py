"""Keys: who may call, under which limits, and how a request shows its key."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.limits import Limit, parse_limit

SERVICES = ("companies_house", "sec_edgar")
SEC_DEFAULT = parse_limit("10/s")
_TELLTALE_CHARACTERS = 8


class BadKeys(ValueError):
    """The keys as given cannot be used; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Key:
    """A credential of a service. Keys of one account share its limits."""

    service: str
    secret: str
    account: str
    limits: tuple[Limit, ...]
    label: str


class Unauthorised(Exception):
    """The request shows no key (`is_missing`) or one that the service does not know."""

    def __init__(self, is_missing: bool) -> None:
        super().__init__("no key" if is_missing else "unknown key")
        self.is_missing = is_missing


class Keyring:
    """All keys of all services. Raises `BadKeys` when two contradict each other."""

    def __init__(self, keys: Iterable[Key]) -> None:
        self._anybody = Key("sec_edgar", "", "ip", (SEC_DEFAULT,), "ip")
        self.keys = [*keys, self._anybody]
        self._by_secret = {(key.service, key.secret): key for key in self.keys}
        if len(self._by_secret) < len(self.keys) or len({key.label for key in self.keys}) < len(self.keys):
            raise BadKeys("two keys have the same secret or the same label")
        limits: dict[tuple[str, str], tuple[Limit, ...]] = {}
        for key in self.keys:
            if limits.setdefault((key.service, key.account), key.limits) != key.limits:
                raise BadKeys(
                    f"the keys of account {key.account!r} have different limits; they share one set"
                )

    def find(self, service: str, headers: Mapping[str, str]) -> Key:
        """The key that the request shows. Raises `Unauthorised`."""
        return self._sec(headers) if service == "sec_edgar" else self._companies_house(headers)

    def _companies_house(self, headers: Mapping[str, str]) -> Key:
        scheme, _, encoded = headers.get("authorization", "").partition(" ")
        if not encoded:
            raise Unauthorised(is_missing=True)
        try:
            user = base64.b64decode(encoded.strip(), validate=True).decode().partition(":")[0]
        except (binascii.Error, UnicodeDecodeError):
            user = ""
        key = self._by_secret.get(("companies_house", user))
        if key is None or scheme.lower() != "basic":
            raise Unauthorised(is_missing=False)
        return key

    def _sec(self, headers: Mapping[str, str]) -> Key:
        identity = headers.get("user-agent", "").strip()
        key = self._by_secret.get(("sec_edgar", identity)) if identity else None
        if key is None and "@" not in identity:
            raise Unauthorised(is_missing=not identity)
        return key or self._anybody


def read_keys(path: Path) -> list[Key]:
    """Keys of a JSON file: `[{"service", "secret", "limits": ["600/5m"], "account"?, "label"?}]`."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return [_key(entry, place) for place, entry in enumerate(entries, 1)]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadKeys(f"keys of {path}: {type(error).__name__}: {error}") from error


def parse_key(text: str, place: int) -> Key:
    """`service:secret[@account]:limit[,limit]`; the @ of an SEC identity belongs to the identity."""
    service, _, rest = text.partition(":")
    secret, _, limits = rest.rpartition(":")
    entry: dict[str, Any] = {"service": service, "secret": secret, "limits": limits.split(",")}
    if service != "sec_edgar" and "@" in secret:
        entry["secret"], _, entry["account"] = secret.rpartition("@")
    try:
        return _key(entry, place)
    except ValueError as error:
        raise BadKeys(f"key {place}: {error}; write service:secret[@account]:limit[,limit]") from error


def fingerprint(secret: str) -> str:
    """The last four characters, or nothing of a secret that is too short to show any."""
    return f"…{secret[-4:]}" if len(secret) >= _TELLTALE_CHARACTERS else "…"


def _key(entry: Mapping[str, Any], place: int) -> Key:
    service, secret = str(entry["service"]), str(entry["secret"]).strip()
    if service not in SERVICES:
        raise ValueError(f"{service!r} is no service of the sandbox ({', '.join(SERVICES)})")
    if not secret:
        raise ValueError("the secret is empty")
    limits = tuple(parse_limit(limit) for limit in entry["limits"])
    if not limits:
        raise ValueError("there is no limit")
    account = str(entry.get("account") or f"account-{place}")
    label = str(entry.get("label") or f"{account}/{fingerprint(secret)}")
    return Key(service, secret, account, limits, label)
