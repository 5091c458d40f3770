"""What a worker claims ahead: how much, whose, and what becomes of it when nobody begins it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from services.extraction import Company, Empty, Extraction, Options
from services.service import Service
from store import claims, tally
from store.workers import Pulse
from worker import worker as module
from worker.room import MOST_AHEAD, Ahead
from worker.work import Work
from worker.worker import Worker

A_Worker = Callable[..., AbstractContextManager[Any]]
Until = Callable[..., None]


class Folder:
    """A service that is asked nothing; its jobs stay in their slots until `gate` is set."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.gate = threading.Event()

    def extract(self, company: Company, _options: Options) -> Extraction:
        self.begun.append(company.number)
        self.gate.wait(20)
        yield from ()
        return Empty("no_facts")


@pytest.fixture
def folder() -> Folder:
    return Folder()


@pytest.fixture
def without_calls(folder: Folder, a_service: Callable[..., Service]) -> Service:
    return replace(a_service(folder.extract), needs_key=False)


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """`ahead[0]`: how many may be claimed ahead, as if the worker had been so fast lately."""
    allowed = [20]
    monkeypatch.setattr(Ahead, "allowed", lambda _self: allowed[0])
    monkeypatch.setattr(Ahead, "forget", lambda _self: allowed.__setitem__(0, 0))
    return allowed


def _statuses(db: psycopg.Connection) -> dict[str, int]:
    return dict(db.execute("SELECT status, count(*)::int FROM job GROUP BY 1").fetchall())


def test_jobs_without_calls_are_claimed_in_batches_and_all_end(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    folder: Folder,
    without_calls: Service,
    a_worker: A_Worker,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    real = claims.claim

    def claim(*arguments: Any, n: int, **more: Any) -> Any:
        asked.append(n)
        return real(*arguments, n=n, **more)

    monkeypatch.setattr(claims, "claim", claim)
    folder.gate.set()
    a_list(db, 4000)
    with a_worker(dsn, without_calls, "", slots=2):
        until(lambda: _statuses(db) == {"done": 4000}, 20.0)
    assert len(asked) < 4000 / 2
    assert 2 < max(asked) <= MOST_AHEAD + 2
    assert len(folder.begun) == len(set(folder.begun)) == 4000
    assert tally.check(db) == []


def test_a_worker_claims_ahead_what_its_slots_end_in_a_quarter_of_a_second() -> None:
    ahead = Ahead(slots=2)
    assert ahead.allowed() == 0
    ahead.ended(0.01)
    assert ahead.allowed() == 50
    for _ in range(50):
        ahead.ended(0.0001)
    assert ahead.allowed() == MOST_AHEAD
    for _ in range(50):
        ahead.ended(0.7)
    assert ahead.allowed() == 0
    ahead.ended(0.0)
    ahead.forget()
    assert ahead.allowed() == 0


def test_draining_gives_back_what_no_slot_has_begun(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    folder: Folder,
    without_calls: Service,
    a_worker: A_Worker,
    until: Until,
    ahead: list[int],
) -> None:
    a_list(db, 30)
    with a_worker(dsn, without_calls, "", slots=2) as parts:
        until(lambda: _statuses(db) == {"in_progress": 22, "pending": 8})
        until(lambda: len(folder.begun) == 2)
        parts.worker.drain()
        until(lambda: _statuses(db) == {"in_progress": 2, "pending": 28})
        folder.gate.set()
        parts.thread.join(10)
        assert not parts.thread.is_alive()
    assert _statuses(db) == {"done": 2, "pending": 28}
    assert len(folder.begun) == 2
    unharmed = "SELECT count(*) FROM job WHERE cause = 'shutdown' AND attempts + losses + faults = 0"
    assert db.execute(unharmed).fetchone() == (20,)
    assert tally.check(db) == []


def test_a_worker_that_is_lost_begins_nothing_of_its_line(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    folder: Folder,
    without_calls: Service,
    a_worker: A_Worker,
    until: Until,
    ahead: list[int],
) -> None:
    list_id = a_list(db, 22)
    with a_worker(dsn, without_calls, "", slots=2) as parts:
        until(lambda: len(parts.worker._held) == 22 and len(folder.begun) == 2)
        db.execute("UPDATE list SET state = 'paused' WHERE id = %s", (list_id,))
        parts.worker.lost()
        folder.gate.set()
        until(lambda: not parts.worker._held)
    assert len(folder.begun) == 2


def test_what_waits_long_in_line_is_left_to_others(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    folder: Folder,
    without_calls: Service,
    a_worker: A_Worker,
    until: Until,
    ahead: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LONGEST_IN_LINE_SECONDS", 0.3)
    a_list(db, 22)
    with a_worker(dsn, without_calls, "", slots=2):
        until(lambda: _statuses(db) == {"in_progress": 22})
        until(lambda: _statuses(db) == {"in_progress": 2, "pending": 20})
        folder.gate.set()
        until(lambda: _statuses(db) == {"done": 22})
    assert len(folder.begun) == len(set(folder.begun))


def test_jobs_in_line_take_no_slot_from_jobs_that_call(
    a_service: Callable[..., Service], a_work: Callable[..., Work], ahead: list[int]
) -> None:
    keyed, keyless = a_service(), replace(a_service(), needs_key=False)
    callers: Any = {
        "keyed": SimpleNamespace(service=keyed, permits=SimpleNamespace(are_awaited=False)),
        "keyless": SimpleNamespace(service=keyless),
    }
    worker = Worker(callers, _no_connections, slots=4, key_set=None)
    worker._start([a_work(id=n, service="keyless") for n in range(24)])
    assert (worker._room.of("keyless"), worker._room.of("keyed")) == (0, 4)
    worker._start([a_work(id=n, service="keyed") for n in range(24, 27)])
    assert (worker._room.of("keyless"), worker._room.of("keyed")) == (0, 1)


@pytest.mark.parametrize(("are_awaited", "rooms"), [(True, [4, 3, 2, 0, 0]), (False, [4, 3, 2, 1, 0])])
def test_while_permits_are_waited_for_slots_are_filled_by_halves(
    a_service: Callable[..., Service], a_work: Callable[..., Work], are_awaited: bool, rooms: list[int]
) -> None:
    permits = SimpleNamespace(are_awaited=are_awaited)
    callers: Any = {"keyed": SimpleNamespace(service=a_service(), permits=permits)}
    worker = Worker(callers, _no_connections, slots=4, key_set=None)
    found = []
    for number in range(5):
        found.append(worker._room.of("keyed"))
        worker._start([a_work(id=number, service="keyed")])
    assert found == rooms


def _no_connections() -> Any:
    raise AssertionError("no database is needed here")


def test_an_extractor_that_never_ends_costs_its_own_job_and_no_slot(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_service: Callable[..., Service],
    a_worker: A_Worker,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "HUNG_SECONDS", 0.1)
    ended = threading.Event()
    names: list[str] = []

    def extract(company: Company, options: Options) -> Extraction:
        if company.number == "00000001":
            ended.wait(20)
        names.append(company.number)
        yield from ()
        return Empty("no_facts")

    a_list(db, 4, run_seconds=1, max_attempts=1)
    with a_worker(dsn, replace(a_service(extract), needs_key=False), "", slots=2) as parts:
        until(lambda: _statuses(db) == {"done": 3, "failed": 1})
        assert "its slot is given up" in caplog.text
        ended.set()
        until(lambda: len(names) == 4)
        a_list(db, 1)
        until(lambda: _statuses(db) == {"done": 4, "failed": 1})
        until(lambda: parts.worker._room.is_idle)
    row = db.execute("SELECT cause, attempts FROM job WHERE company = '00000001' AND list_id = 1").fetchone()
    assert row == ("too_slow", 1)


def test_a_beat_gives_up_nothing_that_is_in_time(a_work: Callable[..., Work]) -> None:
    worker = Worker({}, _no_connections, slots=1, key_set=None)
    work = a_work()
    work.start()
    worker._held[7] = work
    worker.heard(Pulse("running", 0, {7: work.claim.claim_no}, frozenset(), (), False, False))
    assert work.is_running
