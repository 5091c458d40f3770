"""How fast a worker is, as it says of itself."""

from __future__ import annotations

import time
from collections import deque

RATE_WINDOW_SECONDS = 60.0


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
