"""How many jobs a worker may claim now: as its slots get free, and some ahead of them that make no calls."""

from __future__ import annotations

from collections.abc import Mapping

from worker.calling import Caller

AHEAD_SECONDS = 0.25
MOST_AHEAD = 1000
NEWEST_COUNTS = 0.2


class Ahead:
    """How many jobs that make no calls may wait in line: as many as the slots end in a quarter of a second.

    By how long the last ones took. More would be jobs that another worker could have begun; fewer, and slots
    wait for claims. Jobs that call wait for permits and are not claimed ahead at all.
    """

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._seconds_each: float | None = None

    def ended(self, seconds: float) -> None:
        """A job has taken so long."""
        before = seconds if self._seconds_each is None else self._seconds_each
        self._seconds_each = before + NEWEST_COUNTS * (seconds - before)

    def forget(self) -> None:
        """Jobs take longer than they did: none ahead until one of them has ended."""
        self._seconds_each = None

    def allowed(self) -> int:
        """At most 1,000: two batches."""
        if self._seconds_each is None:
            return 0
        return int(min(MOST_AHEAD, AHEAD_SECONDS * self._slots / max(self._seconds_each, 1e-6)))


class Room:
    """Counts what was claimed and has not ended. The caller's lock guards it.

    A job with calls waits for permits, so it is claimed for a slot. Jobs without calls, of services without
    keys, stand in line for the slots too and take none from the others: those in line are over soon.
    """

    def __init__(self, callers: Mapping[str, Caller], slots: int) -> None:
        self._callers = callers
        self._slots = slots
        self._ahead = Ahead(slots)
        self._with_calls = 0
        self._without_calls = 0

    def of(self, service: str) -> int:
        """How many jobs of the service may be claimed; 0 also while it is too few to be worth asking."""
        caller = self._callers[service]
        if caller.service.needs_key:
            free = self._slots - self._with_calls
            # While jobs wait for permits, one more of them gains nothing; a batch later costs one statement.
            return 0 if caller.permits.are_awaited and free < self._slots / 2 else free
        ahead = self._ahead.allowed()
        in_line = self._with_calls + self._without_calls - self._slots
        return max(ahead - in_line, 0) if in_line <= ahead // 2 else 0

    def needs_key(self, service: str) -> bool:
        return self._callers[service].service.needs_key

    def take(self, service: str) -> None:
        """A job was claimed."""
        if self.needs_key(service):
            self._with_calls += 1
        else:
            self._without_calls += 1

    def end(self, service: str, seconds: float) -> None:
        """A job has ended after so long in its slot."""
        self.give_back(service)
        if not self.needs_key(service):
            self._ahead.ended(seconds)

    def give_back(self, service: str) -> None:
        """A job goes back unbegun."""
        if self.needs_key(service):
            self._with_calls -= 1
        else:
            self._without_calls -= 1

    def slowed(self) -> None:
        """Jobs in line have waited too long: what was claimed ahead goes by a pace that is over."""
        self._ahead.forget()

    @property
    def is_idle(self) -> bool:
        """Nothing that was claimed is still to be done."""
        return not self._with_calls + self._without_calls
