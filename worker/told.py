"""What answers tell of an account or a service beside their data, and how everybody comes to know it.

Only news costs a statement: an answer that says what the ledger thinks costs none.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeVar

import psycopg

from services import rests
from services.rests import Budget
from services.verdicts import ServiceFailed, Verdict
from store import circuits, steering
from store.circuits import Circuit
from store.cleaning import text
from worker.connections import Connections
from worker.http import Received, Unreachable
from worker.work import PutBack, Work

log = logging.getLogger(__name__)

LONGEST_MESSAGE = 300
LEAST_REST_SECONDS = 1.0
REST_JITTER = 0.1
# A shorter wait is over before anybody would act on it; the ledger's own windows are as short.
SHORTEST_SECONDS = 2.0
SAME_RESET_SECONDS = 1.5

Changed = TypeVar("Changed")


def rest_seconds(asked: float) -> float:
    """What a service asks for is a floor: on top comes what keeps everybody from coming back at once."""
    return max(asked, LEAST_REST_SECONDS) * random.uniform(1.0, 1.0 + REST_JITTER)  # noqa: S311


def write(
    connections: Connections, change: Callable[..., Changed], *arguments: object, **named: object
) -> Changed | None:
    """What the change returns; None: the database is away, and what was said is lost."""
    try:
        with connections() as conn:
            return change(conn, *arguments, **named)
    except psycopg.OperationalError as error:
        log.warning("the database is away, %s is not written: %s", change.__name__, error)
        return None


def steer(
    service: str, connections: Connections, change: Callable[..., bool], *arguments: object, **named: object
) -> None:
    """Tell everybody what an answer said of a key or the service; the first one to say it logs it."""
    if write(connections, change, *arguments, **named):
        log.warning("%s: %s %s", service, change.__name__, arguments)


@dataclass(slots=True)
class Breaker:
    """The service's circuit as this worker's calls feel it. Safe to use from several threads.

    When it opens, the jobs that were begun before are stopped: each would spend a call to learn the same.
    """

    _stopped_at: float = float("-inf")

    def stop(self) -> bool:
        """From now on, for the jobs there are. False: they have been stopped a moment ago."""
        is_news = time.monotonic() - self._stopped_at > SHORTEST_SECONDS
        self._stopped_at = time.monotonic()
        return is_news

    def check(self, work: Work) -> None:
        """Raise `PutBack` if the service has stopped since the work was begun; not if this one tries it."""
        if work.began < self._stopped_at and not work.claim.is_probe:
            raise PutBack("service_resting", "the service does not answer, or asked everybody to pause")

    def hear(
        self,
        connections: Connections,
        work: Work,
        came: Received | Unreachable,
        verdict: Verdict,
        took_seconds: float,
    ) -> None:
        """A failure counts for everybody. A probe says whether the service answers again, the first time."""
        claim = work.claim
        match verdict:
            case ServiceFailed(message=message) if work.is_probing:
                work.is_probing = False
                words = text(message, LONGEST_MESSAGE)
                steer(
                    claim.service, connections, circuits.fail, claim.service, claim.id, claim.claim_no, words
                )
            case ServiceFailed(message=message) if not claim.is_probe:
                words = text(message, LONGEST_MESSAGE)
                now = write(connections, circuits.trip, claim.service, took_seconds, words)
                if now is Circuit.OPEN and self.stop():
                    log.warning("%s does not answer: %s", claim.service, words)
            case _ if work.is_probing and isinstance(came, Received):
                work.is_probing = False
                steer(claim.service, connections, circuits.prove, claim.service, claim.id, claim.claim_no)


@dataclass(slots=True)
class Budgets:
    """What good answers say is left of each account. Safe to use from several threads."""

    _seen: dict[tuple[int, str], tuple[int, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def hear(
        self,
        connections: Connections,
        service: str,
        account_id: int,
        headers: Mapping[str, str],
        age_seconds: float,
    ) -> None:
        """When less is left than the ledger thinks, somebody else uses the account too: make room.

        `age_seconds`: since the call was sent, for a reset is told from then on.
        """
        for told in rests.budgets(headers, time.time() - age_seconds):
            reset = told.reset_seconds - age_seconds
            if not self._is_news(account_id, replace(told, reset_seconds=reset)):
                continue
            unit = told.unit.value
            if told.left:
                steer(service, connections, steering.lower, account_id, unit, told.left, reset)
            else:
                words = f"the service says that no {unit} are left"
                rest = rest_seconds(reset)
                steer(service, connections, steering.rest_used_up, account_id, unit, reset, rest, words)

    def _is_news(self, account_id: int, budget: Budget) -> bool:
        """Whether to compare with the ledger: a new window, nothing left, or half of the last time.

        So a window costs a worker one look more than its limit can be halved.
        """
        if budget.reset_seconds < SHORTEST_SECONDS:
            return False
        resets_at = time.monotonic() + budget.reset_seconds
        with self._lock:
            left, until = self._seen.get((account_id, budget.unit), (0, -1.0))
            is_same = abs(resets_at - until) < SAME_RESET_SECONDS
            if is_same and budget.left >= (left + 1) // 2:
                return False
            self._seen[account_id, budget.unit] = (budget.left, resets_at)
        return True
