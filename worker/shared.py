"""Answers that serve every company alike, asked for once by a worker and kept while they are fresh."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from services.extraction import Answer, Get

CHECK_SECONDS: Final = 0.2
_OK: Final = 200


@dataclass(slots=True)
class _Kept:
    """`asking` is held by the slot that asks; the others wait for its answer."""

    asking: threading.Lock = field(default_factory=threading.Lock)
    answer: Answer | None = None
    until: float = 0.0


class SharedAnswers:
    """What is asked for with `Get.shared_seconds`, for all slots of a worker."""

    def __init__(self) -> None:
        self._kept: dict[bytes, _Kept] = {}
        self._lock = threading.Lock()

    def get(self, call: Get, ask: Callable[[], Answer], check: Callable[[], None]) -> Answer:
        """The kept answer, or what `ask` brings; of several slots one asks.

        `check` is called while another slot asks and raises what ends the waiting. An answer that is not
        200 serves the job that paid for it and nobody else.
        """
        with self._lock:
            kept = self._kept.setdefault(call.fingerprint, _Kept())
        while not kept.asking.acquire(timeout=CHECK_SECONDS):
            check()
        try:
            if kept.answer is None or time.monotonic() > kept.until:
                answer = ask()
                if answer.status != _OK:
                    return answer
                kept.answer, kept.until = answer, time.monotonic() + call.shared_seconds
            return kept.answer
        finally:
            kept.asking.release()
