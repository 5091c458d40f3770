"""The sign of life: never starved, honest about being lost, woken at once, last to leave."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from psycopg import sql

from store import jobs, workers
from store.workers import Identity, Pulse, Vitals
from worker.heartbeat import Heartbeat, named

Alongside = Callable[..., AbstractContextManager[threading.Thread]]
VITALS = Vitals(False, held=2, settled=7, rows_per_minute=1.5, memory_bytes=1000, keys_in_use=[3])


class Ears:
    """What a heartbeat tells its worker."""

    def __init__(self) -> None:
        self.pulses: list[Pulse] = []
        self.beaten_at: list[float] = []
        self.woken = 0
        self.lost = 0
        self.thread = threading.current_thread()

    def hear(self, pulse: Pulse) -> None:
        self.pulses.append(pulse)
        self.beaten_at.append(time.monotonic())

    def wake(self) -> None:
        self.woken += 1

    def lose(self) -> None:
        self.lost += 1


@pytest.fixture
def ears() -> Ears:
    return Ears()


@pytest.fixture
def beating(ears: Ears, alongside: Alongside) -> Callable[..., AbstractContextManager[Heartbeat]]:
    """`with beating(url, lease=30.0, every=0.1) as heartbeat:` one that beats meanwhile."""

    @contextmanager
    def start(url: str, *, lease: float = 30.0, every: float = 0.1) -> Iterator[Heartbeat]:
        new = uuid4()
        who = Identity(new, named("test", new.hex), "test", os.getpid(), "0", None, ["registry"], 4)
        heartbeat = Heartbeat(
            url,
            who,
            lease_seconds=lease,
            interval_seconds=every,
            vitals=lambda: VITALS,
            heard=ears.hear,
            woken=ears.wake,
            lost=ears.lose,
        )
        with alongside(heartbeat.run, heartbeat.stop) as ears.thread:
            yield heartbeat

    return start


Beating = Callable[..., AbstractContextManager[Heartbeat]]


def _state(db: psycopg.Connection, worker: UUID) -> str | None:
    row = db.execute("SELECT state FROM worker WHERE id = %s", (worker,)).fetchone()
    return row[0] if row else None


def test_it_registers_says_how_the_worker_is_and_leaves(
    dsn: str, db: psycopg.Connection, beating: Beating, ears: Ears, until: Callable[..., None]
) -> None:
    with beating(dsn, every=60.0) as heartbeat:
        assert not heartbeat.is_believed()
        until(lambda: ears.pulses)
        assert heartbeat.is_believed()
        (seen,) = workers.see(db)
        assert (seen.id, seen.state, seen.held, seen.settled) == (heartbeat.identity.id, "running", 2, 7)
        assert (seen.memory_bytes, seen.keys_in_use, seen.slots) == (1000, [3], 4)
        began = time.monotonic()
    assert time.monotonic() - began < 1.0  # it does not wait for its next beat
    assert _state(db, heartbeat.identity.id) == "stopped"


def test_it_beats_while_slots_parse(
    dsn: str, beating: Beating, ears: Ears, until: Callable[..., None], alongside: Alongside
) -> None:
    parsed = threading.Event()

    def parse() -> None:
        while not parsed.is_set():
            sum(n * n for n in range(100_000))

    with beating(dsn, every=0.1):
        until(lambda: ears.pulses)
        with alongside(parse, parsed.set), alongside(parse, parsed.set), alongside(parse, parsed.set):
            until(lambda: len(ears.pulses) > 10, 6.0)
    gaps = [after - before for before, after in zip(ears.beaten_at, ears.beaten_at[1:], strict=False)]
    assert max(gaps) < 1.5


def test_who_was_declared_lost_goes_on_under_another_name(
    dsn: str, db: psycopg.Connection, beating: Beating, ears: Ears, until: Callable[..., None]
) -> None:
    with beating(dsn) as heartbeat:
        until(lambda: ears.pulses)
        first = heartbeat.identity
        db.execute("UPDATE worker SET state = 'lost', ended_at = now() WHERE id = %s", (first.id,))
        until(lambda: heartbeat.identity.id != first.id)
        until(lambda: _state(db, heartbeat.identity.id) == "running")
        assert (_state(db, first.id), ears.lost) == ("lost", 1)
        assert heartbeat.is_believed()
        assert heartbeat.identity.name != first.name


def test_a_lease_that_ran_out_is_not_believed_before_anybody_says_so(
    dsn: str, proxy: Any, beating: Beating, ears: Ears, until: Callable[..., None]
) -> None:
    with beating(proxy.url, lease=0.5) as heartbeat:
        until(heartbeat.is_believed)
        proxy.cut()
        until(lambda: not heartbeat.is_believed(), 2.0)
        proxy.mend()
        until(heartbeat.is_believed)
        assert ears.lost == 0  # nobody had taken its place


def test_who_comes_back_after_others_took_over_is_new(
    db: psycopg.Connection, proxy: Any, beating: Beating, ears: Ears, until: Callable[..., None]
) -> None:
    with beating(proxy.url, lease=0.5) as heartbeat:
        until(heartbeat.is_believed)
        first = heartbeat.identity.id
        proxy.cut()
        until(lambda: not heartbeat.is_believed(), 2.0)
        other = Identity(uuid4(), "other", "test", 1, "0", None, ["registry"], 1)
        workers.register(db, other, 30.0)

        def taken_over() -> bool:
            workers.tick(db, other, VITALS, lease_seconds=30.0, direct=True)
            return _state(db, first) == "lost"

        until(taken_over)
        proxy.mend()
        until(lambda: heartbeat.identity.id != first and heartbeat.is_believed())
        assert ears.lost == 1


def test_new_work_is_heard_at_once(
    dsn: str, db: psycopg.Connection, beating: Beating, ears: Ears, until: Callable[..., None]
) -> None:
    with beating(dsn, every=60.0):
        until(lambda: ears.pulses)
        for times in (1, 2, 3):
            db.execute(jobs.WAKE)
            until(lambda times=times: ears.woken == times, 0.5)
    assert len(ears.pulses) == 1


def test_jobs_that_a_beat_recovers_are_claimed_at_once(
    dsn: str,
    beating: Beating,
    ears: Ears,
    until: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the beat frees it has not seen as due."""
    real = workers.tick
    monkeypatch.setattr(workers, "tick", lambda *these, **more: replace(real(*these, **more), recovered=1))
    with beating(dsn, every=60.0):
        until(lambda: ears.woken == 1, 2.0)


def test_a_notification_that_comes_with_the_answer_to_a_beat_is_heard(
    dsn: str,
    db: psycopg.Connection,
    beating: Beating,
    ears: Ears,
    until: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = workers.tick

    def tick(conn: psycopg.Connection, *arguments: Any, **more: Any) -> Pulse:
        pulse = real(conn, *arguments, **more)
        db.execute(jobs.WAKE)
        conn.execute("SELECT 1")
        conn.execute("SELECT 1")  # by now it has come
        return pulse

    monkeypatch.setattr(workers, "tick", tick)
    with beating(dsn, every=60.0):
        until(lambda: ears.woken == 1, 2.0)


def test_it_outlives_a_database_that_goes_away(
    proxy: Any, beating: Beating, ears: Ears, until: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    with beating(proxy.url) as heartbeat:
        until(lambda: ears.pulses)
        name = heartbeat.identity
        for _ in range(2):
            proxy.cut()
            until(lambda: "the database is away" in caplog.text)
            proxy.mend()
            beats = len(ears.pulses)
            until(lambda beats=beats: len(ears.pulses) > beats)
            caplog.clear()
        assert (heartbeat.identity, ears.lost) == (name, 0)


def test_it_outlives_a_database_that_becomes_read_only(
    dsn: str,
    db: psycopg.Connection,
    beating: Beating,
    ears: Ears,
    until: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = sql.Identifier(db.info.dbname)
    with beating(dsn):
        until(lambda: ears.pulses)
        db.execute(sql.SQL("ALTER DATABASE {} SET default_transaction_read_only = on").format(name))
        db.execute(
            """SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()"""
        )
        until(lambda: "read-only" in caplog.text)
        db.execute(sql.SQL("ALTER DATABASE {} RESET default_transaction_read_only").format(name))
        beats = len(ears.pulses)
        until(lambda: len(ears.pulses) > beats + 1)


def test_an_answer_that_is_lost_while_registering_does_no_harm(
    db: psycopg.Connection, proxy: Any, beating: Beating, ears: Ears, until: Callable[..., None]
) -> None:
    proxy.lose_answer_to(b"INSERT INTO worker")
    with beating(proxy.url) as heartbeat:
        until(lambda: ears.pulses)
        assert [seen.id for seen in workers.see(db)] == [heartbeat.identity.id]
    assert proxy.lost_answers == 1


def test_it_stops_while_the_database_is_away(
    proxy: Any, beating: Beating, ears: Ears, until: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    with beating(proxy.url):
        until(lambda: ears.pulses)
        proxy.cut()
        until(lambda: "the database is away" in caplog.text)
        began = time.monotonic()
    assert time.monotonic() - began < 2.0


def test_a_thread_that_leaves_the_moment_it_is_told_to_stop_does_no_harm(
    proxy: Any,
    beating: Beating,
    ears: Ears,
    until: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with beating(proxy.url) as heartbeat:
        until(lambda: ears.pulses)
        proxy.cut()
        until(lambda: "the database is away" in caplog.text)
        told = heartbeat._stop.set

        def tell_and_wait() -> None:
            told()
            ears.thread.join(10)

        monkeypatch.setattr(heartbeat._stop, "set", tell_and_wait)
    assert not ears.thread.is_alive()
