"""How fast a worker is: what it says of itself, and how much it may claim ahead."""

from __future__ import annotations

import time
from collections import deque

RATE_WINDOW_SECONDS = 60.0
AHEAD_SECONDS = 0.25
MOST_AHEAD = 500


class Pace:
    """How many jobs were settled, in all and per minute."""

    def __init__(self) -> None:
        self.total = 0
        self._recent: deque[tuple[float, int]] = deque()
        self._since = time.monotonic()

    def count(self, jobs: int) -> None:
        self.total += jobs
        self._recent.append((time.monotonic(), jobs))

    def per_minute(self) -> float:
        now = time.monotonic()
        while self._recent and self._recent[0][0] < now - RATE_WINDOW_SECONDS:
            self._recent.popleft()
        settled = sum(jobs for _, jobs in self._recent)
        return settled * 60.0 / min(RATE_WINDOW_SECONDS, max(now - self._since, 1.0))


class Ahead:
    """How many jobs that make no calls may wait in line: as many as lately ended in a quarter of a second.

    More would be jobs that another worker could have begun; fewer, and slots wait for claims. Jobs that call
    wait for permits and are not claimed ahead at all.
    """

    def __init__(self) -> None:
        self.ended = 0
        self._before = 0
        self._since = time.monotonic()
        self._allowed = 0

    def allowed(self) -> int:
        """At most 500, two batches."""
        now = time.monotonic()
        if now - self._since >= AHEAD_SECONDS:
            per_second = (self.ended - self._before) / (now - self._since)
            self._allowed = min(MOST_AHEAD, int(per_second * AHEAD_SECONDS))
            self._since, self._before = now, self.ended
        return self._allowed
