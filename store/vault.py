"""Secrets at rest: encrypted with master keys that can be rotated, known by a fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from cryptography.fernet import Fernet, InvalidToken, MultiFernet

LOCKED = (
    "A key's secret was sealed with a master key that is not in SLUICE_MASTER_KEYS."
    " Add that master key to the end of the list."
)


class Locked(RuntimeError):
    """None of the master keys opens this secret; the text says what to do."""


class Vault:
    """Encrypts with the first master key, opens with any of them."""

    def __init__(self, master_keys: Sequence[str]) -> None:
        self._keys = MultiFernet([Fernet(key) for key in master_keys])

    def seal(self, secret: str) -> bytes:
        """The secret, encrypted and authenticated."""
        return self._keys.encrypt(secret.encode())

    def open(self, sealed: bytes) -> str:
        """The secret. Raises `Locked`."""
        try:
            return self._keys.decrypt(sealed).decode()
        except InvalidToken:
            raise Locked(LOCKED) from None

    def reseal(self, sealed: bytes) -> bytes:
        """The same secret, encrypted with the first master key. Raises `Locked`."""
        try:
            return self._keys.rotate(sealed)
        except InvalidToken:
            raise Locked(LOCKED) from None


def fingerprint(secret: str) -> str:
    """Twelve hex digits that tell secrets apart and give none away; people are shown the last four."""
    return hashlib.sha256(b"sluice key:" + secret.encode()).hexdigest()[:12]
