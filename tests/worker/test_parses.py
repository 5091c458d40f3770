"""Large answers are read one at a time, small ones at once, and nobody waits for ever."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from services.extraction import Answer
from worker.parses import LARGE_BYTES, Parses

LARGE = Answer(200, b"x" * LARGE_BYTES)
SMALL = Answer(200, b"x")


def may_go_on() -> None:
    """The job is still ours."""


def must_not_wait() -> None:
    pytest.fail("it waited")


@pytest.mark.parametrize("given", [LARGE, [SMALL, LARGE]])
def test_large_answers_are_read_one_at_a_time(given: object) -> None:
    parses, reading, most = Parses(), threading.Semaphore(1), []

    def read() -> None:
        with parses.turn(given, may_go_on):
            most.append(reading.acquire(blocking=False))
            threading.Event().wait(0.002)
            reading.release()

    with ThreadPoolExecutor(6) as slots:
        for done in [slots.submit(read) for _ in range(12)]:
            done.result(10)
    assert most == [True] * 12


def test_small_answers_and_failures_wait_for_nobody() -> None:
    parses = Parses()
    with parses.turn(LARGE, may_go_on):
        for given in (SMALL, None, [SMALL, ValueError()]):
            with parses.turn(given, must_not_wait):
                pass


def test_who_must_stop_stops_waiting_and_takes_no_turn() -> None:
    def stop() -> None:
        raise KeyboardInterrupt

    parses = Parses()
    with parses.turn(LARGE, may_go_on), pytest.raises(KeyboardInterrupt), parses.turn(LARGE, stop):
        pytest.fail("it had a turn")
    with parses.turn(LARGE, must_not_wait):
        pass


def test_a_reader_that_never_ends_keeps_nobody_for_ever() -> None:
    parses = Parses(longest_wait_seconds=0.4)
    with parses.turn(LARGE, may_go_on), parses.turn(LARGE, may_go_on):
        pass


def test_a_turn_that_raises_is_given_back() -> None:
    parses = Parses()
    with pytest.raises(ValueError, match="bad"), parses.turn(LARGE, may_go_on):
        raise ValueError("bad")
    with parses.turn(LARGE, must_not_wait):
        pass
