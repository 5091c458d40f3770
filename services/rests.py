"""How long an answer asks to wait, whatever header family it uses."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

LONGEST_SECONDS: Final = 86_400.0
"""A longer wait is a slip (milliseconds for seconds, another century); after a day it is asked again."""

_EPOCH_FROM: Final = 1e9
_EPOCH_MILLISECONDS_FROM: Final = 1e12
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|[dhms])")
_SECONDS_IN: Final = {
    "d": 86_400.0,
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "ns": 1e-9,
}
_BUDGETS: Final = ("requests", "tokens", "input-tokens", "output-tokens")


def rest_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait, 0 to a day; None when no header says. `now` in epoch seconds, header names lower case.

    The most direct wins: `retry-after-ms`, `retry-after` (seconds or an HTTP date, RFC 9110 10.2.3),
    `ratelimit-reset` and `x-ratelimit-reset` (seconds, or epoch seconds as of Companies House), then the
    longest of `x-ratelimit-reset-requests` and `-tokens` (`6m0s`, `20ms`) whose budget is used up.
    """
    asked = _first(
        _scaled(_number(headers.get("retry-after-ms")), 1e-3),
        _seconds_or_date(headers.get("retry-after"), now),
        _seconds_or_epoch(headers.get("ratelimit-reset"), now),
        _seconds_or_epoch(headers.get("x-ratelimit-reset"), now),
        _budgets(headers),
    )
    return None if asked is None else min(max(asked, 0.0), LONGEST_SECONDS)


def duration_seconds(text: str | None) -> float | None:
    """`6m0s`, `20ms`, `1h2m3.5s` or plain seconds; None when it is none of them."""
    if text is None:
        return None
    text = text.strip().lower()
    parts = _PART.findall(text)
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        return _number(text)
    total = sum(float(amount) * _SECONDS_IN[unit] for amount, unit in parts)
    return total if math.isfinite(total) else None


def _first(*found: float | None) -> float | None:
    return next((seconds for seconds in found if seconds is not None), None)


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _scaled(number: float | None, factor: float) -> float | None:
    return None if number is None else number * factor


def _seconds_or_date(text: str | None, now: float) -> float | None:
    if text is None:
        return None
    seconds = _number(text)
    if seconds is not None:
        return seconds
    try:
        return parsedate_to_datetime(text).timestamp() - now
    except (ValueError, TypeError, OverflowError, IndexError, OSError):
        return None


def _seconds_or_epoch(text: str | None, now: float) -> float | None:
    number = duration_seconds(text)
    if number is None or number < _EPOCH_FROM:
        return number
    return (number / 1000 if number >= _EPOCH_MILLISECONDS_FROM else number) - now


def _budgets(headers: Mapping[str, str]) -> float | None:
    resets = {name: duration_seconds(headers.get(f"x-ratelimit-reset-{name}")) for name in _BUDGETS}
    known = {name: seconds for name, seconds in resets.items() if seconds is not None}
    used_up = [
        seconds
        for name, seconds in known.items()
        if _number(headers.get(f"x-ratelimit-remaining-{name}")) == 0
    ]
    return max(used_up or known.values(), default=None)
