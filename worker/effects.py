"""What a verdict does: to the key and its account, to the service for everybody, and to the job."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

from services.causes import CAUSES
from services.extraction import Answer, CallFailed
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
from store import keys, steering
from store.cleaning import text
from store.vault import fingerprint
from worker.connections import Connections
from worker.http import KEPT_HEADERS, Received, Unreachable
from worker.line import Permit
from worker.redaction import without_key
from worker.told import Breaker, rest_seconds, steer, write
from worker.work import PutBack

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Effects:
    """Of the verdicts on calls of one service."""

    service: Service
    connections: Connections
    breaker: Breaker

    def act(self, permit: Permit, came: Received | Unreachable, verdict: Verdict) -> Answer | None:
        """The answer; None: the key was at fault. Raises `CallFailed` or `PutBack` for what is the job's."""
        match verdict:
            case Usable():
                assert isinstance(came, Received)  # noqa: S101 - only what was received is judged usable
                answer = Answer(came.status, came.body, _kept(came.headers))
                self._correct(permit, answer)
                return answer
            case KeyRests(seconds, message):
                words = self._words(message, permit) or "rate limited"
                self._steer(steering.rest_account, permit.account_id, rest_seconds(seconds), words)
                return None
            case KeyInvalid(message):
                words = self._words(message, permit) or "rejected by the service"
                self._steer(keys.reject, permit.key_id, words, mark=fingerprint(permit.secret))
                return None
            case KeyExhausted(message):
                words = self._words(message, permit) or "quota used up"
                self._steer(keys.exhaust, permit.key_id, words, mark=fingerprint(permit.secret))
                return None
            case ServiceRests(seconds, message):
                words = self._words(message, permit) or "the service asked everybody to pause"
                self._steer(steering.rest_service, self.service.name, rest_seconds(seconds), words)
                self.breaker.stop()
                raise PutBack("service_resting", words)
            case ServiceFailed(cause, message):
                raise CallFailed(cause, self._words(message, permit) or CAUSES[cause].meaning)
            case Refused(message):
                cause = came.cause if isinstance(came, Unreachable) else "bad_request"
                raise CallFailed(cause, self._words(message, permit) or CAUSES[cause].meaning)
            case _:
                assert_never(verdict)

    def conclude(self, permit: Permit, verdict: Verdict) -> None:
        """What a call has shown of the key that it was a test of; no other key is tried."""
        match verdict:
            case Usable():
                self._steer(keys.prove, permit.key_id)
            case KeyRests(message=message):
                raise CallFailed("rate_limited", self._words(message, permit) or "the key is at its limit")
            case KeyInvalid(message):
                raise CallFailed("key_invalid", self._words(message, permit))
            case KeyExhausted(message):
                raise CallFailed("key_exhausted", self._words(message, permit))

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
            write(self.connections, steering.correct, permit.account_id, permit.at, **costs)

    def _steer(self, change: Callable[..., bool], *arguments: object, **named: object) -> None:
        steer(self.service.name, self.connections, change, *arguments, **named)

    def _words(self, message: str, permit: Permit) -> str:
        return without_key(message, permit.secret, self.service)


def _kept(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: text(value) for name, value in headers.items() if name in KEPT_HEADERS}
