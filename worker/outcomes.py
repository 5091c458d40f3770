"""From what happened to what is written back: pure, so that every rule of retrying can be read here."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, assert_never

from services.causes import CAUSES, Fault
from services.extraction import Empty, Failed, Fields, Result, Source
from store.claims import Claim, Settlement
from store.cleaning import Unstorable, to_json
from store.states import Outcome, Status

SOURCE_PARTS = tuple(part.name for part in fields(Source))
FIRST_PAUSE_SECONDS = 2.0
LONGEST_PAUSE_SECONDS = 300.0
# Whoever failed so often while the service answered others may be at fault itself, also when it is a probe.
FAULTS_OF_A_SUSPECT = 5


def backoff_seconds(times: int, uniform: Callable[[float, float], float] = random.uniform) -> float:
    """A pause before trying again after `times` failures: exponential with full jitter, at most 5 minutes.

    Source: Exponential Backoff And Jitter, AWS Architecture Blog, 2015.
    """
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** min(times - 1, 10))
    return uniform(0.0, longest)


def settled(claim: Claim, result: Result) -> Settlement:
    """How a job ends, or goes back, after its extractor returned."""
    match result:
        case Fields():
            return _done(claim, result)
        case Empty(cause, message):
            return Settlement(
                claim.id,
                claim.worker,
                claim.claim_no,
                Status.DONE,
                Outcome.EMPTY,
                cause,
                message or None,
                result=to_json({"values": {}}),
            )
        case Failed(cause, message):
            return failed(claim, cause, message)
        case _:
            assert_never(result)


def failed(claim: Claim, cause: str, message: str) -> Settlement:
    """What a failure costs, by whose fault it is, and whether the job runs again by itself."""
    what = CAUSES[cause]
    tried = faulted = 0
    match what.fault:
        case Fault.COMPANY:
            tried, count, limit = 1, claim.attempts + 1, claim.max_attempts
        case Fault.SERVICE if claim.is_probe and claim.faults < FAULTS_OF_A_SUSPECT:
            return replace(returned(claim, cause, message), pause_seconds=backoff_seconds(claim.faults + 1))
        case Fault.SERVICE:
            faulted, count, limit = 1, claim.faults + 1, claim.max_faults
        case Fault.KEY if claim.key_id is not None:  # what a test of this very key has shown
            tried = count = limit = 0
        case Fault.KEY | Fault.OURS:
            return returned(claim, cause, message)
        case _:
            assert_never(what.fault)
    runs_again = what.retries and count < limit
    return Settlement(
        claim.id,
        claim.worker,
        claim.claim_no,
        Status.PENDING if runs_again else Status.FAILED,
        cause=cause,
        message=message,
        pause_seconds=backoff_seconds(count) if runs_again else None,
        tried=tried,
        faulted=faulted,
    )


def given_up(claim: Claim) -> Settlement:
    """A job whose thread did not come back. It does not run again by itself: it would take more slots."""
    message = f"it did not end within {claim.run_seconds} s, nor when it was told to; it may hang in a parser"
    return Settlement(
        claim.id,
        claim.worker,
        claim.claim_no,
        Status.FAILED,
        cause="too_slow",
        message=message,
        tried=1,
    )


def returned(claim: Claim, cause: str, message: str) -> Settlement:
    """The job goes back unharmed and keeps its place: nothing of this was its company's doing."""
    return Settlement(claim.id, claim.worker, claim.claim_no, Status.PENDING, cause=cause, message=message)


def _done(claim: Claim, fields: Fields) -> Settlement:
    wanted = {name: fields.values[name] for name in claim.fields if name in fields.values}
    there = {name: value.value for name, value in wanted.items() if value.value is not None}
    is_complete = all(name in there for name in claim.required)
    stored: dict[str, Any] = {
        "values": there,
        "sources": {name: _source(value.source) for name, value in wanted.items() if value.source},
        "flags": {name: value.flags for name, value in wanted.items() if value.flags},
    }
    if fields.flags:
        stored["notes"] = fields.flags
    try:
        text = to_json(stored)
    except Unstorable as error:
        return failed(claim, "bad_result", str(error))
    outcome = Outcome.COMPLETE if is_complete else Outcome.PARTIAL
    return Settlement(claim.id, claim.worker, claim.claim_no, Status.DONE, outcome, result=text)


def _source(source: Source) -> dict[str, Any]:
    return {name: part for name in SOURCE_PARTS if (part := getattr(source, name)) is not None}
