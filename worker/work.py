"""A job in a worker's hands, and the reasons to put it down."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from store.answers import Stored
from store.claims import Claim
from worker.driver import Stopped


class ClaimLost(Stopped):
    """Somebody else holds the job now, or may: call nothing more; what is written is behind the fence."""


class OutOfTime(Stopped):
    """The job has run longer than its list allows."""


class PutBack(Stopped):
    """The job goes back to the queue unharmed. It runs again when its keys and its service allow."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(f"{cause}: {message}")
        self.cause = cause
        self.message = message


class Flag:
    """An event that nobody waits for: lighter, since each work has its own."""

    __slots__ = ("_is_set",)

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def is_set(self) -> bool:
        return self._is_set


@dataclass(slots=True)
class Work:
    """One claim and what was kept for its job. `lost` and `halt` are set from other threads, `halt` for all
    works of a worker at once.

    `is_believed` says whether the worker's lease still holds as far as the worker can know. The job's time
    counts from `start`; before, it stands in line. `is_running`: a thread is at it and was not given up.
    """

    claim: Claim
    stored: Stored
    is_believed: Callable[[], bool]
    halt: threading.Event
    deadline: float
    claimed_at: float = field(default_factory=time.monotonic)
    is_begun: bool = False
    is_running: bool = False
    lost: Flag = field(default_factory=Flag)

    @classmethod
    def begin(
        cls, claim: Claim, stored: Stored, is_believed: Callable[[], bool], halt: threading.Event
    ) -> Work:
        return cls(claim, stored, is_believed, halt, deadline=time.monotonic() + claim.run_seconds)

    def start(self) -> None:
        """A slot begins with it."""
        self.deadline = time.monotonic() + self.claim.run_seconds
        self.is_begun = self.is_running = True

    def check(self) -> None:
        """Raise the reason, if there is one, not to make another call."""
        if self.lost.is_set() or not self.is_believed():
            raise ClaimLost
        if self.halt.is_set():
            raise PutBack("shutdown", "the worker is stopping")
        if time.monotonic() > self.deadline:
            raise OutOfTime
