"""How long an answer asks to wait, and what it says is left, whatever header family it uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from services.moments import date_seconds, duration_seconds, number, seconds_until

LONGEST_SECONDS: Final = 86_400.0
"""A longer wait is a slip (milliseconds for seconds, another century); after a day it is asked again."""

_MOST_LEFT: Final = 2_000_000_000
_PAIRS: Final = (
    ("ratelimit-remaining", "ratelimit-reset"),
    ("x-ratelimit-remaining", "x-ratelimit-reset"),
    ("x-ratelimit-remain", "x-ratelimit-reset"),
    ("x-rate-limit-remaining", "x-rate-limit-reset"),
)
_KINDS: Final = ("requests", "tokens", "input-tokens", "output-tokens")
_PARAMETER: Final = re.compile(r'(?:^|[;,\s])(\w+)\s*=\s*"?([^";,\s]+)')
_NAME: Final = re.compile(r'\s*"?([^";,=\s]+)"?\s*(?:;|$)')


class Unit(StrEnum):
    """What a budget is counted in."""

    CALLS = "calls"
    TOKENS = "tokens"


@dataclass(frozen=True, slots=True)
class Budget:
    """What the service says is left for the account: so many until `reset_seconds` from now, 0 to a day."""

    unit: Unit
    left: int
    reset_seconds: float


def rest_seconds(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait, 0 to a day; None when no header says. `now` in epoch seconds, header names lower case.

    The most direct wins: `retry-after-ms`, `retry-after` (seconds or an HTTP date, RFC 9110 10.2.3), the
    longest reset of a used-up budget, then any reset that is told.
    """
    asked = _first(
        _scaled(number(headers.get("retry-after-ms")), 1e-3),
        _seconds_or_date(headers.get("retry-after"), now),
        max((one.reset_seconds for one in budgets(headers, now) if one.left == 0), default=None),
        *(seconds_until(headers.get(reset), now) for _, reset in _PAIRS),
        max(_structured_resets(headers), default=None),
        max((s for kind in _KINDS if (s := _reset_of(headers, kind, now)) is not None), default=None),
    )
    return None if asked is None else _bounded(asked)


def budgets(headers: Mapping[str, str], now: float) -> list[Budget]:
    """What is left until when, of every budget whose reset is told. `now` as in `rest_seconds`.

    Read are `ratelimit` (IETF draft, structured or `remaining=…, reset=…`), `ratelimit-remaining`,
    `x-ratelimit-remaining` and `-remain` (Companies House) beside their `-reset`, which may be seconds, a
    duration, epoch seconds or a date, and `x-ratelimit-remaining-requests` and `-tokens` (`6m0s`, `88ms`).
    """
    return [*_structured(headers), *_pairs(headers, now), *_kinds(headers, now)]


def _pairs(headers: Mapping[str, str], now: float) -> Iterator[Budget]:
    for left, reset in _PAIRS:
        yield from _budget(Unit.CALLS, headers.get(left), seconds_until(headers.get(reset), now))


def _kinds(headers: Mapping[str, str], now: float) -> Iterator[Budget]:
    for kind in _KINDS:
        unit = Unit.CALLS if kind == "requests" else Unit.TOKENS
        yield from _budget(unit, headers.get(f"x-ratelimit-remaining-{kind}"), _reset_of(headers, kind, now))


def _structured(headers: Mapping[str, str]) -> Iterator[Budget]:
    """Source: draft-ietf-httpapi-ratelimit-headers. Without a `t` the policy's window bounds it."""
    policies = dict(_items(headers.get("ratelimit-policy", "")))
    for name, said in _items(headers.get("ratelimit", "")):
        policy = policies.get(name, {})
        if policy.get("qu", "requests") == "requests":
            reset = said.get("t", said.get("reset", policy.get("w")))
            yield from _budget(Unit.CALLS, said.get("r", said.get("remaining")), duration_seconds(reset))


def _structured_resets(headers: Mapping[str, str]) -> Iterator[float]:
    for _, said in _items(headers.get("ratelimit", "")):
        seconds = duration_seconds(said.get("t", said.get("reset")))
        if seconds is not None:
            yield seconds


def _items(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Names with their parameters; a list of parameters alone (`limit=9, remaining=1`) is one item."""
    parts = text.split(",")
    if any(";" in part for part in parts):
        for part in parts:
            name = _NAME.match(part)
            yield name[1] if name else "", dict(_PARAMETER.findall(part))
    elif text:
        yield "", dict(_PARAMETER.findall(text))


def _budget(unit: Unit, left: str | None, reset: float | None) -> Iterator[Budget]:
    found = number(left)
    if found is not None and reset is not None:
        yield Budget(unit, int(min(max(found, 0), _MOST_LEFT)), _bounded(reset))


def _reset_of(headers: Mapping[str, str], kind: str, now: float) -> float | None:
    return seconds_until(headers.get(f"x-ratelimit-reset-{kind}"), now)


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), LONGEST_SECONDS)


def _first(*found: float | None) -> float | None:
    return next((seconds for seconds in found if seconds is not None), None)


def _scaled(found: float | None, factor: float) -> float | None:
    return None if found is None else found * factor


def _seconds_or_date(text: str | None, now: float) -> float | None:
    seconds = number(text)
    return seconds if seconds is not None else date_seconds(text, now)
