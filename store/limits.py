"""Limits as people write them: `600/5m`, `2000/day from 00:00 UTC`, `90000 tokens/m`, `5 at once`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from zoneinfo import ZoneInfo

UNITS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
UNITS |= {"d": 86400, "day": 86400}
UNITS |= {f"{name}s": seconds for name, seconds in UNITS.items() if len(name) > 1}
DAY_SECONDS = 86400
LONGEST_SECONDS = 366 * DAY_SECONDS
EXAMPLES = (
    "Write calls per time: 10/s, 600/5m, 2000/day. Also: 600/5m spread, 2000/day from 00:00 UTC,"
    " 90000 tokens/m, 5 at once"
)
AT_ONCE = re.compile(r"\s*(\d{1,9})\s+at\s+once\s*", re.IGNORECASE)
SHAPE = re.compile(
    r"\s*(?P<amount>\d{1,9})\s*(?P<kind>calls|tokens)?\s*/\s*(?P<count>\d{0,5})\s*(?P<unit>[a-z]+)"
    r"(?:\s+from\s+(?P<hour>[01]\d|2[0-3]):(?P<minute>[0-5]\d)\s+(?P<zone>[a-z0-9_+/-]{1,64}))?"
    r"(?P<spread>\s+spread)?\s*",
    re.IGNORECASE,
)

# Grains bound the log of a large limit: 100 entries instead of one per permit, for at most 1% of the window.
EXACT_AMOUNT = 100
GRAINS = 100

# Of a day that begins at a stated time the service's own clock says when that is, and clocks differ.
CLOCKS_DIFFER_SECONDS = 2.0

# Without a window nothing is late; only a permit that nobody used must not live for ever.
AT_ONCE_SECONDS = 3.0


class BadLimit(ValueError):
    """The text is no limit; the message shows what one looks like."""


class Kind(StrEnum):
    """What is counted."""

    CALLS = "calls"
    TOKENS = "tokens"
    AT_ONCE = "at_once"


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `amount` in any window of `per_seconds`, or at once (`per_seconds` is 0).

    `is_spread`: evenly, one after the other, instead of as soon as there is room. `from_minute` (of the day)
    and `zone` (an IANA name): not any 24 hours, but the day that begins then and there.
    """

    amount: int
    per_seconds: int
    kind: Kind = Kind.CALLS
    is_spread: bool = False
    from_minute: int | None = None
    zone: str | None = None

    @property
    def guard_seconds(self) -> float:
        """What the window is stretched by, for what happens between a permit and the service's clock."""
        if self.kind is Kind.AT_ONCE:
            return AT_ONCE_SECONDS
        if self.zone is not None:
            return CLOCKS_DIFFER_SECONDS
        return min(max(0.06, self.per_seconds * 0.01), 0.5)

    @property
    def grain_seconds(self) -> float:
        """0: every permit is logged with its own time; else times are rounded up to this."""
        return 0.0 if self.amount <= EXACT_AMOUNT or self.zone else self.per_seconds / GRAINS

    @property
    def span(self) -> str:
        """`5m`, `day`, and nothing for a limit of what runs at once."""
        for unit, seconds in (("day", DAY_SECONDS), ("h", 3600), ("m", 60), ("s", 1)):
            count, rest = divmod(self.per_seconds, seconds)
            if count and not rest:
                return unit if count == 1 else f"{count}{unit}"
        return ""

    @property
    def unit(self) -> str:
        """What is counted, as people say it."""
        return "slots" if self.kind is Kind.AT_ONCE else str(self.kind)

    @property
    def manner(self) -> str:
        """What is said after amount and span: ` from 00:00 UTC`, ` spread`, or nothing."""
        start = "" if self.from_minute is None else " from {:02}:{:02} ".format(*divmod(self.from_minute, 60))
        return f"{start}{self.zone or ''}{' spread' if self.is_spread else ''}"

    def __str__(self) -> str:
        if self.kind is Kind.AT_ONCE:
            return f"{self.amount} at once"
        what = " tokens" if self.kind is Kind.TOKENS else ""
        return f"{self.amount}{what}/{self.span}{self.manner}"


def parse(text: str) -> Limit:
    """Read a limit; see `EXAMPLES`. Raises `BadLimit`."""
    if at_once := AT_ONCE.fullmatch(text):
        return _checked(text, Limit(int(at_once[1]), 0, Kind.AT_ONCE))
    found = SHAPE.fullmatch(text)
    unit = UNITS.get(found["unit"].lower()) if found else None
    if found is None or unit is None:
        raise BadLimit(f"“{text}” is not a limit. {EXAMPLES}")
    per_seconds = int(found["count"] or 1) * unit
    if per_seconds == 0:
        raise BadLimit(f"“{text}” would allow nothing. {EXAMPLES}")
    limit = Limit(
        int(found["amount"]),
        per_seconds,
        Kind((found["kind"] or "calls").lower()),
        is_spread=found["spread"] is not None,
        from_minute=int(found["hour"]) * 60 + int(found["minute"]) if found["zone"] else None,
        zone=_zone(text, found["zone"]) if found["zone"] else None,
    )
    return _checked(text, limit)


def _checked(text: str, limit: Limit) -> Limit:
    if limit.amount == 0:
        raise BadLimit(f"“{text}” would allow nothing. {EXAMPLES}")
    if limit.per_seconds > LONGEST_SECONDS:
        raise BadLimit(f"“{text}” counts over more than a year. {EXAMPLES}")
    if limit.zone is not None and limit.per_seconds != DAY_SECONDS:
        raise BadLimit(f"“{text}” begins at a time of the day and is not per day. {EXAMPLES}")
    return limit


def _zone(text: str, name: str) -> str:
    if name.upper() == "UTC":  # known where no time zones are installed
        return "UTC"
    try:
        return ZoneInfo(name).key
    except (KeyError, ValueError, OSError):
        raise BadLimit(
            f"“{text}”: “{name}” is no time zone. Write UTC, or one such as Europe/London"
        ) from None
