"""How numbers and spans of time are written, the same in every place. Pure."""

from __future__ import annotations

import re
from itertools import pairwise

from store.limits import Kind, Limit

SHORTEST_UNITS = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))
UNKNOWN = "–"


def count(n: float) -> str:
    """`12,480`."""
    return f"{n:,.0f}"


def tile(n: int) -> str:
    """A count for a tile, where it is large: `12,480`, and `1.24 M` above 999,999."""
    if n < 1_000_000:  # noqa: PLR2004
        return count(n)
    for size, unit in ((1e9, "bn"), (1e6, "M")):
        if n >= size:
            return f"{int(n / size * 100) / 100:.2f} {unit}"
    raise AssertionError(n)


def percent(part: float, whole: float) -> str:
    """`44.5%`; `100%` only of all, `<0.1%` of almost none; `–` of nothing."""
    if whole <= 0:
        return UNKNOWN
    if part <= 0:
        return "0%"
    if part >= whole:
        return "100%"
    share = 100 * part / whole
    return "<0.1%" if share < 0.1 else f"{min(share, 99.9):.1f}%"  # noqa: PLR2004


def duration(seconds: float) -> str:
    """Two units at most: `850 ms`, `3.4 s`, `42 s`, `4 m 05 s`, `2 h 31 m`, `3 d 4 h`."""
    if seconds < 0.9995:  # noqa: PLR2004
        return f"{max(seconds, 0) * 1000:.0f} ms"
    if seconds < 9.95:  # noqa: PLR2004
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for (size, unit), (smaller, smaller_unit) in pairwise(SHORTEST_UNITS):
        if whole >= size:
            rest = whole % size // smaller
            return f"{whole // size} {unit} {rest if unit == 'd' else f'{rest:02}'} {smaller_unit}"
    return f"{whole} s"


def span(seconds: float) -> str:
    """How long something will take, no finer than it can be known: `under a minute`, `9 m`, `1 h 05 m`."""
    if seconds < 60:  # noqa: PLR2004
        return "under a minute"
    minutes = round(seconds / 60)
    if minutes < 60:  # noqa: PLR2004
        return f"{minutes} m"
    if minutes < 1440:  # noqa: PLR2004
        return duration(_stepped(minutes, 5) * 60)
    return duration(_stepped(minutes, 60) * 60)


def _stepped(minutes: int, step: int) -> int:
    return round(minutes / step) * step


def rate(per_minute: float) -> str:
    """`94/min`; `2.4/s` above 600 a minute, `38/h` below one; `–` when nothing moves."""
    if per_minute <= 0:
        return UNKNOWN
    if per_minute >= 600:  # noqa: PLR2004
        per_second = per_minute / 60
        return f"{per_second:,.0f}/s" if per_second >= 100 else f"{per_second:.1f}/s"  # noqa: PLR2004
    if per_minute >= 1:
        return f"{per_minute:.0f}/min"
    return f"{max(per_minute * 60, 1):.0f}/h"


def size(n_bytes: float) -> str:
    """`850 B`, `14 KB`, `1.3 MB`; a thousand of one is one of the next."""
    for unit in ("B", "KB", "MB", "GB"):
        if n_bytes < 999.5 or unit == "GB":  # noqa: PLR2004
            digits = 1 if unit in ("MB", "GB") and n_bytes < 99.95 else 0  # noqa: PLR2004
            return f"{n_bytes:,.{digits}f} {unit}"
        n_bytes /= 1000
    raise AssertionError(n_bytes)


def limit(of: Limit) -> str:
    """A limit as people read it: `600 / 5 m`, `8 / s spread`, `2,000 / day from 00:00 UTC`, `5 at once`."""
    if of.kind is Kind.AT_ONCE:
        return f"{count(of.amount)} at once"
    what = " tokens" if of.kind is Kind.TOKENS else ""
    span = re.sub(r"(\d+)", r"\1 ", of.span)
    return f"{count(of.amount)}{what} / {span}{of.manner}"


def counted(n: int, one: str, many: str | None = None) -> str:
    """`1 job`, `212 jobs`, `2 companies`."""
    return f"{count(n)} {one if n == 1 else many or one + 's'}"
