"""Limits as text, and the strict count of arrivals over sliding windows."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

_LIMIT = re.compile(r"\s*(\d+)\s*/\s*(\d*)\s*(s|m|h|d|day)\s*")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "day": 86400}


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `amount` arrivals in any window of `window_seconds`. `window` is the text, such as `5m`."""

    amount: int
    window: str
    window_seconds: int

    def __str__(self) -> str:
        return f"{self.amount}/{self.window}"


def parse_limit(text: str) -> Limit:
    """`600/5m`, `10/s`, `2000/day`. Raises `ValueError` with what is allowed."""
    match = _LIMIT.fullmatch(text)
    if match is None or int(match[1]) == 0 or match[2] == "0":
        raise ValueError(f"{text!r} is no limit: write it as 600/5m, 10/s, 5/10s, 100/h or 2000/day")
    return Limit(int(match[1]), match[2] + match[3], int(match[2] or 1) * _SECONDS[match[3]])


class Ruling(Enum):
    """What an arrival was."""

    WITHIN = auto()
    OVER_LIMIT = auto()
    WHILE_BLOCKED = auto()


@dataclass(slots=True)
class Window:
    """One limit and the arrivals of its last window, on a clock in seconds.

    `counted` are those within the limit: they fill it. `seen` are all of them, to know the busiest window.
    A window is half open: an arrival leaves exactly `window_seconds` later.
    """

    limit: Limit
    counted: deque[float] = field(default_factory=deque)
    seen: deque[float] = field(default_factory=deque)
    busiest: int = 0

    def see(self, at: float) -> None:
        """Notes an arrival of any kind."""
        _insert(self.seen, at)
        self._forget(self.seen, at)
        self.busiest = max(self.busiest, len(self.seen))

    def is_full(self, at: float) -> bool:
        self._forget(self.counted, at)
        return len(self.counted) >= self.limit.amount

    def count(self, at: float) -> None:
        _insert(self.counted, at)

    @property
    def remaining(self) -> int:
        return self.limit.amount - len(self.counted)

    @property
    def frees_at(self) -> float | None:
        """When the oldest counted arrival leaves; None while there is none."""
        return self.counted[0] + self.limit.window_seconds if self.counted else None

    def _forget(self, times: deque[float], at: float) -> None:
        while times and times[0] <= at - self.limit.window_seconds:
            times.popleft()


def _insert(times: deque[float], at: float) -> None:
    """Keeps the order: threads may reach the lock in another order than their requests arrived."""
    place = len(times)
    while place and times[place - 1] > at:
        place -= 1
    times.insert(place, at)


class Account:
    """The limits that all keys of one account share."""

    def __init__(self, name: str, limits: tuple[Limit, ...], block_seconds: float = 0.0) -> None:
        self.name = name
        self.windows = [Window(limit) for limit in limits]
        self._block_seconds = block_seconds
        self._blocked_until = float("-inf")

    def arrive(self, at: float) -> Ruling:
        """Judges one arrival. Only one within every limit fills the windows."""
        for window in self.windows:
            window.see(at)
        if at < self._blocked_until:
            return Ruling.WHILE_BLOCKED
        full = [window.is_full(at) for window in self.windows]
        if any(full):
            self._blocked_until = at + self._block_seconds
            return Ruling.OVER_LIMIT
        for window in self.windows:
            window.count(at)
        return Ruling.WITHIN

    @property
    def tightest(self) -> Window:
        """The window with the fewest arrivals left; of equal ones, that which frees last."""
        return min(self.windows, key=lambda window: (window.remaining, -(window.frees_at or 0.0)))
