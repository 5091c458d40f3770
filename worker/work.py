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


@dataclass(slots=True)
class Work:
    """One claim and what was kept for its job. `is_lost` and `is_cancelled` are set from other threads, and
    so is `halt`, for all works of a worker at once.

    `is_believed` says whether the worker's lease still holds as far as the worker can know. The job's time
    counts from `start`; before, it stands in line. `is_running`: a thread is at it and was not given up.
    `is_probing`: nothing has shown yet whether the service answers again. `waits`: the job has no permit yet,
    or waits for the next one; what it does with a permit in hand may take long.
    """

    claim: Claim
    stored: Stored
    is_believed: Callable[[], bool]
    halt: threading.Event
    deadline: float
    claimed_at: float = field(default_factory=time.monotonic)
    began: float = field(default_factory=time.monotonic)
    is_begun: bool = False
    is_running: bool = False
    is_probing: bool = False
    waits: bool = True
    is_lost: bool = False
    is_cancelled: bool = False

    @classmethod
    def begin(
        cls,
        claim: Claim,
        stored: Stored,
        is_believed: Callable[[], bool],
        halt: threading.Event | None = None,
    ) -> Work:
        deadline = time.monotonic() + claim.run_seconds
        halted = threading.Event() if halt is None else halt
        return cls(claim, stored, is_believed, halted, deadline, is_probing=claim.is_probe)

    def start(self) -> None:
        """A slot begins with it."""
        self.began = time.monotonic()
        self.deadline = self.began + self.claim.run_seconds
        self.is_begun = self.is_running = True

    def check(self) -> None:
        """Raise the reason, if there is one, not to make another call."""
        if self.is_lost or not self.is_believed():
            raise ClaimLost
        if self.halt.is_set():
            raise PutBack("shutdown", "the worker is stopping")
        if self.is_cancelled:
            raise PutBack("list_cancelled", "its list was cancelled while it ran")
        if time.monotonic() > self.deadline:
            raise OutOfTime
