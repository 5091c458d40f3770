"""Whether it is worth waiting for a permit, and how long; by every answer of the ledger."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.ledger import Answer, Busy, NoKey, Reservation, Resting
from worker import outlook as module
from worker.outlook import Nap, outlook
from worker.work import PutBack


def reserved(wait_seconds: float) -> Reservation:
    return Reservation(3, 4, "one", b"", "f", (), 0.1, wait_seconds)


def look(answer: Answer, *, is_test: bool = False, under_way: int = 0, in_vain: float = 0.0) -> Nap | PutBack:
    return outlook(answer, "registry", is_test=is_test, under_way=under_way, in_vain_seconds=in_vain)


@pytest.mark.parametrize(
    ("answer", "is_test", "cause", "message"),
    [
        (NoKey(), False, "no_key", "no usable key for registry"),
        (NoKey(), True, "no_key", "the key is disabled, or this worker cannot open it"),
        (Resting(29.6, "rate page"), False, "service_resting", "registry rests for 30 s: rate page"),
        (Resting(math.inf, "503"), True, "service_resting", "registry rests: 503"),
        (reserved(30.0), False, "rate_limited", "every usable key is at its limit for 30 s"),
        (reserved(30.0), True, "rate_limited", "the key is at its limit for 30 s"),
    ],
)
def test_who_would_wait_long_goes_back_and_hears_why_and_until_when(
    answer: Answer, is_test: bool, cause: str, message: str
) -> None:
    what = look(answer, is_test=is_test)
    assert isinstance(what, PutBack)
    assert (what.cause, what.message) == (cause, message)


def test_who_waits_for_a_call_of_its_own_worker_is_woken_by_its_end() -> None:
    assert look(reserved(math.inf), under_way=1, in_vain=99.0) == Nap(1.0, until_done=True)


def test_who_waits_for_calls_of_others_asks_ever_more_rarely_and_goes_back_after_a_while() -> None:
    waited, asked = 0.0, []
    while isinstance(what := look(reserved(math.inf), in_vain=waited), Nap):
        asked.append(what.seconds)
        waited += what.seconds
    assert (what.cause, what.message) == ("rate_limited", "every usable key is at its limit")
    assert asked == sorted(asked)
    assert (asked[0], asked[-1]) == (0.1, 1.0)
    assert module.SLOT_PATIENCE_SECONDS <= waited < module.SLOT_PATIENCE_SECONDS + 1.0
    assert len(asked) < 20


@given(
    answer=st.one_of(
        st.builds(Busy),
        st.builds(Resting, st.floats(0.0, 4.0), st.just("503")),
        st.builds(reserved, st.floats(-1.0, 4.0)),
    ),
    in_vain=st.floats(0.0, 4.0),
)
def test_a_nap_is_neither_a_spin_nor_long(answer: Answer, in_vain: float) -> None:
    what = look(answer, in_vain=in_vain)
    if isinstance(what, Nap):
        assert module.BUSY_PAUSE_SECONDS <= what.seconds <= module.LONGEST_NAP_SECONDS
