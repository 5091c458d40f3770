"""Makes one call for a job: kept answer or permit, request, verdict, and what the verdict does to the key."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

import psycopg

from services.causes import CAUSES, Fault
from services.extraction import Answer, CallFailed, Get
from services.service import Service
from services.verdicts import (
    KeyExhausted,
    KeyInvalid,
    KeyRests,
    Refused,
    ServiceFailed,
    ServiceRests,
    Usable,
    Verdict,
)
from store import answers, keys, ledger
from store.answers import KeptAnswer
from store.calls import Call
from store.cleaning import text
from store.vault import fingerprint
from worker.connections import Connections
from worker.http import KEPT_HEADERS, Http, Received, Unreachable, address, described
from worker.line import Permit
from worker.permits import Permits
from worker.reading import Files
from worker.reusing import take_over
from worker.shared import SharedAnswers
from worker.told import LONGEST_MESSAGE, Breaker, Budgets, rest_seconds, steer, write
from worker.work import PutBack, Work
from worker.writer import Writer

log = logging.getLogger(__name__)

TELLTALE_CHARACTERS = 6


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
            if work.claim.losses:
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
        answer = self._act(sent.permit, came, verdict)
        if work.claim.key_id is not None:
            self._conclude(sent.permit, verdict)
        return answer

    def _look_again(self, work: Work, call: Get, occurrence: int, permit: Permit) -> None:
        """Raise `_NotNow` if the holder that lost the job has stored this answer after all, since then."""
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

    def _conclude(self, permit: Permit, verdict: Verdict) -> None:
        """What a call has shown of the key that it was a test of; no other key is tried."""
        match verdict:
            case Usable():
                self._steer(keys.prove, permit.key_id)
            case KeyRests(message=message):
                raise CallFailed("rate_limited", self._clean(message, permit) or "the key is at its limit")
            case KeyInvalid(message):
                raise CallFailed("key_invalid", self._clean(message, permit))
            case KeyExhausted(message):
                raise CallFailed("key_exhausted", self._clean(message, permit))

    def _judge(self, came: Received | Unreachable) -> Verdict:
        if isinstance(came, Unreachable):
            ours = CAUSES[came.cause].fault is Fault.COMPANY
            return Refused(came.message) if ours else ServiceFailed(came.cause, came.message)
        return self.service.judge(came.status, came.headers, came.body, time.time())

    def _act(self, permit: Permit, came: Received | Unreachable, verdict: Verdict) -> Answer | None:
        match verdict:
            case Usable():
                assert isinstance(came, Received)  # noqa: S101 - only what was received is judged usable
                answer = Answer(came.status, came.body, _kept(came.headers))
                self._correct(permit, answer)
                return answer
            case KeyRests(seconds, message):
                words = self._clean(message, permit) or "rate limited"
                self._steer(ledger.rest_account, permit.account_id, rest_seconds(seconds), words)
                return None
            case KeyInvalid(message):
                words = self._clean(message, permit) or "rejected by the service"
                self._steer(keys.reject, permit.key_id, words, mark=fingerprint(permit.secret))
                return None
            case KeyExhausted(message):
                words = self._clean(message, permit) or "quota used up"
                self._steer(keys.exhaust, permit.key_id, words, mark=fingerprint(permit.secret))
                return None
            case ServiceRests(seconds, message):
                words = self._clean(message, permit) or "the service asked everybody to pause"
                self._steer(ledger.rest_service, self.service.name, rest_seconds(seconds), words)
                self.breaker.stop()
                raise PutBack("service_resting", words)
            case ServiceFailed(cause, message):
                raise CallFailed(cause, self._clean(message, permit) or CAUSES[cause].meaning)
            case Refused(message):
                cause = came.cause if isinstance(came, Unreachable) else "bad_request"
                raise CallFailed(cause, self._clean(message, permit) or CAUSES[cause].meaning)
            case _:
                assert_never(verdict)

    def _correct(self, permit: Permit, answer: Answer) -> None:
        """Have the ledger count what the answer has cost instead of what it was thought to cost."""
        if not permit.counts_tokens or self.service.tokens_of is None:
            return
        try:
            actual = self.service.tokens_of(answer)
        except Exception:  # the answer is paid for; it must not be lost to a wrong count
            log.exception("%s: an answer does not say its tokens as expected", self.service.name)
            return
        if actual is not None and actual != permit.tokens:
            costs = {"estimated": permit.tokens, "actual": actual}
            write(self.connections, ledger.correct, permit.account_id, permit.at, **costs)

    def _steer(self, change: Callable[..., bool], *arguments: object, **named: object) -> None:
        steer(self.service.name, self.connections, change, *arguments, **named)

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
                self._clean(message, sent.permit) if message else None,
                waited_ms=round(waited * 1000),
                took_ms=round((time.monotonic() - sent.at) * 1000),
                late=sent.at > sent.permit.use_by,
                body_bytes=len(received.body) if received else 0,
                sent_at=sent.at,
            )
        )

    def _clean(self, message: str, permit: Permit) -> str:
        """The service's words without the key, which some services echo, as it is or as it was sent."""
        sent = self.service.headers(permit.secret)
        values = [value for name, value in sent.items() if not name.lower().startswith("accept")]
        shown = {permit.secret, *values, *(value.rpartition(" ")[2] for value in values)}
        for secret in sorted(shown, key=len, reverse=True):
            message = _hidden(message, secret)
        return text(message, LONGEST_MESSAGE)


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: text(value) for name, value in headers.items() if name in KEPT_HEADERS}


def _hidden(message: str, secret: str) -> str:
    """The message without the secret, and without the part of it that a cut message may end with."""
    message = message.replace(secret, "[key]")
    for length in range(len(secret) - 1, TELLTALE_CHARACTERS - 1, -1):
        if message.endswith(secret[:length]):
            return message[:-length] + "[key]"
    return message


def _name(verdict: Verdict) -> str:
    """`KeyRests` is logged as `key_rests`."""
    name = type(verdict).__name__
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name).lstrip("_")
