"""Runs one job from claim to settlement."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Executor
from dataclasses import dataclass

from services.extraction import Answer, CallFailed, Company, Get, Options, Result
from store.claims import Settlement
from worker.calling import Caller
from worker.driver import BadExtractor, Driver, TooMuch
from worker.outcomes import failed, returned, settled
from worker.work import ClaimLost, OutOfTime, PutBack, Work

log = logging.getLogger(__name__)

KEPT_CHECK_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Runner:
    """Drives the extractor of a job's service. `side_by_side` runs the calls of a yielded list."""

    callers: Mapping[str, Caller]
    side_by_side: Executor

    def run(self, work: Work) -> Settlement | None:
        """How the job is left; None when the claim was lost and nothing may be written."""
        claim = work.claim
        try:
            return settled(claim, self._extract(work))
        except ClaimLost:
            log.warning("lost claim: job %d (%s), claim %d", claim.id, claim.company, claim.claim_no)
            return None
        except PutBack as reason:
            return returned(claim, reason.cause, reason.message)
        except OutOfTime:
            return failed(claim, "too_slow", f"not ready within {claim.run_seconds} s")
        except CallFailed as error:
            return failed(claim, error.cause, error.message)
        except TooMuch as error:
            return failed(claim, "too_large", str(error))
        except BadExtractor as error:
            log.error("job %d (%s): %s", claim.id, claim.company, error)  # noqa: TRY400 - its text says all
            return failed(claim, "extractor_error", str(error))
        except Exception as error:  # whatever an extractor raises costs one job, not the worker
            log.exception("job %d (%s): the extractor failed", claim.id, claim.company)
            return failed(claim, "extractor_error", f"{type(error).__name__}: {error}")

    def _extract(self, work: Work) -> Result:
        claim = work.claim
        caller = self.callers[claim.service]
        on_their_way: list[threading.Event] = []

        def ask(call: Get, occurrence: int) -> Answer:
            # What was paid for is stored before anything more is paid for.
            for kept in on_their_way.copy():
                while not kept.wait(KEPT_CHECK_SECONDS):
                    work.check()
            return caller.ask(work, call, occurrence, on_their_way.append)

        company = Company(claim.company, claim.name, claim.extra)
        options = Options(tuple(claim.fields), claim.options)
        return Driver(ask, self.side_by_side).run(caller.service.extract(company, options))
