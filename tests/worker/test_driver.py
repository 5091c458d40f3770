"""The driver keeps the rules of `services.extraction`, whatever the extractor does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from services.extraction import Answer, CallFailed, Empty, Extraction, Failed, Fields, Get, Read, Value
from worker import driver
from worker.driver import BadExtractor, Driver, Stopped, TooMuch
from worker.work import ClaimLost, PutBack

DONE = Fields({"name": Value("A")})
A, B, C = Get("/a"), Get("/b"), Get("/c")


def _echo(call: Get, occurrence: int) -> Answer:
    return Answer(200, f"{call.path} {occurrence}".encode())


def _no_file(file: Read) -> bytes:
    raise CallFailed("not_available", f"{file.member} is not here")


@pytest.fixture(scope="module")
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


@pytest.fixture(scope="module")
def drive(executor: ThreadPoolExecutor) -> Callable[..., Any]:
    """`drive(extraction, ask)`: what comes of it."""

    def run(extraction: Any, ask: driver.Ask = _echo, read: driver.Open = _no_file) -> Any:
        return Driver(ask, read, executor).run(extraction)

    return run


def test_a_call_is_answered_where_it_was_yielded(drive: Callable[..., Any]) -> None:
    def extract() -> Extraction:
        first = yield A
        second = yield B
        return Fields({"name": Value(f"{first.body.decode()}, {second.body.decode()}")})

    assert drive(extract()).values["name"].value == "/a 1, /b 1"


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_runs_side_by_side_and_is_answered_in_its_order(
    drive: Callable[..., Any], kind: Callable[[list[Get]], Any]
) -> None:
    meet = threading.Barrier(3, timeout=5)

    def ask(call: Get, occurrence: int) -> Answer:
        meet.wait()  # nobody passes until all three are here
        return _echo(call, occurrence)

    def extract() -> Extraction:
        answers = yield kind([C, A, B])
        return Fields({"name": Value(" ".join(answer.body.decode() for answer in answers))})

    assert drive(extract(), ask).values["name"].value == "/c 1 /a 1 /b 1"


def test_an_empty_list_is_answered_with_none(drive: Callable[..., Any]) -> None:
    def extract() -> Extraction:
        assert (yield []) == []
        return DONE

    assert drive(extract()) is DONE


def test_the_same_question_is_counted_so_that_each_answer_is_found_again(drive: Callable[..., Any]) -> None:
    asked: list[tuple[str, int]] = []

    def ask(call: Get, occurrence: int) -> Answer:
        asked.append((call.path, occurrence))
        return _echo(call, occurrence)

    def extract() -> Extraction:
        yield A
        yield [A, B]
        yield Get("/a", params=())
        return DONE

    drive(extract(), ask)
    assert sorted(asked) == [("/a", 1), ("/a", 2), ("/a", 3), ("/b", 1)]


def test_a_single_failure_is_thrown_in_and_may_be_dealt_with(drive: Callable[..., Any]) -> None:
    def ask(call: Get, occurrence: int) -> Answer:
        if call is A:
            raise CallFailed("service_error", "down")
        return _echo(call, occurrence)

    def extract() -> Extraction:
        try:
            yield A
        except CallFailed as error:
            answer = yield B
            return Fields({"name": Value(f"{error.cause} {answer.body.decode()}")})
        return DONE

    assert drive(extract(), ask).values["name"].value == "service_error /b 1"


def test_a_failure_that_is_not_dealt_with_comes_out_as_it_is(drive: Callable[..., Any]) -> None:
    def ask(call: Get, occurrence: int) -> Answer:
        raise CallFailed("service_error", "down")

    def extract() -> Extraction:
        yield A
        return DONE

    with pytest.raises(CallFailed, match="service_error: down"):
        drive(extract(), ask)


def test_in_a_list_failures_are_elements_beside_the_paid_answers(drive: Callable[..., Any]) -> None:
    def ask(call: Get, occurrence: int) -> Answer:
        if call is B:
            raise CallFailed("bad_answer", "cut")
        return _echo(call, occurrence)

    def extract() -> Extraction:
        first, second, third = yield [A, B, C]
        assert (first.body, third.body) == (b"/a 1", b"/c 1")
        assert isinstance(second, CallFailed)
        return Failed(second.cause)

    assert drive(extract(), ask) == Failed("bad_answer")


def test_siblings_of_a_stopped_call_are_waited_for(drive: Callable[..., Any]) -> None:
    stopped, answered = threading.Event(), threading.Event()

    def ask(call: Get, occurrence: int) -> Answer:
        if call is A:
            stopped.set()
            raise PutBack("shutdown", "")
        assert stopped.wait(5)
        answered.set()
        return _echo(call, occurrence)

    def extract() -> Extraction:
        yield [A, B]
        return DONE

    with pytest.raises(PutBack):
        drive(extract(), ask)
    assert answered.is_set()


@pytest.mark.parametrize("listed", [False, True])
def test_an_extractor_that_catches_everything_cannot_swallow_a_stop(
    drive: Callable[..., Any], listed: bool
) -> None:
    def ask(call: Get, occurrence: int) -> Answer:
        raise ClaimLost

    def extract() -> Extraction:
        for _ in range(3):
            try:
                yield [A] if listed else A
            except Exception:  # noqa: BLE001 - what is tried here
                continue
        return DONE

    with pytest.raises(ClaimLost):
        drive(extract(), ask)


def test_what_an_extractor_does_on_its_way_out_does_not_hide_why_it_was_stopped(
    drive: Callable[..., Any],
) -> None:
    def ask(call: Get, occurrence: int) -> Answer:
        raise PutBack("shutdown", "the worker is stopping")

    def raising() -> Extraction:
        try:
            yield A
        except GeneratorExit:
            raise ValueError("of its own") from None
        return DONE

    def clinging() -> Extraction:
        try:
            yield A
        except GeneratorExit:
            yield B
        return DONE

    for extract in (raising, clinging):
        with pytest.raises(Stopped):
            drive(extract(), ask)


def test_the_extractor_is_closed_when_its_work_ends_early(drive: Callable[..., Any]) -> None:
    closed = []

    def ask(call: Get, occurrence: int) -> Answer:
        raise ClaimLost

    def extract() -> Extraction:
        try:
            yield A
        finally:
            closed.append(True)
        return DONE

    with pytest.raises(ClaimLost):
        drive(extract(), ask)
    assert closed == [True]


def test_more_calls_than_one_job_may_make_are_refused_before_they_are_paid(
    drive: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "MAX_CALLS", 5)
    asked: list[Get] = []

    def ask(call: Get, occurrence: int) -> Answer:
        asked.append(call)
        return _echo(call, occurrence)

    def endless() -> Extraction:
        while True:
            yield A

    def wide() -> Extraction:
        yield [A] * 6
        return DONE

    with pytest.raises(TooMuch, match="more than 5 calls"):
        drive(endless(), ask)
    assert len(asked) == 5
    with pytest.raises(TooMuch):
        drive(wide(), ask)
    assert len(asked) == 5


@pytest.mark.parametrize("listed", [False, True])
def test_more_bytes_than_one_job_may_hold_are_refused(
    drive: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    monkeypatch.setattr(driver, "MAX_BYTES", 2_500_000)

    def ask(call: Get, occurrence: int) -> Answer:
        return Answer(200, bytes(1_000_000))

    def extract() -> Extraction:
        for _ in range(2):
            yield [A] if listed else A
        yield B
        return DONE

    with pytest.raises(TooMuch, match="more than 2 MB"):
        drive(extract(), ask)


def test_a_forgotten_yield_has_its_own_words(drive: Callable[..., Any]) -> None:
    with pytest.raises(BadExtractor, match="no yield"):
        drive(DONE)


@pytest.mark.parametrize("returned", [None, {"name": "A"}, A])
def test_what_is_no_result_has_its_own_words(drive: Callable[..., Any], returned: Any) -> None:
    def extract() -> Extraction:
        yield A
        return returned  # type: ignore[no-any-return]

    with pytest.raises(BadExtractor, match=r"returned .*; it must return Fields, Empty or Failed"):
        drive(extract())


@pytest.mark.parametrize("rubbish", [None, 5, "/a", {"path": "/a"}, [A, "/b"], [[A]], "x" * 1000])
def test_what_is_no_call_has_its_own_words_and_costs_nothing(drive: Callable[..., Any], rubbish: Any) -> None:
    asked: list[Get] = []

    def ask(call: Get, occurrence: int) -> Answer:
        asked.append(call)
        return _echo(call, occurrence)

    def extract() -> Extraction:
        yield rubbish
        return DONE

    with pytest.raises(BadExtractor, match="may yield calls") as error:
        drive(extract(), ask)
    assert (asked, len(str(error.value)) < 200) == ([], True)


def test_an_extractor_may_end_without_a_call(drive: Callable[..., Any]) -> None:
    def extract() -> Extraction:
        if not A.path:
            yield A
        return Empty("no_facts")

    assert drive(extract()) == Empty("no_facts")
