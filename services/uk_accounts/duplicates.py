"""One value where a filing states the same thing more than once."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from services.ixbrl import Fact

EXACTLY: Final = 10_000
"""`decimals="INF"`."""
UNKNOWN: Final = -EXACTLY


def agree(facts: Sequence[Fact]) -> tuple[Fact, tuple[str, ...]]:
    """The fact to keep: the most precise, the first of equals. Flagged when the others contradict it."""
    kept = max(facts, key=precision)
    contradicted = any(not _compatible(kept, other) for other in facts)
    return kept, ("inconsistent_duplicate",) if contradicted else ()


def precision(fact: Fact) -> int:
    """The number of decimal places a fact claims to be right to."""
    decimals = (fact.decimals or "").strip()
    if decimals == "INF":
        return EXACTLY
    try:
        return max(-99, min(int(decimals), 99))
    except ValueError:
        return UNKNOWN


def _compatible(kept: Fact, other: Fact) -> bool:
    """Equal, or different only by what the other's coarser rounding explains."""
    if kept.value == other.value and kept.unit == other.unit:
        return True
    places = precision(other)
    if kept.unit != other.unit or places in (EXACTLY, UNKNOWN) or places == precision(kept):
        return False
    if not isinstance(kept.value, Decimal) or not isinstance(other.value, Decimal):
        return False
    return abs(kept.value - other.value) <= Decimal(1).scaleb(-places) / 2
