"""One job from claim to settlement: whatever the extractor does, there is a settlement and it is fair."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import pytest

from services.extraction import (
    Answer,
    CallFailed,
    Company,
    Empty,
    Extraction,
    Failed,
    Fields,
    Get,
    Options,
    Source,
    Value,
)
from services.service import Service
from store.claims import Settlement
from store.states import Outcome, Status
from worker import driver
from worker.running import Runner
from worker.work import ClaimLost, OutOfTime, PutBack, Work


@dataclass
class Asked:
    """Stands where a `Caller` is: every call is answered, or fails as `fails` says; `kept` when told to."""

    service: Service
    fails: dict[str, BaseException] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    on_their_way: list[threading.Event] = field(default_factory=list)

    def ask(
        self, _work: Work, call: Get, _occurrence: int, kept: Callable[[threading.Event], None]
    ) -> Answer:
        self.paths.append(call.path)
        if call.path in self.fails:
            raise self.fails[call.path]
        event = threading.Event()
        self.on_their_way.append(event)
        kept(event)
        return Answer(200, call.path.encode())


Run = Callable[..., Settlement]


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as executor:
        yield executor


@pytest.fixture
def run(executor: ThreadPoolExecutor, a_service: Callable[..., Service], a_work: Callable[..., Work]) -> Run:
    """`run(extract, fails={path: error})`: how the job is left."""

    def runs(extract: Any, fails: dict[str, BaseException] | None = None, **claim: Any) -> Settlement:
        caller: Any = Asked(a_service(extract), fails or {})
        return Runner({"registry": caller}, executor).run(a_work(**claim))

    return runs


def _one(company: Company, options: Options) -> Extraction:
    yield Get("/a")
    return Empty("no_facts")


@pytest.mark.parametrize(
    ("error", "cause", "status", "paid"),
    [
        (CallFailed("service_error", "down"), "service_error", Status.PENDING, (0, 1)),
        (CallFailed("bad_request", "no"), "bad_request", Status.FAILED, (1, 0)),
        (OutOfTime(), "too_slow", Status.PENDING, (1, 0)),
        (PutBack("no_key", "none"), "no_key", Status.PENDING, (0, 0)),
        (PutBack("service_resting", "pause"), "service_resting", Status.PENDING, (0, 0)),
        (ClaimLost(), "shutdown", Status.PENDING, (0, 0)),
        (CallFailed("no such cause", ""), "extractor_error", Status.FAILED, (1, 0)),
        (ZeroDivisionError("of the caller"), "extractor_error", Status.FAILED, (1, 0)),
    ],
)
def test_every_end_of_a_call_has_its_settlement(
    run: Run, error: BaseException, cause: str, status: Status, paid: tuple[int, int]
) -> None:
    left = run(_one, {"/a": error})
    assert (left.cause, left.status, (left.tried, left.faulted)) == (cause, status, paid)


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyError("revenue"), "KeyError: 'revenue'"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (MemoryError(), "MemoryError"),
        (Odd(), "Odd: <exception str() failed>"),
    ],
)
def test_whatever_an_extractor_raises_costs_one_attempt_of_one_job(
    run: Run, error: BaseException, words: str
) -> None:
    def extract(company: Company, options: Options) -> Extraction:
        yield Get("/a")
        raise error

    left = run(extract)
    assert (left.status, left.cause, left.tried) == (Status.FAILED, "extractor_error", 1)
    assert (left.message or "").endswith(words)


def test_an_extractor_that_breaks_the_rules_is_told_which(run: Run) -> None:
    def no_generator(company: Company, options: Options) -> Any:
        return Empty("no_facts")

    def rubbish(company: Company, options: Options) -> Any:
        yield "/a"

    def recursive(company: Company, options: Options) -> Any:
        yield Get("/a")
        return recursive(company, options)

    for extract, words in ((no_generator, "no yield"), (rubbish, "yielded '/a'"), (recursive, "returned")):
        left = run(extract)
        assert (left.cause, left.status) == ("extractor_error", Status.FAILED)
        assert words in (left.message or "")


@pytest.mark.parametrize("result", [Failed("no such cause"), Empty("")])
def test_a_result_with_a_cause_that_is_none_ends_the_job(run: Run, result: Any) -> None:
    def extract(company: Company, options: Options) -> Extraction:
        yield Get("/a")
        return result  # type: ignore[no-any-return]

    assert run(extract).status in (Status.FAILED, Status.DONE)


def test_a_job_that_asks_too_much_is_too_large(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "MAX_CALLS", 2)

    def extract(company: Company, options: Options) -> Extraction:
        yield [Get("/a"), Get("/b"), Get("/c")]
        return Empty("no_facts")

    assert run(extract).cause == "too_large"


def test_no_call_leaves_before_the_answers_of_earlier_ones_are_stored(
    executor: ThreadPoolExecutor,
    a_service: Callable[..., Service],
    a_work: Callable[..., Work],
    until: Callable[..., None],
) -> None:
    def extract(company: Company, options: Options) -> Extraction:
        yield Get("/a")
        yield [Get("/b"), Get("/c")]
        yield Get("/d")
        return Empty("no_facts")

    asked = Asked(a_service(extract))
    caller: Any = asked
    done = executor.submit(Runner({"registry": caller}, executor).run, a_work())
    until(lambda: len(asked.on_their_way) == 1)
    with pytest.raises(TimeoutError):
        done.result(0.3)
    assert asked.paths == ["/a"]
    asked.on_their_way[0].set()
    until(lambda: len(asked.on_their_way) >= 2)
    asked.on_their_way[1].set()
    until(lambda: len(asked.on_their_way) == 3)
    with pytest.raises(TimeoutError):
        done.result(0.3)
    assert sorted(asked.paths) == ["/a", "/b", "/c"]
    asked.on_their_way[2].set()
    assert done.result(5).status is Status.DONE  # the last answer goes with the settlement
    assert asked.paths[3] == "/d"


@pytest.mark.parametrize("why", ["lost", "halt"])
def test_a_job_that_waits_for_its_answer_to_be_stored_can_be_stopped(
    executor: ThreadPoolExecutor,
    a_service: Callable[..., Service],
    a_work: Callable[..., Work],
    until: Callable[..., None],
    why: str,
) -> None:
    """The database is away: nothing is stored, and the worker is told to stop."""

    def extract(company: Company, options: Options) -> Extraction:
        yield Get("/a")
        yield Get("/b")
        return Empty("no_facts")

    asked = Asked(a_service(extract))
    caller: Any = asked
    work = a_work()
    done = executor.submit(Runner({"registry": caller}, executor).run, work)
    until(lambda: asked.on_their_way)
    if why == "lost":
        work.is_lost = True
    else:
        work.halt.set()
    assert done.result(10).cause == "shutdown"
    assert asked.paths == ["/a"]


def test_values_are_of_the_lists_types_or_missing_with_a_flag(run: Run) -> None:
    def extract(company: Company, options: Options) -> Extraction:
        yield Get("/a")
        return Fields({"name": Value(" Seven Ltd "), "total": Value("£1,204.50", Source(unit="GBP"))})

    assert _stored(run(extract, types={"total": "money GBP"})) == {"name": "Seven Ltd", "total": 1204.5}
    assert _stored(run(extract)) == {"name": "Seven Ltd"}
    in_dollars = run(extract, types={"total": "money USD"}, required=["total"])
    assert in_dollars.outcome is Outcome.PARTIAL
    assert json.loads(in_dollars.result or "")["flags"] == {"total": ["other_unit"]}


def _stored(settlement: Settlement) -> Any:
    return json.loads(settlement.result or "")["values"]
