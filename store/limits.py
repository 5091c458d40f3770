"""Limits as people write them: `600/5m`, `10/s`, `2000/day`."""

from __future__ import annotations

import re
from dataclasses import dataclass

UNITS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}
UNITS |= {"d": 86400, "day": 86400}
UNITS |= {f"{name}s": seconds for name, seconds in UNITS.items() if len(name) > 1}
LONGEST_SECONDS = 366 * 86400
EXAMPLES = "Write calls per time: 10/s, 600/5m, 2000/day"
SHAPE = re.compile(r"\s*(\d{1,9})\s*(?:calls)?\s*/\s*(\d{0,5})\s*([a-z]+)\s*", re.IGNORECASE)

# Grains bound the log of a large limit: 100 entries instead of one per permit, for at most 1% of the window.
EXACT_AMOUNT = 100
GRAINS = 100


class BadLimit(ValueError):
    """The text is no limit; the message shows what one looks like."""


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `amount` calls in any window of `per_seconds`."""

    amount: int
    per_seconds: int

    @property
    def guard_seconds(self) -> float:
        """What the window is stretched by, for what happens between a permit and the service's clock."""
        return min(max(0.06, self.per_seconds * 0.01), 0.5)

    @property
    def grain_seconds(self) -> float:
        """0: every permit is logged with its own time; else times are rounded up to this."""
        return 0.0 if self.amount <= EXACT_AMOUNT else self.per_seconds / GRAINS

    def __str__(self) -> str:
        for unit, seconds in (("day", 86400), ("h", 3600), ("m", 60), ("s", 1)):
            if self.per_seconds % seconds == 0:
                count = self.per_seconds // seconds
                return f"{self.amount}/{'' if count == 1 else count}{unit}"
        raise AssertionError(self.per_seconds)


def parse(text: str) -> Limit:
    """Read `600/5m` (also `10/s`, `300/min`, `2000/day`). Raises `BadLimit`."""
    found = SHAPE.fullmatch(text)
    unit = UNITS.get(found[3].lower()) if found else None
    if found is None or unit is None:
        raise BadLimit(f"“{text}” is not a limit. {EXAMPLES}")
    limit = Limit(int(found[1]), int(found[2] or 1) * unit)
    if limit.amount == 0 or limit.per_seconds == 0:
        raise BadLimit(f"“{text}” would allow nothing. {EXAMPLES}")
    if limit.per_seconds > LONGEST_SECONDS:
        raise BadLimit(f"“{text}” counts over more than a year. {EXAMPLES}")
    return limit
