"""Runs one job from claim to settlement."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Mapping
from concurrent.futures import Executor
from contextlib import closing
from dataclasses import dataclass, field

from services.extraction import Answer, CallFailed, Company, Extraction, Fields, Get, Options, Read, Result
from services.typed import Column, checked, columns
from store.claims import Claim, Settlement
from worker.calling import Caller
from worker.driver import BadExtractor, Driver, TooMuch
from worker.outcomes import failed, returned, settled
from worker.parses import Parses
from worker.work import ClaimLost, OutOfTime, PutBack, Work

log = logging.getLogger(__name__)

KEPT_CHECK_SECONDS = 0.2
MOST_LISTS = 1000


@dataclass(frozen=True, slots=True)
class Runner:
    """Drives the extractor of a job's service. `side_by_side` runs the calls of a yielded list."""

    callers: Mapping[str, Caller]
    side_by_side: Executor
    parses: Parses = field(default_factory=Parses)
    _columns: dict[int, tuple[Column, ...]] = field(default_factory=dict)

    def run(self, work: Work) -> Settlement:
        """How the job is left, whatever the extractor does."""
        claim = work.claim
        try:
            return self._outcome(work)
        except BaseException as error:  # an extractor that exits costs one job too, not its slot
            log.exception("job %d (%s): the extractor failed", claim.id, claim.company)
            return failed(claim, "extractor_error", traceback.format_exception_only(error)[-1].strip())

    def _outcome(self, work: Work) -> Settlement:
        claim = work.claim
        try:
            return settled(claim, self._extract(work))
        except ClaimLost:
            # Behind the fence: nothing changes when somebody else has it; when nobody has, it must run again.
            return returned(claim, "shutdown", "its worker was cut off from the database")
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

    def _extract(self, work: Work) -> Result:
        work.check()  # it may have stood in line
        claim = work.claim
        caller = self.callers[claim.service]
        on_their_way: list[threading.Event] = []

        def ask(call: Get, occurrence: int) -> Answer:
            # What was paid for is stored before anything more is paid for.
            for kept in on_their_way.copy():
                while not kept.wait(KEPT_CHECK_SECONDS):
                    work.check()
            return caller.ask(work, call, occurrence, on_their_way.append)

        def read(file: Read) -> bytes:
            return caller.files.read(claim.options["folder"], file.member)

        company = Company(claim.company, claim.name, claim.extra)
        options = Options(tuple(claim.fields), claim.options)
        extraction = caller.service.extract(company, options)
        if claim.key_id is not None:
            extraction = first_answer(extraction)
        driver = Driver(ask, read, self.side_by_side, lambda given: self.parses.turn(given, work.check))
        result = driver.run(extraction)
        if isinstance(result, Fields):
            return checked(result, self._columns_of(claim))
        return result

    def _columns_of(self, claim: Claim) -> tuple[Column, ...]:
        """Made once for a list: none of it changes once a job has run."""
        found = self._columns.get(claim.list_id)
        if found is None:
            if len(self._columns) >= MOST_LISTS:
                self._columns.clear()
            service = self.callers[claim.service].service
            found = self._columns[claim.list_id] = columns(service, claim.fields, claim.types)
        return found


def first_answer(extraction: Extraction) -> Extraction:
    """The extraction up to its first answer, whatever that is: it proves a key, at the price of a call."""
    with closing(extraction):
        asked = next(extraction)
        yield asked if isinstance(asked, Get | Read) else asked[0]
        return Fields({})
