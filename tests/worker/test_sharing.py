"""Two workers and a key that lets two calls at once through: each has its turn, whoever was first."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from services.service import Service
from store import workers
from store.vault import Vault
from store.workers import Identity
from worker.connections import Connections
from worker.permits import Permits
from worker.work import PutBack, Work

A_Work = Callable[..., Work]
A_Worker = Callable[..., AbstractContextManager[Any]]
Alongside = Callable[..., AbstractContextManager[threading.Thread]]
Until = Callable[..., None]

CALL_SECONDS = 0.05


class Side:
    """A worker's permits, and slots that call all the time, until it is told to stop."""

    def __init__(self, permits: Permits, worker: UUID, a_work: A_Work) -> None:
        self.permits, self.worker = permits, worker
        self.calls = 0
        self.put_back = 0
        self.stopped = threading.Event()
        self._a_work = a_work

    @contextmanager
    def calling(self, slots: int) -> Any:
        threads = [threading.Thread(target=self._call, daemon=True) for _ in range(slots)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self.stopped.set()
            for thread in threads:
                thread.join(10)

    def _call(self) -> None:
        while not self.stopped.is_set():
            try:
                permit = self.permits.take(self._a_work(worker=self.worker))
            except PutBack:
                self.put_back += 1
                continue
            self.calls += 1
            self.stopped.wait(CALL_SECONDS)
            self.permits.done(permit)


@pytest.fixture
def sides(
    dsn: str,
    db: psycopg.Connection,
    vault: Vault,
    borrow: Callable[[str], Connections],
    alongside: Alongside,
    a_work: A_Work,
) -> Any:
    """`sides(2)`: so many workers with permits of their own, whose askers run."""
    with ExitStack() as stack:

        def make(count: int) -> list[Side]:
            made = []
            for _ in range(count):
                who = Identity(uuid4(), "test", "test", 1, "0", None, ["registry"], 4)
                workers.register(db, who, 60.0)
                permits = Permits("registry", None, borrow(dsn), vault)
                stack.enter_context(alongside(permits.run, permits.stop))
                made.append(Side(permits, who.id, a_work))
            return made

        yield make


def test_who_comes_second_has_its_share_within_about_a_beat(
    db: psycopg.Connection, a_key: Callable[..., int], sides: Callable[[int], list[Side]], until: Until
) -> None:
    a_key(db, "2 at once")
    first, second = sides(2)
    with first.calling(4):
        until(lambda: first.calls >= 10)
        with second.calling(4):
            until(lambda: second.calls >= 1)
            before = first.calls, second.calls
            until(lambda: second.calls >= before[1] + 20 and first.calls >= before[0] + 20)
            assert second.put_back == first.put_back == 0
        before = first.calls, second.calls
        until(lambda: first.calls >= before[0] + 40)  # it has them all again


def test_one_slot_goes_from_one_worker_to_the_other_and_back(
    db: psycopg.Connection, a_key: Callable[..., int], sides: Callable[[int], list[Side]], until: Until
) -> None:
    a_key(db, "1 at once")
    one, other = sides(2)
    with one.calling(2):
        until(lambda: one.calls >= 5)
        with other.calling(2):
            until(lambda: other.calls >= 5)
            before = one.calls
            until(lambda: one.calls >= before + 5)
            before = other.calls
            until(lambda: other.calls >= before + 5)


def test_a_test_of_a_key_has_its_turn_too(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    sides: Callable[[int], list[Side]],
    a_work: A_Work,
    until: Until,
) -> None:
    key = a_key(db, "1 at once")
    busy, other = sides(2)
    with busy.calling(2):
        until(lambda: busy.calls >= 5)
        permit = other.permits.take(a_work(worker=other.worker, key_id=key))
        other.permits.done(permit)


def test_a_worker_that_starts_beside_a_busy_one_gets_jobs_done(
    dsn: str,
    db: psycopg.Connection,
    a_key: Callable[..., int],
    a_list: Callable[..., int],
    a_service: Callable[..., Service],
    a_worker: A_Worker,
    serve: Callable[..., str],
    send: Callable[..., None],
    until: Until,
) -> None:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        threading.Event().wait(0.2)
        send(handler, body=b"A")

    a_key(db, "2 at once")
    a_list(db, 2000)
    url = serve(answer)
    by = "SELECT count(DISTINCT job_id) FROM call WHERE worker = %s"

    def settled(parts: Any) -> int:
        row = db.execute(by, (parts.heartbeat.identity.id,)).fetchone()
        return int(row[0]) if row else 0

    with a_worker(dsn, a_service(), url) as first:
        until(lambda: settled(first) >= 4)
        with a_worker(dsn, a_service(), url) as second:
            until(lambda: settled(second) >= 4)
            before = settled(first)
            until(lambda: settled(first) >= before + 4)
