"""Makes one call for a job: kept answer or permit, request, verdict; what was sent is logged, and kept."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import psycopg

from services.causes import CAUSES, Fault
from services.extraction import Answer, CallFailed, Get
from services.service import Service
from services.verdicts import Refused, ServiceFailed, Usable, Verdict
from store import answers
from store.answers import KeptAnswer
from store.calls import Call
from worker.connections import Connections
from worker.effects import Effects
from worker.http import Http, Received, Unreachable, address, described
from worker.line import Permit
from worker.permits import Permits
from worker.reading import Files
from worker.redaction import without_key
from worker.reusing import take_over
from worker.shared import SharedAnswers
from worker.told import Breaker, Budgets
from worker.work import Work
from worker.writer import Writer

log = logging.getLogger(__name__)


class _NotNow(Exception):
    """The request is not sent: it is answered, or its permit's time has passed."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A call as it left: under which permit, and when on this process's clock."""

    permit: Permit
    at: float


@dataclass(frozen=True, slots=True)
class Caller:
    """Everything a call of one service needs. `ask` is called by any slot."""

    service: Service
    services_url: str | None
    http: Http
    permits: Permits
    writer: Writer
    connections: Connections
    files: Files
    shared: SharedAnswers = field(default_factory=SharedAnswers)
    breaker: Breaker = field(default_factory=Breaker)
    budgets: Budgets = field(default_factory=Budgets)

    def ask(self, work: Work, call: Get, occurrence: int, kept: Callable[[threading.Event], None]) -> Answer:
        """The kept answer, or a new one, which `kept` is told of as soon as it is on its way to be stored.

        One that serves all companies is kept with the job that paid for it; the worker's other jobs have it
        without a call. One that is too large is not kept; its call says so. Raises `CallFailed` for what the
        extractor may deal with, `Stopped` for what ends the work.
        """
        if not call.shared_seconds or work.claim.key_id is not None:  # a test of a key has to call
            return self._ask(work, call, occurrence, kept)
        return self.shared.get(call, lambda: self._ask(work, call, occurrence, kept), work.check)

    def _ask(self, work: Work, call: Get, occurrence: int, kept: Callable[[threading.Event], None]) -> Answer:
        if work.claim.reuses and (call.fingerprint, occurrence) not in work.stored:
            take_over(self.connections, self.writer, work, call, occurrence)
        while (call.fingerprint, occurrence) not in work.stored:
            work.check()
            self.breaker.check(work)
            answer = self._attempt(work, call, occurrence)
            if answer is not None:
                if len(answer.body) <= answers.MAX_KEPT_BYTES:
                    kept(self._keep(work, call, occurrence, answer))
                return answer
        status, headers, body = work.stored[call.fingerprint, occurrence]
        return Answer(status, body, headers)

    def _attempt(self, work: Work, call: Get, occurrence: int) -> Answer | None:
        """One request under one permit; None: the key was at fault, or it must not be sent; look again."""
        taken: list[Sent] = []
        under_way: list[Permit] = []
        waiting_since = time.monotonic()

        def give_back() -> None:
            while under_way:
                self.permits.done(under_way.pop())

        def authorize() -> Mapping[str, str]:
            give_back()  # what was sent before this one has come to nothing
            permit = self.permits.take(work, call.tokens)
            under_way.append(permit)
            self.breaker.check(work)
            if work.claim.claim_no > 1:
                self._look_again(work, call, occurrence, permit)
            taken.append(Sent(permit, time.monotonic()))
            return self.service.headers(permit.secret)

        url = address(self.service, call, self.services_url)
        try:
            came = self.http.get(url, call, authorize, seconds=work.deadline - waiting_since)
        except _NotNow:
            return None
        finally:
            give_back()
        verdict = self._judge(came)
        took = time.monotonic() - (taken[-1].at if taken else waiting_since)
        self.breaker.hear(self.connections, work, came, verdict, took)
        if not taken:
            raise CallFailed("service_unreachable", getattr(verdict, "message", ""))
        sent = taken[-1]
        self._log(work, call, sent, came, verdict, waited=sent.at - waiting_since)
        if isinstance(came, Received) and isinstance(verdict, Usable):
            self.budgets.hear(self.connections, self.service.name, sent.permit.account_id, came.headers, took)
        effects = Effects(self.service, self.connections, self.breaker)
        answer = effects.act(sent.permit, came, verdict)
        if work.claim.key_id is not None:
            effects.conclude(sent.permit, verdict)
        return answer

    def _look_again(self, work: Work, call: Get, occurrence: int, permit: Permit) -> None:
        """Raise `_NotNow` if a holder that had lost the job has stored this answer after all, since then.

        Any before this one: between the one that lost it and this one others may have put it back.
        """
        try:
            with self.connections() as conn:
                late = answers.of_request(conn, work.claim.id, call.fingerprint, occurrence)
        except psycopg.OperationalError as error:
            log.warning("the database is away, %s is not sent: %s", described(call), error)
            raise _NotNow from None
        if late is not None:
            work.stored[call.fingerprint, occurrence] = late
        if late is not None or time.monotonic() > permit.use_by:
            raise _NotNow

    def _judge(self, came: Received | Unreachable) -> Verdict:
        if isinstance(came, Unreachable):
            ours = CAUSES[came.cause].fault is Fault.COMPANY
            return Refused(came.message) if ours else ServiceFailed(came.cause, came.message)
        return self.service.judge(came.status, came.headers, came.body, time.time())

    def _keep(self, work: Work, call: Get, occurrence: int, answer: Answer) -> threading.Event:
        return self.writer.keep(
            KeptAnswer(
                work.claim.id,
                call.fingerprint,
                occurrence,
                self.service.name,
                described(call),
                answer.status,
                answer.headers,
                answer.body,
            )
        )

    def _log(
        self,
        work: Work,
        call: Get,
        sent: Sent,
        came: Received | Unreachable,
        verdict: Verdict,
        *,
        waited: float,
    ) -> None:
        received = came if isinstance(came, Received) else None
        message = getattr(verdict, "message", None)
        if received and isinstance(verdict, Usable) and len(received.body) > answers.MAX_KEPT_BYTES:
            message = f"not kept: larger than {answers.MAX_KEPT_BYTES / 1e6:g} MB"
        self.writer.log(
            Call(
                work.claim.id,
                work.claim.claim_no,
                work.claim.worker,
                sent.permit.key_id,
                described(call),
                _name(verdict),
                received.status if received else None,
                without_key(message, sent.permit.secret, self.service) if message else None,
                waited_ms=round(waited * 1000),
                took_ms=round((time.monotonic() - sent.at) * 1000),
                late=sent.at > sent.permit.use_by,
                body_bytes=len(received.body) if received else 0,
                sent_at=sent.at,
            )
        )


def _name(verdict: Verdict) -> str:
    """`KeyRests` is logged as `key_rests`."""
    name = type(verdict).__name__
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
