"""What a figure is: what it is called, what it must reach, and how it is measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal


class Absent(RuntimeError):
    """What the figure is measured with or against is not here; the text says what to do."""


@dataclass(frozen=True, slots=True)
class Measured:
    """`runs`: the figure of each run. `value`: what counts, their median unless said. `notes`: for people."""

    runs: Sequence[float]
    value: float
    notes: Sequence[str] = ()

    @classmethod
    def median(cls, runs: Sequence[float], *notes: str) -> Measured:
        return cls(runs, statistics.median(runs), notes)


@dataclass(frozen=True, slots=True)
class Figure:
    """A promise: `value` is `better` (at least, or at most) `reach`. `takes`: how long, for people."""

    id: str
    meaning: str
    unit: str
    better: Literal["at least", "at most"]
    reach: float
    takes: str
    measure: Callable[[], Measured]

    def holds(self, value: float) -> bool:
        return value >= self.reach if self.better == "at least" else value <= self.reach
