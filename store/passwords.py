"""Passwords as they are kept: argon2id, and the same time for a person who is not there."""

from __future__ import annotations

from functools import cache

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError
from argon2.profiles import RFC_9106_LOW_MEMORY

LEAST_LENGTH = 12
MOST_LENGTH = 200

_hasher = PasswordHasher.from_parameters(RFC_9106_LOW_MEMORY)


class WeakPassword(ValueError):
    """The password is not taken; the text says what it must be."""


def hashed(password: str, email: str) -> str:
    """What to keep of a new password. Raises `WeakPassword`."""
    if not LEAST_LENGTH <= len(password) <= MOST_LENGTH:
        raise WeakPassword(f"A password has {LEAST_LENGTH} to {MOST_LENGTH} characters.")
    if len(set(password)) < 4 or password.lower() in (email, email.partition("@")[0]):  # noqa: PLR2004
        raise WeakPassword(
            "This password is too easy to guess. Take a few words that have nothing in common."
        )
    return _hasher.hash(password)


def matches(kept: str | None, password: str) -> bool:
    """Whether it is this password. None: nobody's; it takes as long as somebody's."""
    try:
        return _hasher.verify(kept or _of_nobody(), password[: MOST_LENGTH + 1]) and kept is not None
    except VerificationError:
        return False


@cache
def _of_nobody() -> str:
    return _hasher.hash("nobody has this password")
