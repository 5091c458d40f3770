"""When a list may start and is due, and how old its answers may be, from what people write. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from webapp.uploads import NotUsable

UNITS = {"d": 86_400, "h": 3_600, "m": 60}
LONGEST_DAYS = 3_650


def moment(what: str, text: str) -> datetime:
    """`2026-12-24 18:00`, `2026-12-24T18:00+01:00`: UTC unless it says otherwise. Raises `NotUsable`."""
    try:
        at = datetime.fromisoformat(text.strip())
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise NotUsable(
            f"{what} is “{text}”: it must be a time such as 2026-12-24T18:00 (UTC) or 2026-12-24T18:00+01:00."
        ) from None


def seconds(what: str, text: str) -> int:
    """Seconds of `7d`, `12h` or `30m`, at most ten years; 0 of `0`. Raises `NotUsable`."""
    found = re.fullmatch(r"([0-9]{1,7})([dhm])|0+", text.strip())
    length = int(found[1]) * UNITS[found[2]] if found and found[1] else 0
    if not found or length > LONGEST_DAYS * UNITS["d"]:
        raise NotUsable(
            f"{what} is “{text}”: it must be a time such as 7d, 12h or 30m, at most {LONGEST_DAYS}d."
        )
    return length


def keep_days(what: str, text: str) -> int:
    """Whole days of `90d`, at least one. Raises `NotUsable`."""
    days, rest = divmod(seconds(what, text), UNITS["d"])
    if days < 1 or rest:
        raise NotUsable(f"{what} is “{text}”: it must be whole days such as 90d, at least 1d.")
    return days


def problem(start_at: datetime | None, due_by: datetime | None, now: datetime) -> str | None:
    """What is wrong with these two moments together, as a sentence; None: nothing."""
    if due_by is None:
        return None
    if due_by <= now:
        return "A list cannot be due in the past."
    if start_at is not None and due_by <= start_at:
        return "A list must be due after its start."
    return None


def columns(
    start_at: str | None, due_by: str | None, reuse: str | None, keep: str | None, now: datetime
) -> dict[str, Any]:
    """What options of `flask lists import` ask of a new list, by field of `NewList`. Raises `NotUsable`."""
    asked: dict[str, Any] = {}
    if start_at is not None:
        asked["start_at"] = moment("--start-at", start_at)
    if due_by is not None:
        asked["due_by"] = moment("--due-by", due_by)
    if reuse is not None:
        asked["reuse_seconds"] = seconds("--reuse", reuse)
    if keep is not None:
        asked["keep_days"] = keep_days("--keep", keep)
    if wrong := problem(asked.get("start_at"), asked.get("due_by"), now):
        raise NotUsable(wrong)
    return asked
