"""How services write a span of time or a moment in a header, in seconds from now."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

_EPOCH_FROM: Final = 1e9
_EPOCH_MILLISECONDS_FROM: Final = 1e12
_PART: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|us|µs|ns|[dhms])", re.ASCII)
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


def number(text: str | None) -> float | None:
    """A finite number, or None."""
    try:
        found = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def duration_seconds(text: str | None) -> float | None:
    """`6m0s`, `20ms`, `1h2m3.5s` or plain seconds; None when it is none of them."""
    if text is None:
        return None
    text = text.strip().lower()
    parts = _PART.findall(text)
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        return number(text)
    total = sum(float(amount) * _SECONDS_IN[unit] for amount, unit in parts)
    return total if math.isfinite(total) else None


def seconds_until(text: str | None, now: float) -> float | None:
    """From `now`, in epoch seconds, to a moment; negative when it has passed; None when it is no moment.

    It may be a duration, epoch seconds or milliseconds, an HTTP date (RFC 9110 5.6.7) or ISO 8601.
    """
    found = duration_seconds(text)
    if found is None:
        return date_seconds(text, now)
    if found < _EPOCH_FROM:
        return found
    return (found / 1000 if found >= _EPOCH_MILLISECONDS_FROM else found) - now


def date_seconds(text: str | None, now: float) -> float | None:
    """The same for dates alone; ISO without an offset is UTC."""
    if text is None:
        return None
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text.strip())
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now
        except (ValueError, TypeError, OverflowError, IndexError, OSError):
            continue
    return None
