"""An answer that serves every company is asked for once by a worker, however many slots want it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from services.extraction import Answer, CallFailed, Get
from worker.shared import SharedAnswers

CALL = Get("/tickers", shared_seconds=1_000)


def no_check() -> None:
    pass


def test_of_many_slots_one_asks_and_all_have_the_answer() -> None:
    shared, asked, go = SharedAnswers(), [0], threading.Event()

    def ask() -> Answer:
        asked[0] += 1
        assert go.wait(5)
        return Answer(200, b"all")

    waiting = threading.Barrier(9)

    def slot() -> Answer:
        waiting.wait(5)
        return shared.get(CALL, ask, no_check)

    with ThreadPoolExecutor(8) as slots:
        answers = [slots.submit(slot) for _ in range(8)]
        waiting.wait(5)
        go.set()
        assert {answer.result(5).body for answer in answers} == {b"all"}
    assert asked == [1]


def test_an_answer_that_is_not_200_serves_nobody_else() -> None:
    shared = SharedAnswers()
    assert shared.get(CALL, lambda: Answer(404, b""), no_check).status == 404
    assert shared.get(CALL, lambda: Answer(200, b"there"), no_check).body == b"there"


def test_a_call_that_failed_leaves_the_next_slot_to_ask() -> None:
    shared = SharedAnswers()

    def fail() -> Answer:
        raise CallFailed("service_error", "down")

    with pytest.raises(CallFailed):
        shared.get(CALL, fail, no_check)
    assert shared.get(CALL, lambda: Answer(200, b"up"), no_check).body == b"up"


def test_an_answer_is_asked_for_again_when_it_is_no_longer_fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("worker.shared.time.monotonic", lambda: clock[0])
    shared = SharedAnswers()
    bodies = iter([b"old", b"new"])
    ask: Callable[[], Answer] = lambda: Answer(200, next(bodies))  # noqa: E731
    assert shared.get(CALL, ask, no_check).body == b"old"
    clock[0] = 999.0
    assert shared.get(CALL, ask, no_check).body == b"old"
    clock[0] = 1_001.0
    assert shared.get(CALL, ask, no_check).body == b"new"


def test_a_slot_that_waits_for_another_hears_that_it_must_stop() -> None:
    shared, asking, go = SharedAnswers(), threading.Event(), threading.Event()

    def ask() -> Answer:
        asking.set()
        assert go.wait(5)
        return Answer(200, b"")

    class StopNow(BaseException):
        pass

    def check() -> None:
        raise StopNow

    with ThreadPoolExecutor(1) as slots:
        first = slots.submit(shared.get, CALL, ask, no_check)
        assert asking.wait(5)
        with pytest.raises(StopNow):
            shared.get(CALL, ask, check)
        go.set()
        assert first.result(5).status == 200


def test_another_question_has_an_answer_of_its_own() -> None:
    shared = SharedAnswers()
    assert shared.get(CALL, lambda: Answer(200, b"a"), no_check).body == b"a"
    assert shared.get(replace(CALL, path="/b"), lambda: Answer(200, b"b"), no_check).body == b"b"
