"""How many large answers this process reads at once: one of 5 MB takes tens of MB while it is read.

Reading is work of the one core that Python has, so that waiting for a turn costs no time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Final

from services.extraction import Answer

LARGE_BYTES: Final = 1_000_000
MOST_AT_ONCE: Final = 1
CHECK_SECONDS: Final = 0.2
LONGEST_WAIT_SECONDS: Final = 30.0
"""A parser that never ends must not keep all others: after this long they read beside it."""


class Parses:
    """Turns at reading large answers, for all slots of a worker."""

    def __init__(
        self, at_once: int = MOST_AT_ONCE, longest_wait_seconds: float = LONGEST_WAIT_SECONDS
    ) -> None:
        self._turns = threading.BoundedSemaphore(at_once)
        self._most_checks = round(longest_wait_seconds / CHECK_SECONDS)

    def turn(self, given: Any, check: Callable[[], None]) -> AbstractContextManager[None]:
        """The body reads what is `given`: an answer, several, or none. Small ones need no turn.

        `check` is called while others read and raises what ends the waiting.
        """
        return nullcontext() if _bytes(given) < LARGE_BYTES else self._turn(check)

    @contextmanager
    def _turn(self, check: Callable[[], None]) -> Iterator[None]:
        has_turn = self._wait(check)
        try:
            yield
        finally:
            if has_turn:
                self._turns.release()

    def _wait(self, check: Callable[[], None]) -> bool:
        for _ in range(self._most_checks):
            if self._turns.acquire(timeout=CHECK_SECONDS):
                return True
            check()
        return False


def _bytes(given: Any) -> int:
    match given:
        case Answer(body=body):
            return len(body)
        case list():
            return sum(map(_bytes, given))
        case _:
            return 0
