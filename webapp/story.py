"""What happened to a job: its claims in order, each with the calls that were sent under it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby

from store.calls import CallSeen


@dataclass(frozen=True, slots=True)
class Sent:
    """A call with its bar: where waiting and answering begin and how wide they are, in % of the attempt."""

    call: CallSeen
    waits_at: float
    waits: float
    answers_at: float
    answers: float


@dataclass(frozen=True, slots=True)
class Attempt:
    """What was sent under one claim, over `seconds` from `begun` on."""

    claim_no: int
    worker: str
    begun: datetime
    seconds: float
    sent: Sequence[Sent]


@dataclass(frozen=True, slots=True)
class Quiet:
    """Claims under which no call was sent: everything was kept, or the job was put back or lost before."""

    first: int
    last: int


def story(claim_no: int, calls: Sequence[CallSeen], *, all_calls: bool = True) -> list[Attempt | Quiet]:
    """The claims up to `claim_no`. Without `all_calls` older ones are left out: their calls are not here."""
    found = {no: list(those) for no, those in groupby(calls, lambda call: call.claim_no)}
    first = 1 if all_calls or not found else min(found)
    return list(_told(range(first, claim_no + 1), found))


def _told(claims: range, found: dict[int, list[CallSeen]]) -> Iterator[Attempt | Quiet]:
    for has_calls, numbers in groupby(claims, found.__contains__):
        if has_calls:
            yield from (_attempt(found[no]) for no in numbers)
        else:
            quiet = list(numbers)
            yield Quiet(quiet[0], quiet[-1])


def _attempt(calls: Sequence[CallSeen]) -> Attempt:
    begun = min(call.sent_at - timedelta(milliseconds=call.waited_ms) for call in calls)
    ended = max(call.sent_at + timedelta(milliseconds=call.took_ms) for call in calls)
    whole_ms = max((ended - begun) / timedelta(milliseconds=1), 1.0)
    sent = []
    for call in calls:
        at_ms = (call.sent_at - begun) / timedelta(milliseconds=1)
        waits_at = max(at_ms - call.waited_ms, 0.0)
        parts = (waits_at, call.waited_ms, at_ms, max(call.took_ms, whole_ms / 100))
        sent.append(Sent(call, *(100 * part / whole_ms for part in parts)))
    one = calls[0]
    return Attempt(one.claim_no, one.worker_name or f"… {one.worker.hex[-4:]}", begun, whole_ms / 1000, sent)
