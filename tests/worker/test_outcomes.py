"""Who pays for what, how long the pauses are, and what a result is worth."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.causes import CAUSES, Fault
from services.extraction import Empty, Failed, Fields, Source, Value
from store.claims import Claim, Settlement
from store.states import Outcome, Status
from worker.outcomes import backoff_seconds, failed, given_up, returned, settled

NAME = Value("Seven Ltd")


def _paid(settlement: Settlement) -> tuple[int, int]:
    return settlement.tried, settlement.faulted


@pytest.mark.parametrize("cause", CAUSES.values(), ids=lambda cause: cause.code)
def test_only_who_is_at_fault_pays(a_claim: Callable[..., Claim], cause: Any) -> None:
    left = failed(a_claim(), cause.code, "words")
    match cause.fault:
        case Fault.COMPANY:
            assert _paid(left) == (1, 0)
            assert left.status is (Status.PENDING if cause.retries else Status.FAILED)
        case Fault.SERVICE:
            assert (_paid(left), left.status) == ((0, 1), Status.PENDING)
        case Fault.KEY | Fault.OURS:
            assert (_paid(left), left.status, left.pause_seconds) == ((0, 0), Status.PENDING, None)
    assert (left.cause, left.message, left.result, left.outcome) == (cause.code, "words", None, None)


@pytest.mark.parametrize("cause", CAUSES.values(), ids=lambda cause: cause.code)
def test_a_limit_ends_only_what_pays_for_it(a_claim: Callable[..., Claim], cause: Any) -> None:
    tired = a_claim(attempts=4, faults=19, losses=4, max_attempts=5, max_faults=20)
    left = failed(tired, cause.code, "")
    pays = cause.fault in (Fault.COMPANY, Fault.SERVICE)
    assert left.status is (Status.FAILED if pays else Status.PENDING)
    fresh = a_claim(attempts=3, faults=18, max_attempts=5, max_faults=20)
    runs_again = cause.retries or not pays
    assert failed(fresh, cause.code, "").status is (Status.PENDING if runs_again else Status.FAILED)


def test_a_failed_probe_costs_its_job_nothing_and_lets_others_try_first(
    a_claim: Callable[..., Claim],
) -> None:
    """The service was down before the job came; only who failed while others were answered pays."""
    left = failed(a_claim(is_probe=True, faults=1), "service_error", "503")
    assert (_paid(left), left.status) == ((0, 0), Status.PENDING)
    assert left.pause_seconds is not None
    assert _paid(failed(a_claim(is_probe=True, faults=5), "service_error", "503")) == (0, 1)
    assert _paid(failed(a_claim(is_probe=True), "parse_error", "")) == (1, 0)


def test_a_job_that_is_given_up_does_not_take_the_next_slot_too(a_claim: Callable[..., Claim]) -> None:
    left = given_up(a_claim(attempts=0, max_attempts=5))
    assert (left.status, left.cause, _paid(left)) == (Status.FAILED, "too_slow", (1, 0))


def test_what_goes_back_unharmed_keeps_its_place_and_the_fence(a_claim: Callable[..., Claim]) -> None:
    claim = a_claim(claim_no=3, attempts=2)
    left = returned(claim, "shutdown", "the worker is stopping")
    assert left == Settlement(7, claim.worker, 3, Status.PENDING, None, "shutdown", "the worker is stopping")
    assert left.pause_seconds is None


@given(st.integers(1, 40))
def test_a_pause_doubles_up_to_five_minutes_and_is_never_negative(times: int) -> None:
    longest = backoff_seconds(times, lambda _low, high: high)
    assert longest == min(300.0, 2.0 * 2 ** (times - 1))
    assert backoff_seconds(times, lambda low, _high: low) == 0.0
    assert 0.0 <= backoff_seconds(times) <= longest
    assert backoff_seconds(times + 1, lambda _low, high: high) >= longest


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ({"name": NAME, "total": Value(5)}, Outcome.COMPLETE),
        ({"name": NAME}, Outcome.COMPLETE),
        ({"name": NAME, "total": Value(None)}, Outcome.COMPLETE),
        ({"total": Value(5)}, Outcome.PARTIAL),
        ({"name": Value(None), "total": Value(5)}, Outcome.PARTIAL),
        ({}, Outcome.PARTIAL),
    ],
)
def test_a_result_is_complete_when_every_required_field_is_there(
    a_claim: Callable[..., Claim], values: dict[str, Value], outcome: Outcome
) -> None:
    left = settled(a_claim(), Fields(values))
    assert (left.status, left.outcome, left.cause, _paid(left)) == (Status.DONE, outcome, None, (0, 0))


@pytest.mark.parametrize("nothing", ["", 0, False, Decimal(0)])
def test_nought_is_a_value_and_not_a_missing_field(a_claim: Callable[..., Claim], nothing: Any) -> None:
    assert settled(a_claim(), Fields({"name": Value(nothing)})).outcome is Outcome.COMPLETE


def test_a_result_holds_what_was_asked_for_with_sources_and_flags(a_claim: Callable[..., Claim]) -> None:
    source = Source(tag="Turnover", period_end=date(2024, 3, 31), filed=None)
    values = {"total": Value(Decimal("1.50"), source, ("derived",)), "name": NAME, "more": Value(1)}
    left = settled(a_claim(), Fields(values, flags=("no_units",)))
    assert left.result is not None
    assert json.loads(left.result) == {
        "values": {"name": "Seven Ltd", "total": 1.5},
        "sources": {"total": {"tag": "Turnover", "period_end": "2024-03-31"}},
        "flags": {"total": ["derived"]},
        "notes": ["no_units"],
    }
    assert list(json.loads(left.result)["values"]) == ["name", "total"]


def test_a_bad_value_is_missing_and_keeps_its_source_and_flags(a_claim: Callable[..., Claim]) -> None:
    source = Source(tag="Turnover")
    left = settled(a_claim(), Fields({"name": Value(None, source, ("not_text",)), "total": Value(5)}))
    assert left.outcome is Outcome.PARTIAL
    assert json.loads(left.result or "") == {
        "values": {"total": 5},
        "sources": {"name": {"tag": "Turnover"}},
        "flags": {"name": ["not_text"]},
    }


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("123456789012345678901234567890.123456789", "123456789012345678901234567890.123456789"),
        ("0.1", "0.1"),
        ("1E+3", "1000"),
        ("-0.00", "-0"),
        ("1500.00", "1500"),
        ("1E-7", "0.0000001"),
    ],
)
def test_numbers_are_kept_exactly(a_claim: Callable[..., Claim], number: str, text: str) -> None:
    left = settled(a_claim(), Fields({"name": NAME, "total": Value(Decimal(number))}))
    assert left.result is not None
    assert f'"total":{text}}}' in left.result


@pytest.mark.parametrize(
    "number", [Decimal("NaN"), Decimal("Infinity"), Decimal("1E+400"), Decimal("1E-400"), 1.5, b"x", {1}]
)
def test_what_cannot_be_stored_fails_with_its_cause(a_claim: Callable[..., Claim], number: Any) -> None:
    left = settled(a_claim(), Fields({"name": NAME, "total": Value(number)}))
    assert (left.status, left.cause, left.result, _paid(left)) == (Status.FAILED, "bad_result", None, (1, 0))
    assert left.message


@pytest.mark.parametrize("text", ["a\x00b", "a\ud800b", "x" * 5_000_000])
def test_any_text_can_be_stored(a_claim: Callable[..., Claim], text: str) -> None:
    left = settled(a_claim(), Fields({"name": Value(text, Source(document=text), (text[:10],))}))
    assert left.outcome is Outcome.COMPLETE
    assert left.result is not None
    left.result.encode()
    assert "\\u0000" not in left.result
    assert len(left.result) < 250_000


def test_an_empty_result_says_why(a_claim: Callable[..., Claim]) -> None:
    left = settled(a_claim(), Empty("pdf_only", "on paper"))
    assert (left.status, left.outcome, left.cause, left.message) == (
        Status.DONE,
        Outcome.EMPTY,
        "pdf_only",
        "on paper",
    )
    assert left.result == '{"values":{}}'
    assert settled(a_claim(), Empty("no_facts")).message is None


def test_a_failure_of_the_extractor_is_the_companys(a_claim: Callable[..., Claim]) -> None:
    left = settled(a_claim(), Failed("parse_error", "no root"))
    assert (left.status, left.cause, _paid(left)) == (Status.FAILED, "parse_error", (1, 0))
