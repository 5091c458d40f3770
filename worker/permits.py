"""Permits for the calls of one worker to one service, reserved in the ledger by one thread.

Slots that want to call stand in line; the asker reserves for those who stand there, a small block ahead,
and hands permits out in order. A permit whose time has passed is dropped, never used late.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import psycopg

from store import ledger, slots
from store.ledger import NOBODY
from store.limits import Kind
from store.vault import Locked, Vault
from worker.connections import Connections
from worker.work import PutBack, Work

log = logging.getLogger(__name__)

BLOCK = 16
AHEAD_SECONDS = 0.2
BUSY_PAUSE_SECONDS = 0.004
LONGEST_NAP_SECONDS = 1.0
SLOTS_IDLE_SECONDS = 0.25
USUAL_OF_LAST = 16

# A job whose permit is further away goes back to the queue; nothing is claimed for permits further away.
SOON_SECONDS = 2.0
# Nobody knows when calls of others end. Who waits for a slot of theirs has it when the next one ends or, with
# more workers than slots, in its turn; and goes back when that takes long.
SLOT_PATIENCE_SECONDS = 5.0
SHORTEST_SLOT_NAP_SECONDS = 0.1


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
    """A slot in line. `given` is its permit, or the reason why there is none."""

    work: Work
    tokens: int
    ready: threading.Event = field(default_factory=threading.Event)
    given: Permit | PutBack | None = None
    in_vain_since: float | None = None

    def give(self, what: Permit | PutBack) -> None:
        self.given = what
        self.ready.set()

    def in_vain_seconds(self) -> float:
        """For how long it has been known that a call of another worker has to end first."""
        now = time.monotonic()
        if self.in_vain_since is None:
            self.in_vain_since = now
        return now - self.in_vain_since


class Permits:
    """The line of one service. `run` is the asker's thread; `take` is called by slots.

    `locked`: secrets that the master keys do not open. This worker does without them, others may open them;
    one that is sealed anew is another. `usual_tokens`: what calls were thought to cost lately, on average.
    Whoever took a permit says `done` when its call has ended: some accounts limit how many are under way.
    Slots that nothing needs any more are given back, by every reservation and soon after the line has ended.
    """

    def __init__(self, service: str, key_set: str | None, connections: Connections, vault: Vault) -> None:
        self.service = service
        self.keys_in_use: set[int] = set()
        self.locked: frozenset[bytes] = frozenset()
        self.usual_tokens = 0.0
        self._calling: Counter[int] = Counter()
        self._is_idle = False
        self._worker = NOBODY
        self._asking = threading.Lock()
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

    def take(self, work: Work, tokens: int = 0) -> Permit:
        """Wait for a permit and for its moment. Raises `Stopped` for every reason not to call."""
        self.usual_tokens += (tokens - self.usual_tokens) / USUAL_OF_LAST
        work.waits = True
        while True:
            stand = self._stand_in_line if work.claim.key_id is None else self._of_key
            permit = stand(work, tokens)
            try:
                pause = permit.not_before - time.monotonic()
                if pause > 0:
                    work.halt.wait(pause)
                work.check()
            except BaseException:
                self.done(permit)
                raise
            if time.monotonic() <= permit.use_by:
                work.waits = False
                return permit
            self.done(permit)
            log.debug("permit dropped: its time has passed")

    def done(self, permit: Permit) -> None:
        """The permit's call has ended, or is not made."""
        if permit.has_slot:
            with self._changed:
                self._calling[permit.account_id] -= 1
                self._is_idle = True
                self._changed.notify_all()

    def _of_key(self, work: Work, tokens: int) -> Permit:
        """A permit of the key that the job is a test of. There is no line for it: nobody else asks."""
        waiter = Waiter(work, tokens)
        while True:
            work.check()
            pause = LONGEST_NAP_SECONDS
            try:
                answer = self._reserve([waiter])
            except psycopg.OperationalError as error:
                log.warning("the database is away, no permit to test a key: %s", error)
            else:
                match answer:
                    case list():
                        return answer[0]
                    case ledger.Reservation():
                        pause = answer.wait_seconds
                        if math.isinf(pause) and waiter.in_vain_seconds() < SLOT_PATIENCE_SECONDS:
                            pause = slot_nap_seconds(waiter.in_vain_seconds())
                    case ledger.Busy():
                        pause = BUSY_PAUSE_SECONDS
                    case ledger.NoKey():
                        raise PutBack("no_key", "the key is disabled, or this worker cannot open it")
            if pause > SOON_SECONDS:
                raise PutBack("rate_limited", f"the key is at its limit{_for(pause)}")
            work.halt.wait(max(min(pause, LONGEST_NAP_SECONDS), BUSY_PAUSE_SECONDS))

    def _stand_in_line(self, work: Work, tokens: int) -> Permit:
        waiter = Waiter(work, tokens)
        with self._changed:
            self._line.append(waiter)
            self._changed.notify_all()
        try:
            while not waiter.ready.wait(0.2):
                work.check()
        except BaseException:
            with self._changed:
                if waiter in self._line:
                    self._line.remove(waiter)
            if isinstance(waiter.given, Permit):
                self.done(waiter.given)
            raise
        if isinstance(waiter.given, PutBack):
            raise PutBack(waiter.given.cause, waiter.given.message)  # the reason is shared, a raise is not
        assert waiter.given is not None  # noqa: S101 - ready is set after given
        return waiter.given

    def run(self) -> None:
        """Reserve for whoever stands in line, until `stop`."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._line or self._stopped or self._is_idle)
                if self._is_idle and not self._line:
                    self._changed.wait_for(lambda: self._line or self._stopped, SLOTS_IDLE_SECONDS)
                if self._stopped:
                    return
            if self._line:
                self.serve()
            else:
                self._give_back()

    def stop(self) -> None:
        """End `run`; nobody may stand in line any more."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def serve(self) -> None:
        """Ask the ledger once and hand out what it says."""
        with self._changed:
            asking = [self._line[place] for place in range(min(len(self._line), BLOCK))]
        if not asking:  # who stood in line has left it
            return
        try:
            answer = self._reserve(asking)
        except psycopg.OperationalError as error:
            log.warning("the database is away, no permits: %s", error)
            self._nap(LONGEST_NAP_SECONDS)
            return
        match answer:
            case list():
                for permit in answer:
                    self._hand_out(permit)
            case ledger.Reservation():
                self._wait_for(answer, asking[0])
            case ledger.Busy():
                self._nap(BUSY_PAUSE_SECONDS)
            case ledger.NoKey():
                self._send_away(PutBack("no_key", f"no usable key for {self.service}"))

    def _reserve(
        self, asking: Sequence[Waiter]
    ) -> list[Permit] | ledger.Reservation | ledger.Busy | ledger.NoKey:
        """Permits for these, or a reservation without any, which says when there will be."""
        first = asking[0].work.claim
        with self._asking:  # who reserves next must know of the slots that this one has taken
            asked_at = time.monotonic()
            self._worker = first.worker
            try:
                with self._connections() as conn:
                    answer = ledger.reserve(
                        conn,
                        self.service,
                        self._key_set,
                        len(asking),
                        AHEAD_SECONDS,
                        self.locked,
                        first.key_id,
                        tokens=[waiter.tokens for waiter in asking],
                        worker=first.worker,
                        calling=self._under_way(),
                    )
            except psycopg.OperationalError:
                self._is_idle = True  # slots may have been leased that nobody here knows of
                raise
            if not isinstance(answer, ledger.Reservation):
                return answer
            return self._permits(answer, asking, asked_at, time.monotonic()) or answer

    def _under_way(self) -> dict[int, int]:
        with self._changed:
            return {account: calls for account, calls in self._calling.items() if calls}

    def _permits(
        self, reserved: ledger.Reservation, asking: Sequence[Waiter], asked_at: float, answered_at: float
    ) -> list[Permit]:
        """What was reserved; nothing when its secret cannot be opened here."""
        try:
            secret = self._vault.open(reserved.secret)
        except Locked as error:
            log.error("%s, key %s: %s", self.service, reserved.label, error)  # noqa: TRY400 - its text says all
            self.locked |= {reserved.secret}
            return []
        if reserved.in_seconds:
            self.keys_in_use.add(reserved.key_id)
        has_slot = Kind.AT_ONCE in reserved.kinds
        if has_slot:
            with self._changed:
                self._calling[reserved.account_id] += len(reserved.in_seconds)
        # The ledger's clock was read between the two moments: each bound takes the side that is safe.
        return [
            Permit(
                reserved.key_id,
                reserved.account_id,
                secret,
                not_before=answered_at + in_seconds,
                use_by=asked_at + in_seconds + reserved.slack_seconds,
                at=at,
                tokens=waiter.tokens,
                counts_tokens=Kind.TOKENS in reserved.kinds,
                has_slot=has_slot,
            )
            for in_seconds, at, waiter in zip(reserved.in_seconds, reserved.at, asking, strict=False)
        ]

    def _hand_out(self, permit: Permit) -> None:
        """To the first in line whom it is enough for: those whom it was reserved for may have left."""
        with self._changed:
            for waiter in self._line:
                if waiter.tokens <= permit.tokens:
                    self._line.remove(waiter)
                    waiter.give(permit)
                    return
        self.done(permit)

    def _give_back(self) -> None:
        self._is_idle = False
        try:
            with self._asking, self._connections() as conn:
                slots.keep_slots(conn, self.service, self._worker, self._under_way())
        except psycopg.OperationalError as error:
            log.warning("the database is away, slots are given back later: %s", error)
            self._is_idle = True
            self._nap(LONGEST_NAP_SECONDS)

    def _wait_for(self, reserved: ledger.Reservation, first: Waiter) -> None:
        if reserved.secret in self.locked:  # another key may do
            return
        seconds = reserved.wait_seconds
        if math.isinf(seconds) and self._under_way().get(reserved.account_id, 0):
            self._nap(LONGEST_NAP_SECONDS, until_done=True)
        elif math.isinf(seconds) and first.in_vain_seconds() < SLOT_PATIENCE_SECONDS:
            self._nap(slot_nap_seconds(first.in_vain_seconds()))
        elif seconds > SOON_SECONDS:
            message = f"every usable key is at its limit{_for(seconds)}"
            self._send_away(PutBack("rate_limited", message))
        else:
            self._nap(min(seconds - AHEAD_SECONDS / 2, LONGEST_NAP_SECONDS))

    def _send_away(self, reason: PutBack) -> None:
        with self._changed:
            while self._line:
                self._line.popleft().give(reason)

    def _nap(self, seconds: float, *, until_done: bool = False) -> None:
        with self._changed:
            under_way = self._calling.total()
            self._changed.wait_for(
                lambda: self._stopped or (until_done and self._calling.total() < under_way),
                max(seconds, 0.001),
            )


def slot_nap_seconds(waited_seconds: float) -> float:
    """Until who waits for a slot of others asks again, which is also how they hear that it still does."""
    return min(max(waited_seconds / 4, SHORTEST_SLOT_NAP_SECONDS), LONGEST_NAP_SECONDS)


def _for(seconds: float) -> str:
    """For how long a key is at its limit, where that is known: calls under way end when they end."""
    return "" if math.isinf(seconds) else f" for {seconds:.0f} s"
