"""How the monitor words numbers, times and names: one line, no surprises."""

from __future__ import annotations

from datetime import UTC, datetime

from services.registry import SERVICES

LONGEST_NAME = 80


def count(n: int, noun: str) -> str:
    """`1 job`, `7,412 jobs`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def duration(seconds: float) -> str:
    """`40 s`, `12 min`, `3 h 20 min`, `2 d 4 h`; never negative."""
    whole = int(max(seconds, 0.0))
    if whole < 60:  # noqa: PLR2004 - a minute
        return f"{whole} s"
    minutes = whole // 60
    if minutes < 60:  # noqa: PLR2004 - an hour
        return f"{minutes} min"
    hours = minutes // 60
    if hours < 24:  # noqa: PLR2004 - a day
        return f"{hours} h {minutes % 60} min" if minutes % 60 else f"{hours} h"
    return f"{hours // 24} d {hours % 24} h" if hours % 24 else f"{hours // 24} d"


def moment(at: datetime) -> str:
    """`2026-03-05 14:32 UTC`."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def one_line(text: str, longest: int) -> str:
    """The text with every run of blanks, line breaks and other control characters as one blank, cut."""
    flat = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return flat if len(flat) <= longest else flat[: longest - 1] + "…"


def quoted(name: str) -> str:
    """A name that somebody chose, in quotes."""
    return f"“{one_line(name, LONGEST_NAME)}”"


def titled(service: str) -> str:
    """A service as people know it: `Companies House`."""
    known = SERVICES.get(service)
    return known.title if known else one_line(service, LONGEST_NAME)


def because(reason: str | None) -> str:
    """`: what was said`, or nothing."""
    said = one_line(reason or "", 200)
    return f": {said}" if said else ""
