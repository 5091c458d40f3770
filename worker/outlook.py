"""What to do when the ledger has no permit: ask again after a while, or put the job back. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import assert_never

from store.ledger import Answer, Busy, NoKey, Reservation, Resting
from worker.reserving import AHEAD_SECONDS
from worker.work import PutBack

BUSY_PAUSE_SECONDS = 0.004
LONGEST_NAP_SECONDS = 1.0

# A job whose permit is further away goes back to the queue; nothing is claimed for permits further away.
SOON_SECONDS = 2.0

# Nobody knows when calls of others end. Who waits for a slot of theirs has it when the next one ends or, with
# more workers than slots, in its turn; and goes back when that takes long.
SLOT_PATIENCE_SECONDS = 5.0
SHORTEST_SLOT_NAP_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Nap:
    """Ask again after `seconds`, or, with `until_done`, as soon as a call of ours has ended."""

    seconds: float
    until_done: bool = False


def outlook(
    answer: Answer, service: str, *, is_test: bool, under_way: int, in_vain_seconds: float
) -> Nap | PutBack:
    """Whether it is worth waiting.

    `is_test`: it was asked for one key, to test it. `under_way`: calls of ours at the account of a
    reservation. `in_vain_seconds`: how long it has been known that calls of others have to end first.
    """
    match answer:
        case Busy():
            return Nap(BUSY_PAUSE_SECONDS)
        case NoKey():
            here = "the key is disabled, or this worker cannot open it"
            return PutBack("no_key", here if is_test else f"no usable key for {service}")
        case Resting(seconds, cause):
            if seconds <= SOON_SECONDS:
                return _nap(seconds)
            return PutBack("service_resting", f"{service} rests{_for(seconds)}: {cause}")
        case Reservation(wait_seconds=seconds):
            if math.isinf(seconds) and under_way:
                return Nap(LONGEST_NAP_SECONDS, until_done=True)
            if math.isinf(seconds) and in_vain_seconds < SLOT_PATIENCE_SECONDS:
                return _nap(max(in_vain_seconds / 4, SHORTEST_SLOT_NAP_SECONDS))
            if seconds <= SOON_SECONDS:
                return _nap(seconds - AHEAD_SECONDS / 2)
            which = "the key is" if is_test else "every usable key is"
            return PutBack("rate_limited", f"{which} at its limit{_for(seconds)}")
        case _:
            assert_never(answer)


def _nap(seconds: float) -> Nap:
    return Nap(min(max(seconds, BUSY_PAUSE_SECONDS), LONGEST_NAP_SECONDS))


def _for(seconds: float) -> str:
    """For how long, where that is known."""
    return "" if math.isinf(seconds) else f" for {seconds:.0f} s"
