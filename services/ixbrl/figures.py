"""What people print -> exact numbers, by the transformation registry of Inline XBRL.

Formats are matched by name without `-` and `_`, whatever registry version and prefix they come from:
`ixt2:numdotdecimal` and `ixt:num-dot-decimal` are one. https://www.xbrl.org/Specification/inlineXBRL-transformationRegistry/
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Context, Decimal
from functools import lru_cache
from typing import Final

DIGITS_ALLOWED: Final = 120
SCALE_ALLOWED: Final = 100
EXACT: Final = Context(prec=DIGITS_ALLOWED + 2 * SCALE_ALLOWED)

_PLAIN: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,2})?\Z")
_PRINTED: Final = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)\Z")
_GROUPS: Final = re.compile(r"[\s,'’`]")
_COMMA_GROUPS: Final = re.compile(r"[\s.'’`]")
_UNIT_DECIMAL: Final = re.compile(r"([0-9][0-9\s.,'’]*)[^0-9]+([0-9]{1,2})[^0-9]*\Z")
_ORNAMENTS: Final = re.compile(r"[£$€()\s+−-]")
_MINUS: Final = "-−("

_ZERO: Final = frozenset({"zerodash", "numdash", "fixedzero"})

Reading = tuple[Decimal | None, tuple[str, ...]]


@lru_cache(maxsize=512)
def transform_name(format_name: str) -> str:
    """`ixt4:num-dot-decimal` -> `numdotdecimal`."""
    return format_name.rpartition(":")[2].strip().lower().replace("-", "").replace("_", "")


def printed_number(text: str, format_name: str | None, scale: str | None, sign: str | None) -> Reading:
    """The value of an `ix:nonFraction` and flags; the value is None when it cannot be read.

    The tag's `sign` decides: a minus or brackets inside the text count only where there is none, flagged.
    """
    name = transform_name(format_name) if format_name else ""
    value, flags = _magnitude(text, name)
    if value is None:
        return None, flags
    if scale:
        value, flags = _scaled(value, scale, flags)
    if value is not None and sign == "-":
        value = value.copy_abs().copy_negate() if value else value
    return value, flags


def plain_number(text: str) -> Reading:
    """A number as XBRL instances write it: `-1234.50`, `1.5E3`."""
    text = text.strip()
    if not text:
        return None, ("empty",)
    if len(text) <= DIGITS_ALLOWED and _PLAIN.match(text):
        return Decimal(text), ()
    return None, ("not_a_number",)


def _magnitude(text: str, name: str) -> Reading:
    if name in _ZERO:
        return Decimal(0), ()
    if not text.strip():
        return None, ("empty",)
    if len(text) > 4 * DIGITS_ALLOWED:
        return None, ("not_a_number",)
    read = _READERS.get(name)
    if read is None:
        value, flags = _dotted(text)
        return value, ("unknown_transform", *flags) if name else flags
    return read(text)


def _scaled(value: Decimal, scale: str, flags: tuple[str, ...]) -> Reading:
    try:
        power = int(scale)
    except ValueError:
        return None, (*flags, "not_a_number")
    if abs(power) > SCALE_ALLOWED:
        return None, (*flags, "not_a_number")
    return value.scaleb(power, EXACT), flags


def _dotted(text: str) -> Reading:
    return _digits(_GROUPS.sub("", text))


def _commaed(text: str) -> Reading:
    return _digits(_COMMA_GROUPS.sub("", text).replace(",", "."))


def _digits(text: str) -> Reading:
    if _PRINTED.match(text) and len(text) <= DIGITS_ALLOWED:
        return Decimal(text), ()
    bare = _ORNAMENTS.sub("", text)
    if bare != text and _PRINTED.match(bare) and len(bare) <= DIGITS_ALLOWED:
        value = Decimal(bare)
        negative = any(mark in text for mark in _MINUS)
        return (value.copy_negate() if negative and value else value), ("lenient_number",)
    return None, ("not_a_number",)


def _united(text: str) -> Reading:
    """`5 pounds 25 pence`; without the smaller unit it is a plain number."""
    found = _UNIT_DECIMAL.match(text.strip())
    if not found:
        return _dotted(re.sub(r"[^0-9.,]", "", text))
    whole = re.sub(r"[^0-9]", "", found.group(1))
    return Decimal(f"{whole}.{found.group(2):0>2}"), ()


def _worded(text: str) -> Reading:
    value = number_in_words(text)
    return (None, ("not_a_number",)) if value is None else (Decimal(value), ())


_ONES: Final = {
    "no": 0, "none": 0, "nil": 0, "zero": 0, "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4,
    "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12,
    "thirteen": 13, "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18,
    "nineteen": 19,
}  # fmt: skip
_TENS: Final = {
    "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80,
    "ninety": 90,
}  # fmt: skip
_SMALL: Final = _ONES | _TENS
_LARGE: Final = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}


def number_in_words(text: str) -> int | None:
    """`one hundred and five thousand` -> 105000; None when a word is not a number's."""
    words = [word for word in re.split(r"[\s,\-‐‑–]+", text.strip().lower()) if word and word != "and"]
    if not words:
        return None
    total = group = 0
    for word in words:
        if word in _SMALL:
            group += _SMALL[word]
        elif word == "hundred":
            group = (group or 1) * 100
        elif word in _LARGE:
            total, group = total + (group or 1) * _LARGE[word], 0
        else:
            return None
    return total + group


_READERS: Final[dict[str, Callable[[str], Reading]]] = {
    "": _dotted,
    "numdotdecimal": _dotted,
    "numdotdecimalin": _dotted,
    "numdotdecimalapos": _dotted,
    "numcommadot": _dotted,
    "numspacedot": _dotted,
    "numcommadecimal": _commaed,
    "numcommadecimalapos": _commaed,
    "numcomma": _commaed,
    "numdotcomma": _commaed,
    "numspacecomma": _commaed,
    "numunitdecimal": _united,
    "numunitdecimalin": _united,
    "numunitdecimalapos": _united,
    "numwordsen": _worded,
}
