"""Asks the ledger for one worker and one service, and turns what it has reserved into permits."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Sequence

from store import ledger, slots
from store.ledger import NOBODY, Answer, Reservation
from store.limits import Kind
from store.vault import Locked, Vault
from worker.connections import Connections
from worker.line import Permit, Waiter

log = logging.getLogger(__name__)

AHEAD_SECONDS = 0.2


class UnderWay:
    """How many calls are under way at accounts that limit how many may be. Safe from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: Counter[int] = Counter()

    def begin(self, account_id: int, calls: int) -> None:
        with self._lock:
            self._calls[account_id] += calls

    def end(self, account_id: int) -> None:
        with self._lock:
            self._calls[account_id] -= 1

    def of(self, account_id: int) -> int:
        with self._lock:
            return self._calls[account_id]

    def by_account(self) -> dict[int, int]:
        with self._lock:
            return {account: calls for account, calls in self._calls.items() if calls}


class Reserver:
    """One at a time asks; safe to use from several threads.

    `locked`: secrets that the master keys do not open. This worker does without them, others may open them;
    one that is sealed anew is another. `keys_in_use`: those of which it had permits.
    """

    def __init__(self, service: str, key_set: str | None, connections: Connections, vault: Vault) -> None:
        self.keys_in_use: set[int] = set()
        self.locked: frozenset[bytes] = frozenset()
        self.under_way = UnderWay()
        self._service = service
        self._key_set = key_set
        self._connections = connections
        self._vault = vault
        self._worker = NOBODY
        self._asking = threading.Lock()

    def reserve(self, asking: Sequence[Waiter]) -> list[Permit] | Answer:
        """Permits for these, in their order, or the ledger's answer that there are none.

        All of one probe or of none. Raises `psycopg.OperationalError`: slots may have been leased then that
        nobody here knows of, until `keep_slots`.
        """
        first = asking[0].work.claim
        with self._asking:  # who reserves next must know of the slots that this one has taken
            asked_at = time.monotonic()
            self._worker = first.worker
            with self._connections() as conn:
                answer = ledger.reserve(
                    conn,
                    self._service,
                    self._key_set,
                    len(asking),
                    AHEAD_SECONDS,
                    self.locked,
                    first.key_id,
                    tokens=[waiter.tokens for waiter in asking],
                    worker=first.worker,
                    calling=self.under_way.by_account(),
                    probes=first.is_probe,
                )
            if not isinstance(answer, Reservation):
                return answer
            return self._permits(answer, asking, asked_at, time.monotonic()) or answer

    def keep_slots(self) -> None:
        """Give back the slots that no call is under way in. Raises `psycopg.OperationalError`."""
        with self._asking, self._connections() as conn:
            slots.keep_slots(conn, self._service, self._worker, self.under_way.by_account())

    def _permits(
        self, reserved: Reservation, asking: Sequence[Waiter], asked_at: float, answered_at: float
    ) -> list[Permit]:
        """What was reserved; nothing when its secret cannot be opened here."""
        try:
            secret = self._vault.open(reserved.secret)
        except Locked as error:
            log.error("%s, key %s: %s", self._service, reserved.label, error)  # noqa: TRY400 - its text says all
            self.locked |= {reserved.secret}
            return []
        if reserved.in_seconds:
            self.keys_in_use.add(reserved.key_id)
        has_slot = Kind.AT_ONCE in reserved.kinds
        if has_slot:
            self.under_way.begin(reserved.account_id, len(reserved.in_seconds))
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
