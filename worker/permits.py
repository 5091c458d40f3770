"""Permits for the calls of one worker to one service, reserved in the ledger by one thread.

Slots that want to call stand in line; the asker reserves for those who stand there, a small block ahead,
and hands permits out in order. A permit whose time has passed is dropped, never used late.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from dataclasses import dataclass, field

import psycopg

from store import ledger
from store.vault import Locked, Vault
from worker.connections import Connections
from worker.work import PutBack, Work

log = logging.getLogger(__name__)

BLOCK = 16
AHEAD_SECONDS = 0.2
BUSY_PAUSE_SECONDS = 0.004
LONGEST_NAP_SECONDS = 1.0

# A job whose permit is further away goes back to the queue; nothing is claimed for permits further away.
SOON_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Permit:
    """The right to send one call under a key between two moments of this process's monotonic clock."""

    key_id: int
    account_id: int
    secret: str
    not_before: float
    use_by: float


@dataclass(slots=True)
class Waiter:
    """A slot in line. `given` is its permit, or the reason why there is none."""

    ready: threading.Event = field(default_factory=threading.Event)
    given: Permit | PutBack | None = None

    def give(self, what: Permit | PutBack) -> None:
        self.given = what
        self.ready.set()


class Permits:
    """The line of one service. `run` is the asker's thread; `take` is called by slots.

    `locked`: secrets that the master keys do not open. This worker does without them, others may open them;
    one that is sealed anew is another.
    """

    def __init__(self, service: str, key_set: str | None, connections: Connections, vault: Vault) -> None:
        self.service = service
        self.keys_in_use: set[int] = set()
        self.locked: frozenset[bytes] = frozenset()
        self._key_set = key_set
        self._connections = connections
        self._vault = vault
        self._line: deque[Waiter] = deque()
        self._changed = threading.Condition()
        self._stopped = False

    @property
    def are_awaited(self) -> bool:
        """Whether a slot stands in line."""
        return bool(self._line)

    def take(self, work: Work) -> Permit:
        """Wait for a permit and for its moment. Raises `Stopped` for every reason not to call."""
        while True:
            permit = self._stand_in_line(work) if work.claim.key_id is None else self._of_key(work)
            pause = permit.not_before - time.monotonic()
            if pause > 0:
                work.halt.wait(pause)
            work.check()
            if time.monotonic() <= permit.use_by:
                return permit
            log.debug("permit dropped: its time has passed")

    def _of_key(self, work: Work) -> Permit:
        """A permit of the key that the job is a test of. There is no line for it: nobody else asks."""
        while True:
            work.check()
            asked_at = time.monotonic()
            pause = LONGEST_NAP_SECONDS
            try:
                with self._connections() as conn:
                    answer = ledger.reserve(
                        conn, self.service, self._key_set, 1, AHEAD_SECONDS, self.locked, work.claim.key_id
                    )
            except psycopg.OperationalError as error:
                log.warning("the database is away, no permit to test a key: %s", error)
            else:
                match answer:
                    case ledger.Reservation():
                        if permits := self._permits(answer, asked_at, time.monotonic()):
                            return permits[0]
                        pause = answer.wait_seconds
                    case ledger.Busy():
                        pause = BUSY_PAUSE_SECONDS
                    case ledger.NoKey():
                        raise PutBack("no_key", "the key is disabled, or this worker cannot open it")
            if pause > SOON_SECONDS:
                raise PutBack("rate_limited", f"the key is at its limit for {pause:.0f} s")
            work.halt.wait(max(min(pause, LONGEST_NAP_SECONDS), BUSY_PAUSE_SECONDS))

    def _stand_in_line(self, work: Work) -> Permit:
        waiter = Waiter()
        with self._changed:
            self._line.append(waiter)
            self._changed.notify()
        try:
            while not waiter.ready.wait(0.2):
                work.check()
        except BaseException:
            with self._changed:
                if waiter in self._line:
                    self._line.remove(waiter)
            raise
        if isinstance(waiter.given, PutBack):
            raise PutBack(waiter.given.cause, waiter.given.message)  # the reason is shared, a raise is not
        assert waiter.given is not None  # noqa: S101 - ready is set after given
        return waiter.given

    def run(self) -> None:
        """Reserve for whoever stands in line, until `stop`."""
        while True:
            with self._changed:
                while not self._line and not self._stopped:
                    self._changed.wait()
                if self._stopped:
                    return
            self.serve()

    def stop(self) -> None:
        """End `run`; nobody may stand in line any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify()

    def serve(self) -> None:
        """Ask the ledger once and hand out what it says."""
        want = min(len(self._line), BLOCK)
        if not want:  # who stood in line has left it
            return
        asked_at = time.monotonic()
        try:
            with self._connections() as conn:
                answer = ledger.reserve(conn, self.service, self._key_set, want, AHEAD_SECONDS, self.locked)
        except psycopg.OperationalError as error:
            log.warning("the database is away, no permits: %s", error)
            self._nap(LONGEST_NAP_SECONDS)
            return
        match answer:
            case ledger.Reservation():
                self._hand_out(answer, asked_at, time.monotonic())
            case ledger.Busy():
                self._nap(BUSY_PAUSE_SECONDS)
            case ledger.NoKey():
                self._send_away(PutBack("no_key", f"no usable key for {self.service}"))

    def _hand_out(self, reserved: ledger.Reservation, asked_at: float, answered_at: float) -> None:
        permits = self._permits(reserved, asked_at, answered_at)
        for permit in permits or ():
            with self._changed:
                if self._line:
                    self._line.popleft().give(permit)
        if permits == []:
            self._wait_for(reserved.wait_seconds)

    def _permits(
        self, reserved: ledger.Reservation, asked_at: float, answered_at: float
    ) -> list[Permit] | None:
        """What was reserved; None when its secret cannot be opened here."""
        try:
            secret = self._vault.open(reserved.secret)
        except Locked as error:
            log.error("%s, key %s: %s", self.service, reserved.label, error)  # noqa: TRY400 - its text says all
            self.locked |= {reserved.secret}
            return None
        if reserved.in_seconds:
            self.keys_in_use.add(reserved.key_id)
        # The ledger's clock was read between the two moments: each bound takes the side that is safe.
        return [
            Permit(
                reserved.key_id,
                reserved.account_id,
                secret,
                not_before=answered_at + in_seconds,
                use_by=asked_at + in_seconds + reserved.slack_seconds,
            )
            for in_seconds in reserved.in_seconds
        ]

    def _wait_for(self, seconds: float) -> None:
        if seconds > SOON_SECONDS:
            message = f"every usable key is at its limit for {seconds:.0f} s"
            self._send_away(PutBack("rate_limited", message))
        else:
            self._nap(min(seconds - AHEAD_SECONDS / 2, LONGEST_NAP_SECONDS))

    def _send_away(self, reason: PutBack) -> None:
        with self._changed:
            while self._line:
                self._line.popleft().give(reason)

    def _nap(self, seconds: float) -> None:
        with self._changed:
            if not self._stopped:
                self._changed.wait_for(lambda: self._stopped, max(seconds, 0.001))
