"""Permits for the calls of one worker to one service, reserved in the ledger by one thread.

Slots that want to call stand in line; the asker reserves for those who stand there, a small block ahead,
and hands permits out in order. A permit whose time has passed is dropped, never used late.
"""

from __future__ import annotations

import logging
import math
import time

import psycopg

from store.ledger import Answer, Reservation
from store.vault import Vault
from worker.connections import Connections
from worker.line import Line, Permit, Waiter
from worker.outlook import LONGEST_NAP_SECONDS, Nap, outlook
from worker.reserving import Reserver
from worker.work import PutBack, Work

log = logging.getLogger(__name__)

SLOTS_IDLE_SECONDS = 0.25
USUAL_OF_LAST = 16


class Permits:
    """The line of one service. `run` is the asker's thread; `take` is called by slots.

    `usual_tokens`: what calls were thought to cost lately, on average. Whoever took a permit says `done` when
    its call has ended: some accounts limit how many are under way. Slots that nothing needs any more go back
    with every reservation and soon after the line has ended.
    """

    def __init__(self, service: str, key_set: str | None, connections: Connections, vault: Vault) -> None:
        self.service = service
        self.usual_tokens = 0.0
        self._line = Line()
        self._reserver = Reserver(service, key_set, connections, vault)
        self._changed = self._line.changed
        self._ended = 0
        self._is_idle = False
        self._stopped = False

    @property
    def are_awaited(self) -> bool:
        """Whether a slot stands in line."""
        return bool(self._line)

    @property
    def keys_in_use(self) -> set[int]:
        """The keys of which there were permits."""
        return self._reserver.keys_in_use

    @property
    def locked(self) -> frozenset[bytes]:
        """Secrets, as they are stored, that the master keys here do not open."""
        return self._reserver.locked

    def take(self, work: Work, tokens: int = 0) -> Permit:
        """Wait for a permit and for its moment. Raises `Stopped` for every reason not to call."""
        self.usual_tokens += (tokens - self.usual_tokens) / USUAL_OF_LAST
        work.waits = True
        while True:
            stand = self._stand_in_line if work.claim.key_id is None else self._of_key
            permit = stand(Waiter(work, tokens))
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
            self._reserver.under_way.end(permit.account_id)
            with self._changed:
                self._ended += 1
                self._is_idle = True
                self._changed.notify_all()

    def _of_key(self, waiter: Waiter) -> Permit:
        """A permit of the key that the job is a test of. There is no line for it: nobody else asks."""
        while True:
            waiter.work.check()
            try:
                answer = self._reserver.reserve([waiter])
            except psycopg.OperationalError as error:
                log.warning("the database is away, no permit to test a key: %s", error)
                waiter.work.halt.wait(LONGEST_NAP_SECONDS)
                continue
            if isinstance(answer, list):
                return answer[0]
            what = self._outlook(answer, waiter)
            if isinstance(what, PutBack):
                raise what
            waiter.work.halt.wait(what.seconds)

    def _stand_in_line(self, waiter: Waiter) -> Permit:
        self._line.join(waiter)
        try:
            while not waiter.ready.wait(0.2):
                waiter.work.check()
        except BaseException:
            self._line.leave(waiter)
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
        asking = self._line.asking()
        if not asking:  # who stood in line has left it
            return
        ended = self._ended
        try:
            answer = self._reserver.reserve(asking)
        except psycopg.OperationalError as error:
            log.warning("the database is away, no permits: %s", error)
            self._is_idle = True
            self._rest(Nap(LONGEST_NAP_SECONDS), ended)
            return
        if isinstance(answer, list):
            for permit in answer:
                if not self._line.hand_out(permit, to_probe=asking[0].probes):
                    self.done(permit)
            return
        what = self._outlook(answer, asking[0])
        if isinstance(what, PutBack):
            self._line.send_away(what)
        else:
            self._rest(what, ended)

    def _outlook(self, answer: Answer, first: Waiter) -> Nap | PutBack:
        under_way, in_vain_seconds = 0, 0.0
        if isinstance(answer, Reservation):
            if answer.secret in self.locked:  # another key may do
                return Nap(0.0)
            under_way = self._reserver.under_way.of(answer.account_id)
            if math.isinf(answer.wait_seconds) and not under_way:
                in_vain_seconds = first.in_vain_seconds()
        return outlook(
            answer,
            self.service,
            is_test=first.work.claim.key_id is not None,
            under_way=under_way,
            in_vain_seconds=in_vain_seconds,
        )

    def _give_back(self) -> None:
        self._is_idle = False
        try:
            self._reserver.keep_slots()
        except psycopg.OperationalError as error:
            log.warning("the database is away, slots are given back later: %s", error)
            self._is_idle = True
            self._rest(Nap(LONGEST_NAP_SECONDS), self._ended)

    def _rest(self, nap: Nap, ended: int) -> None:
        """Until it is over, or one more call has ended than had when the ledger was asked."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._stopped or (nap.until_done and self._ended > ended), max(nap.seconds, 0.001)
            )
