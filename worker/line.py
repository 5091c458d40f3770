"""The line for permits: works that want to call, in order, and what each of them gets."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field

from worker.work import PutBack, Work

BLOCK = 16


@dataclass(frozen=True, slots=True)
class Permit:
    """The right to send one call under a key between two moments of this process's monotonic clock.

    `at` is the first of them on the database's clock. `counts_tokens`: the account's limits do, and the call
    was taken to cost `tokens`. `has_slot`: the account limits how many calls are under way at once.
    """

    key_id: int
    account_id: int
    secret: str
    not_before: float
    use_by: float
    at: float = 0.0
    tokens: int = 0
    counts_tokens: bool = False
    has_slot: bool = False


@dataclass(slots=True)
class Waiter:
    """A work that wants to make a call. `given` is its permit, or the reason why there is none."""

    work: Work
    tokens: int
    ready: threading.Event = field(default_factory=threading.Event)
    given: Permit | PutBack | None = None
    in_vain_since: float | None = None

    @property
    def probes(self) -> bool:
        """Its job alone tries whether the service answers again."""
        return self.work.claim.is_probe

    def give(self, what: Permit | PutBack) -> None:
        self.given = what
        self.ready.set()

    def in_vain_seconds(self) -> float:
        """For how long it has been known that a call of another worker has to end first."""
        now = time.monotonic()
        if self.in_vain_since is None:
            self.in_vain_since = now
        return now - self.in_vain_since


class Line:
    """Who waits, in order. `changed` guards it, and is notified of who joins."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self._waiters: deque[Waiter] = deque()

    def __len__(self) -> int:
        return len(self._waiters)

    def join(self, waiter: Waiter) -> None:
        with self.changed:
            self._waiters.append(waiter)
            self.changed.notify_all()

    def leave(self, waiter: Waiter) -> None:
        with self.changed:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def asking(self) -> list[Waiter]:
        """Whom to reserve for next: the first in line. A probe goes alone: it may what others may not."""
        with self.changed:
            probes = [waiter for waiter in self._waiters if waiter.probes]
            return probes[:1] or [self._waiters[place] for place in range(min(len(self._waiters), BLOCK))]

    def hand_out(self, permit: Permit, *, to_probe: bool) -> bool:
        """To the first whom it is enough for: those whom it was reserved for may have left. False: nobody."""
        with self.changed:
            for waiter in self._waiters:
                if waiter.tokens <= permit.tokens and (waiter.probes or not to_probe):
                    self._waiters.remove(waiter)
                    waiter.give(permit)
                    return True
        return False

    def send_away(self, reason: PutBack) -> None:
        """All that wait now."""
        with self.changed:
            while self._waiters:
                self._waiters.popleft().give(reason)
