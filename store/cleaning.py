"""Data that Postgres takes as it is: no NUL, no lone surrogate, no number that is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from functools import lru_cache
from json.encoder import encode_basestring
from typing import Any

MAX_TEXT = 100_000
MAX_MESSAGE = 2000
MAX_REQUEST = 4000
MAX_EXPONENT = 100
MAX_DIGITS = 200


class Unstorable(ValueError):
    """A value cannot be stored; the text names it."""


def text(value: str, longest: int = MAX_TEXT) -> str:
    """The text without NUL, with lone surrogates replaced, cut after `longest` characters."""
    if len(value) > longest:
        value = value[: longest - 1] + "…"
    if "\x00" in value:
        value = value.replace("\x00", "")
    if value.isascii():
        return value
    try:
        value.encode()
    except UnicodeEncodeError:
        value = value.encode(errors="replace").decode()
    return value


def to_json(value: Any) -> str:
    """JSON text for a jsonb column; decimals exact, dates as ISO text. Raises `Unstorable`."""
    try:
        return _json(value)
    except RecursionError:
        raise Unstorable("a value is nested too deeply to be stored") from None


def _json(value: Any) -> str:
    match value:
        case str():
            return encode_basestring(text(value))
        case dict():
            return "{" + ",".join([_name(name) + _json(item) for name, item in value.items()]) + "}"
        case None | bool():
            return json.dumps(value)
        case int() | Decimal():
            return _number(Decimal(value))
        case date():
            return f'"{value.isoformat()}"'
        case list() | tuple():
            return "[" + ",".join(map(_json, value)) + "]"
        case Mapping():
            return _json(dict(value))
        case _:
            raise Unstorable(
                f"{value!r:.80} is a {type(value).__name__}; text, whole or decimal number expected"
            )


@lru_cache(maxsize=1000)
def _name(name: object) -> str:
    """All jobs of a list have the same names."""
    return f"{encode_basestring(text(str(name)))}:"


def _number(value: Decimal) -> str:
    """Plain digits: no exponent, no zeros after the last decimal."""
    if (
        not value.is_finite()
        or abs(value.adjusted()) > MAX_EXPONENT
        or len(value.as_tuple().digits) > MAX_DIGITS
    ):
        raise Unstorable(f"{value!s:.40} is no number that can be stored")
    plain = format(value, "f")
    return plain.rstrip("0").rstrip(".") if "." in plain else plain
