"""JSON read exactly, and what one answer may cost: a few megabytes can be made to mean gigabytes.

Real answers stay far below the limit. What exceeds it is refused with a sentence, before the work is done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

BYTES_ALLOWED: Final = 220_000_000
"""Of memory, as it is reckoned here; the largest real answers, of some 10 MB, take half of it."""
MOST_POWER: Final = 400
"""Of ten. Wider numbers than a float's mean nothing, and written out they fill a disk."""

_OBJECT, _ARRAY, _ITEM, _QUOTE, _MEMBER, _NEW_KEY, _DECIMAL = 190, 60, 40, 25, 40, 120, 104
"""Bytes of an object, an array, an item with a small number in it, half a text, a place in an object, a key
that no other object has, a decimal."""
_WIDEST: Final = 4
"""Bytes of each character of a text in which one is rare."""


def loads(
    body: bytes,
    object_hook: Callable[[dict[str, Any]], Any] | None = None,
    usual_keys: Sequence[str] = (),
) -> Any:
    """The JSON with every number exact: `Decimal` for fractions, None for what is beyond any use.

    `usual_keys`: those that objects of such an answer share. Raises `ValueError`: no JSON, or too costly.
    """
    left = BYTES_ALLOWED - _needed(body, usual_keys)

    def exact(text: str) -> Decimal | None:
        nonlocal left
        left -= _DECIMAL + len(text)
        if left < 0:
            raise ValueError(_too_costly())
        return _decimal(text)

    if left < 0:
        raise ValueError(_too_costly())
    try:
        return json.loads(body, parse_float=exact, parse_constant=_nothing, object_hook=object_hook)
    except RecursionError:
        raise ValueError("the JSON is nested too deep") from None


def _needed(body: bytes, usual_keys: Sequence[str]) -> int:
    """Bytes of memory at most, by counting what it is made of; decimals are counted as they come."""
    members = body.count(b":")
    needed = (
        len(body) * (1 + 2 * (1 if body.isascii() else _WIDEST))  # as it came, decoded, in texts
        + _OBJECT * body.count(b"{")
        + _ARRAY * body.count(b"[")
        + _ITEM * body.count(b",")
        + _QUOTE * body.count(b'"')
        + _MEMBER * members
    )
    if needed + _NEW_KEY * members <= BYTES_ALLOWED:
        return needed + _NEW_KEY * members
    usual = sum(body.count(f'"{key}"'.encode()) for key in usual_keys)
    return needed + _NEW_KEY * max(members - usual, 0)


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if abs(number.adjusted()) <= MOST_POWER else None


def _nothing(_name: str) -> None:
    """What NaN and Infinity mean, which are no JSON and in no figure."""


def _too_costly() -> str:
    return f"it would take more than the {BYTES_ALLOWED // 1_000_000} MB of memory allowed"
