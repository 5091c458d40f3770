"""What a new key is when little is said: its account, its limits, and what is wrong with its secret. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence

from services.service import Service
from store import limits
from store.keys import KeySeen
from store.limits import Limit

SHARED = "all keys"
LONGEST_SECRET = 10_000


def default_account(service: Service, there: Sequence[KeySeen]) -> str | None:
    """The account of a new key when none is named: its own, or where limits hold for all keys, theirs."""
    if not service.shared_limits:
        return None
    return there[0].account if there else SHARED


def usual_limits(service: Service, there: Sequence[KeySeen], account: str | None) -> list[Limit]:
    """The limits of a new key when none are given: its account's, else the usual ones of the service."""
    for key in there:
        if key.account == account:
            return key.limits
    return [limits.parse(text) for text in service.limits]


def above_usual(chosen: Sequence[Limit], service: Service) -> Limit | None:
    """The usual limit of the service that the chosen ones together would allow to be passed; None: none."""
    for usual in (limits.parse(text) for text in service.limits):
        calls = min(one.amount * math.ceil(usual.per_seconds / one.per_seconds) for one in chosen)
        if calls > usual.amount:
            return usual
    return None


def wrong_with(secret: str, service: Service) -> str | None:
    """What is wrong with a secret, in words that do not hold it; None when it may be one."""
    if not secret:
        return "The secret is empty."
    if len(secret) > LONGEST_SECRET:
        return f"The secret is longer than {LONGEST_SECRET:,} characters."
    return service.check_secret(secret)
