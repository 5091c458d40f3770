"""Nothing that was paid for is lost, nothing is written twice, and no row harms another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from store import tally, workers
from store.answers import KeptAnswer, of_jobs
from store.calls import Call
from store.claims import Settlement
from store.states import Outcome, Status
from store.workers import Identity
from worker import writer as module
from worker.connections import Connections
from worker.writer import Writer

Alongside = Callable[..., AbstractContextManager[threading.Thread]]


class Told:
    """Hears how settlements were decided."""

    def __init__(self) -> None:
        self.won: list[int] = []
        self.lost: list[int] = []

    def __call__(self, settlements: Sequence[Settlement], lost: Collection[int]) -> None:
        for settlement in settlements:
            (self.lost if settlement.id in lost else self.won).append(settlement.id)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def held(db: psycopg.Connection, a_list: Callable[..., int]) -> list[Settlement]:
    """How five jobs end that a worker holds: done, each with a result."""
    a_list(db, 5)
    who = Identity(uuid4(), "test", "test", 1, "0", None, ["registry"], 5)
    workers.register(db, who, 30.0)
    rows = db.execute(
        """WITH moved AS (
             UPDATE job SET status = 'in_progress', worker = %s, claim_no = 1, claimed_at = now(),
               run_until = now() + interval '1 hour' RETURNING id, list_id),
           counted AS (
             INSERT INTO tally_delta (list_id, status, outcome, cause, n)
             SELECT list_id, s.status, '', '', s.n FROM moved,
               (VALUES ('pending', -1), ('in_progress', 1)) s(status, n))
           SELECT id FROM moved ORDER BY id""",
        (who.id,),
    ).fetchall()
    return [
        Settlement(row[0], who.id, 1, Status.DONE, Outcome.COMPLETE, result='{"values": {"name": "A"}}')
        for row in rows
    ]


def _answer(job: int, request: str = "/a", body: bytes = b"paid") -> KeptAnswer:
    return KeptAnswer(job, request.encode("utf-8", "surrogatepass"), 1, "registry", request, 200, {}, body)


def _call(settlement: Settlement, request: str = "/a", message: str | None = None) -> Call:
    sent_at = time.monotonic()
    return Call(
        settlement.id, 1, settlement.worker, 1, request, "usable", 200, message, 0, 1, False, 4, sent_at
    )


def _statuses(db: psycopg.Connection) -> list[tuple[str, str | None]]:
    return db.execute("SELECT status, cause FROM job ORDER BY id").fetchall()


def _count(db: psycopg.Connection, table: str) -> int:
    row = db.execute(f"SELECT count(*) FROM {table}").fetchone()
    assert row is not None
    return int(row[0])


class Counting:
    """Connections that count how often one was borrowed: the writer makes one statement with each."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self.times = 0

    @contextmanager
    def __call__(self) -> Iterator[psycopg.Connection]:
        self.times += 1
        with self._connections() as conn:
            yield conn


def test_a_jobs_last_answer_its_call_and_its_end_are_one_statement(
    dsn: str,
    db: psycopg.Connection,
    borrow: Callable[[str], Connections],
    held: list[Settlement],
    told: Told,
    alongside: Alongside,
    until: Callable[..., None],
) -> None:
    counting = Counting(borrow(dsn))
    writer = Writer(counting)
    with alongside(lambda: writer.run(told), writer.stop):
        writer.log(_call(held[0]))
        kept = writer.keep(_answer(held[0].id))
        writer.settle(held[0], at_once=False)
        assert kept.wait(5)
        until(lambda: told.won)
    assert counting.times == 1
    assert _statuses(db)[0] == ("done", None)
    assert (_count(db, "answer"), _count(db, "call")) == (1, 1)


@pytest.mark.parametrize(
    ("what", "longest"), [("keep", 0.05), ("settle", 0.25), ("settle idle", 0.1), ("log", 0.25)]
)
def test_nothing_waits_longer_than_it_may(
    dsn: str,
    borrow: Callable[[str], Connections],
    held: list[Settlement],
    told: Told,
    alongside: Alongside,
    until: Callable[..., None],
    what: str,
    longest: float,
) -> None:
    counting = Counting(borrow(dsn))
    with counting() as conn:
        conn.execute("SELECT 1")  # the pool is open
    writer = Writer(counting)
    with alongside(lambda: writer.run(told), writer.stop):
        began = time.monotonic()
        match what:
            case "keep":
                writer.keep(_answer(1))
            case "log":
                writer.log(_call(held[0]))
            case _:
                writer.settle(held[0], at_once=what == "settle idle")
        until(lambda: counting.times == 2)
        assert longest * 0.9 < time.monotonic() - began < longest + 0.2


def test_a_full_group_does_not_wait(
    dsn: str,
    borrow: Callable[[str], Connections],
    told: Told,
    alongside: Alongside,
    until: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    db: psycopg.Connection,
) -> None:
    monkeypatch.setattr(module, "ANSWER_SECONDS", 60.0)
    writer = Writer(borrow(dsn))
    with alongside(lambda: writer.run(told), writer.stop):
        for number in range(module.MAX_GROUP):
            writer.keep(_answer(number))
        until(lambda: _count(db, "answer") == module.MAX_GROUP)


def test_one_bad_row_fails_alone_with_its_cause(
    dsn: str,
    db: psycopg.Connection,
    borrow: Callable[[str], Connections],
    held: list[Settlement],
    told: Told,
    alongside: Alongside,
    until: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    held[2] = replace(held[2], result='{"values": NaN}')
    writer = Writer(borrow(dsn))
    with alongside(lambda: writer.run(told), writer.stop):
        kept = writer.keep(_answer(held[0].id))
        for settlement in held:
            writer.settle(settlement, at_once=False)
        until(lambda: len(told.won) == 5)
    assert kept.is_set()
    assert _statuses(db) == [
        ("done", None),
        ("done", None),
        ("failed", "bad_result"),
        ("done", None),
        ("done", None),
    ]
    assert "json" in str(db.execute("SELECT message FROM job WHERE status = 'failed'").fetchone())
    assert _count(db, "answer") == 1
    assert tally.check(db) == []


@pytest.mark.parametrize("odd", ["\ud800", "a\x00b"])
def test_an_odd_answer_or_call_is_cleaned_and_harms_no_other(
    dsn: str,
    db: psycopg.Connection,
    borrow: Callable[[str], Connections],
    held: list[Settlement],
    told: Told,
    alongside: Alongside,
    until: Callable[..., None],
    odd: str,
) -> None:
    writer = Writer(borrow(dsn))
    with alongside(lambda: writer.run(told), writer.stop) as thread:
        events = [writer.keep(_answer(held[0].id, odd)), writer.keep(_answer(held[0].id, "/b"))]
        writer.log(_call(held[0], message=odd))
        writer.log(_call(held[0]))
        writer.settle(held[0], at_once=False)
        until(lambda: told.won)
        assert thread.is_alive()
    assert all(event.is_set() for event in events)
    assert [row[0] for row in db.execute("SELECT request FROM answer ORDER BY kept_at")][1:] == ["/b"]
    assert (_count(db, "answer"), _count(db, "call")) == (2, 2)


def test_a_lost_claim_is_told_and_its_answer_is_kept(
    dsn: str,
    db: psycopg.Connection,
    borrow: Callable[[str], Connections],
    held: list[Settlement],
    told: Told,
    alongside: Alongside,
    until: Callable[..., None],
) -> None:
    db.execute("UPDATE job SET claim_no = 2 WHERE id = %s", (held[0].id,))
    writer = Writer(borrow(dsn))
    with alongside(lambda: writer.run(told), writer.stop):
        writer.keep(_answer(held[0].id))
        for settlement in held:
            writer.settle(settlement, at_once=False)
        until(lambda: len(told.won) == 4)
    assert told.lost == [held[0].id]
    assert _statuses(db)[0] == ("in_progress", None)
    assert of_jobs(db, [held[0].id])


def test_a_database_that_goes_away_loses_nothing_and_doubles_nothing(
    db: psycopg.Connection,
    proxy: Any,
    borrow: Callable[[str], Connections],
    held: list[Settlement],
    told: Told,
    alongside: Alongside,
    until: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    writer = Writer(borrow(proxy.url))
    with alongside(lambda: writer.run(told), writer.stop):
        assert writer.keep(_answer(held[0].id, "/before")).wait(5)
        proxy.cut()
        first = writer.keep(_answer(held[0].id, "/during"))
        writer.settle(held[0], at_once=True)
        until(lambda: "the database is away" in caplog.text)
        second = writer.keep(_answer(held[1].id, "/later"))
        writer.settle(held[1], at_once=True)
        assert (first.is_set(), second.is_set(), told.won) == (False, False, [])
        proxy.mend()
        assert first.wait(10)
        assert second.wait(5)
        until(lambda: len(told.won) == 2)
    assert sorted(row[0] for row in db.execute("SELECT request FROM answer")) == [
        "/before",
        "/during",
        "/later",
    ]
    assert _statuses(db)[:3] == [("done", None), ("done", None), ("in_progress", None)]
    assert (told.lost, tally.check(db)) == ([], [])


def test_terminated_sessions_lose_nothing_and_double_nothing(
    dsn: str,
    db: psycopg.Connection,
    borrow: Callable[[str], Connections],
    held: list[Settlement],
    told: Told,
    alongside: Alongside,
    until: Callable[..., None],
) -> None:
    """The writer's sessions end while its statement waits for a lock: it is rolled back and repeated."""
    writer = Writer(borrow(dsn))
    with alongside(lambda: writer.run(told), writer.stop):
        with psycopg.connect(dsn) as blocker:
            blocker.execute("SELECT FROM job WHERE id = %s FOR UPDATE", (held[0].id,))
            kept = writer.keep(_answer(held[0].id))
            for settlement in held:
                writer.settle(settlement, at_once=True)
            for _ in range(3):
                until(lambda: _waiting(db))
                for pid in _waiting(db):
                    db.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
            assert not kept.is_set()
        until(lambda: len(told.won) == 5)
    assert {status for status, _ in _statuses(db)} == {"done"}
    assert (_count(db, "answer"), told.lost, tally.check(db)) == (1, [], [])


def _waiting(db: psycopg.Connection) -> list[int]:
    return [
        row[0]
        for row in db.execute(
            """SELECT pid FROM pg_stat_activity WHERE application_name = 'sluice worker'
               AND datname = current_database() AND wait_event_type = 'Lock'"""
        )
    ]


def test_an_answer_of_the_database_that_is_lost_does_no_harm(
    db: psycopg.Connection,
    proxy: Any,
    borrow: Callable[[str], Connections],
    held: list[Settlement],
    told: Told,
    alongside: Alongside,
    until: Callable[..., None],
) -> None:
    """It was written; the second try finds the job as given, answer and calls there, and changes nothing."""
    writer = Writer(borrow(proxy.url))
    with alongside(lambda: writer.run(told), writer.stop):
        proxy.lose_answer_to(b"settled AS")
        kept = writer.keep(_answer(held[0].id))
        for _ in range(2):
            writer.log(_call(held[0]))
        writer.settle(held[0], at_once=True)
        assert kept.wait(10)
        until(lambda: told.won or told.lost)
    assert proxy.lost_answers == 1
    assert (told.won, told.lost) == ([held[0].id], [])
    assert _statuses(db)[0] == ("done", None)
    assert list(of_jobs(db, [held[0].id])[held[0].id]) == [(b"/a", 1)]
    assert (_count(db, "answer"), _count(db, "call")) == (1, 2)
    assert tally.check(db) == []


def test_rows_written_one_by_one_are_all_or_nothing(
    dsn: str,
    db: psycopg.Connection,
    borrow: Callable[[str], Connections],
    held: list[Settlement],
    told: Told,
    alongside: Alongside,
    until: Callable[..., None],
) -> None:
    """The database goes away in the middle of them, at the row that somebody has locked."""
    held[0] = replace(held[0], result="no json")
    writer = Writer(borrow(dsn))
    with alongside(lambda: writer.run(told), writer.stop):
        with psycopg.connect(dsn) as blocker:
            blocker.execute("SELECT FROM job WHERE id = %s FOR UPDATE", (held[1].id,))
            writer.keep(_answer(held[0].id))
            for settlement in held[:2]:
                writer.settle(settlement, at_once=True)
            until(lambda: _waiting(db))
            for pid in _waiting(db):
                db.execute("SELECT pg_terminate_backend(%s, 5000)", (pid,))
            until(lambda: _waiting(db))
            assert (_count(db, "answer"), _statuses(db)[0]) == (0, ("in_progress", None))
        until(lambda: len(told.won) == 2)
    assert (_count(db, "answer"), told.lost) == (1, [])
    assert _statuses(db)[:2] == [("failed", "bad_result"), ("done", None)]


def test_stop_writes_what_is_at_hand(
    dsn: str,
    db: psycopg.Connection,
    borrow: Callable[[str], Connections],
    held: list[Settlement],
    told: Told,
    alongside: Alongside,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "SETTLE_SECONDS", 60.0)
    writer = Writer(borrow(dsn))
    with alongside(lambda: writer.run(told), writer.stop):
        for settlement in held:
            writer.settle(settlement, at_once=False)
    assert len(told.won) == 5
    assert {status for status, _ in _statuses(db)} == {"done"}


def test_a_writer_that_is_abandoned_ends_without_its_database(
    proxy: Any,
    borrow: Callable[[str], Connections],
    held: list[Settlement],
    told: Told,
    alongside: Alongside,
    until: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    writer = Writer(borrow(proxy.url))
    with alongside(lambda: writer.run(told), writer.abandon) as thread:
        proxy.cut()
        writer.settle(held[0], at_once=True)
        until(lambda: "the database is away" in caplog.text)
        writer.abandon()
        thread.join(5)
        assert not thread.is_alive()
    assert (told.won, told.lost) == ([], [])
