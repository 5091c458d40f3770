"""A whole worker in threads: what it claims, how it stops, and what it does when claims go astray."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from typing import Any

import psycopg
import pytest

from services.extraction import Company, Empty, Extraction, Fields, Get, Options, Value
from services.service import Service
from store import claims, jobs, lists, tally
from store.claims import Claim, Settlement
from store.jobs import NewJob
from store.states import Status
from store.workers import Pulse
from worker import connections, outlook, writer
from worker import worker as module
from worker.work import Work
from worker.worker import Worker

A_Worker = Callable[..., AbstractContextManager[Any]]
Until = Callable[..., None]


def _two_calls(company: Company, options: Options) -> Extraction:
    yield Get(f"/first/{company.number}")
    second = yield Get(f"/second/{company.number}")
    return Fields({"name": Value(second.body.decode())})


class Register:
    """The far side: remembers what was asked; `gate` can be closed to hold what matches."""

    def __init__(self, send: Callable[..., None]) -> None:
        self.paths: list[str] = []
        self.waiting = 0
        self._gates: dict[str, threading.Event] = {}
        self._send = send

    def hold(self, prefix: str) -> threading.Event:
        """Requests that begin so are answered when the event is set."""
        return self._gates.setdefault(prefix, threading.Event())

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.paths.append(handler.path)
        for prefix, gate in self._gates.items():
            if handler.path.startswith(prefix):
                self.waiting += 1
                gate.wait(20)
                self.waiting -= 1
        self._send(handler, 200, handler.path.encode())


@pytest.fixture
def register(send: Callable[..., None]) -> Register:
    return Register(send)


@pytest.fixture
def url(serve: Callable[..., str], register: Register) -> str:
    return serve(register.answer)


@pytest.fixture
def two_calls(a_service: Callable[..., Service]) -> Service:
    return a_service(_two_calls)


def _jobs(db: psycopg.Connection) -> list[tuple[Any, ...]]:
    return db.execute("SELECT status, cause, attempts, losses, claim_no FROM job ORDER BY id").fetchall()


def _done(db: psycopg.Connection) -> int:
    return sum(row[0] == "done" for row in _jobs(db))


def test_every_job_ends_and_the_counts_agree(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
) -> None:
    a_key(db)
    a_list(db, 12)
    with a_worker(dsn, two_calls, url) as parts:
        until(lambda: _done(db) == 12)
        until(lambda: parts.worker.vitals().settled == 12)
        assert parts.worker.vitals().held == 0
        until(lambda: db.execute("SELECT state FROM list").fetchone() == ("finished",))
    assert len(register.paths) == len(set(register.paths)) == 24
    assert db.execute("SELECT count(*) FROM answer").fetchone() == (24,)
    assert tally.check(db) == []
    assert db.execute("SELECT state, held FROM worker").fetchall() == [("stopped", 0)]


def test_an_answer_is_committed_before_the_next_call_leaves(
    dsn: str,
    db: psycopg.Connection,
    connect: Callable[[], psycopg.Connection],
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    serve: Callable[..., str],
    send: Callable[..., None],
    a_worker: A_Worker,
    until: Until,
) -> None:
    mine, lock = connect(), threading.Lock()
    kept_before: list[bool] = []

    def answer(handler: BaseHTTPRequestHandler) -> None:
        if handler.path.startswith("/second"):
            first = handler.path.replace("second", "first")
            with lock:
                row = mine.execute("SELECT count(*) FROM answer WHERE request = %s", (first,)).fetchone()
            kept_before.append(row == (1,))
        send(handler, 200, b"{}")

    a_key(db)
    a_list(db, 8)
    with a_worker(dsn, two_calls, serve(answer)):
        until(lambda: _done(db) == 8)
    assert kept_before == [True] * 8


def test_nothing_is_claimed_beyond_the_slots(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
) -> None:
    a_key(db)
    a_list(db, 9)
    gate = register.hold("/first")
    with a_worker(dsn, two_calls, url, slots=3) as parts:
        until(lambda: register.waiting == 3)
        beats = parts.heartbeat.identity
        until(lambda: db.execute("SELECT held FROM worker").fetchone() == (3,))
        assert [row[0] for row in _jobs(db)].count("in_progress") == 3
        assert parts.heartbeat.identity == beats
        gate.set()
        until(lambda: _done(db) == 9)


def test_nothing_is_claimed_without_a_key_and_at_once_with_one(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
) -> None:
    a_list(db, 3)
    with a_worker(dsn, two_calls, url):
        until(lambda: db.execute("SELECT count(*) FROM worker WHERE seen_at > started_at").fetchone() == (1,))
        assert _jobs(db) == [("pending", None, 0, 0, 0)] * 3
        a_key(db)
        until(lambda: _done(db) == 3, 3.0)


def test_new_work_is_begun_at_once_by_a_worker_that_beats_rarely(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
) -> None:
    a_key(db)
    with a_worker(dsn, two_calls, url, beat=9.0) as parts:
        until(parts.heartbeat.is_believed)
        for times in (1, 2, 3):
            a_list(db, 1)
            until(lambda times=times: len(register.paths) >= 2 * times - 1, 0.5)
            until(lambda times=times: _done(db) == times, 1.0)


def test_work_that_is_added_during_a_claim_is_not_overlooked(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    a_worker: A_Worker,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The claim has looked; before it is back, somebody adds a list and says so."""
    real = claims.claim
    added: list[int] = []

    def claim(*arguments: Any, **more: Any) -> Any:
        got = real(*arguments, **more)
        if len(added) < 3:
            heard = woken[0]
            added.append(a_list(db, 1))
            until(lambda: woken[0] > heard)
        return got

    woken = [0]
    a_key(db)
    monkeypatch.setattr(claims, "claim", claim)
    wake = Worker.woken

    def counted(worker: Worker) -> None:
        wake(worker)
        woken[0] += 1

    monkeypatch.setattr(Worker, "woken", counted)
    a_list(db, 1)
    with a_worker(dsn, two_calls, url, beat=9.0):
        until(lambda: _done(db) == 4, 4.0)


def test_draining_lets_what_runs_finish_and_claims_nothing_more(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
) -> None:
    a_key(db)
    a_list(db, 6)
    gate = register.hold("/second")
    with a_worker(dsn, two_calls, url, slots=2) as parts:
        until(lambda: register.waiting == 2)
        parts.worker.drain()
        until(lambda: db.execute("SELECT state FROM worker").fetchone() == ("draining",))
        gate.set()
        parts.thread.join(10)
        assert not parts.thread.is_alive()
        assert sorted(row[0] for row in _jobs(db)) == ["done"] * 2 + ["pending"] * 4
    assert len(register.paths) == 4


def test_a_worker_that_is_drained_from_elsewhere_ends(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    a_worker: A_Worker,
    until: Until,
) -> None:
    with a_worker(dsn, two_calls, url) as parts:
        until(parts.heartbeat.is_believed)
        db.execute("UPDATE worker SET state = 'draining'")
        parts.thread.join(5)
        assert not parts.thread.is_alive()


def test_halting_puts_back_what_runs_with_what_it_has_paid_for(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
) -> None:
    a_key(db)
    a_list(db, 2)
    gate = register.hold("/first")
    with a_worker(dsn, two_calls, url) as parts:
        until(lambda: register.waiting == 2)
        parts.worker.halt()
        gate.set()
        parts.thread.join(10)
        assert not parts.thread.is_alive()
    assert _jobs(db) == [("pending", "shutdown", 0, 0, 1)] * 2
    assert {path.split("/")[1] for path in register.paths} == {"first"}
    with a_worker(dsn, two_calls, url):
        until(lambda: _done(db) == 2)
    assert len(register.paths) == len(set(register.paths)) == 4


def test_what_takes_too_long_to_finish_is_put_back(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.1)
    a_key(db)
    a_list(db, 1)
    gate = register.hold("/first")
    with a_worker(dsn, two_calls, url) as parts:
        until(lambda: register.waiting == 1)
        parts.worker.drain()
        until(parts.worker._held[1].halt.is_set)
        gate.set()
        parts.thread.join(10)
        assert not parts.thread.is_alive()
    assert _jobs(db) == [("pending", "shutdown", 0, 0, 1)]


def test_a_stop_has_an_end_whatever_an_extractor_does(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    a_service: Callable[..., Service],
    url: str,
    a_worker: A_Worker,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.2)
    monkeypatch.setattr(module, "HALT_SECONDS", 0.2)
    parsing, parsed = threading.Event(), threading.Event()

    def extract(company: Company, options: Options) -> Extraction:
        yield Get("/a")
        parsing.set()
        parsed.wait(20)
        return Empty("no_facts")

    a_key(db)
    a_list(db, 1)
    with a_worker(dsn, a_service(extract), url) as parts:
        assert parsing.wait(5)
        parts.worker.drain()
        parts.thread.join(3)
        assert not parts.thread.is_alive()
    parsed.set()
    assert "1 jobs could not be settled" in caplog.text
    assert db.execute("SELECT state FROM worker").fetchone() == ("stopped",)
    with a_worker(dsn, a_service(extract), url):  # another finds it lost
        until(lambda: _done(db) == 1)


def _hangs(on: str, parsed: threading.Event) -> Callable[[Company, Options], Extraction]:
    def extract(company: Company, options: Options) -> Extraction:
        yield Get(f"/first/{company.number}")
        if company.number <= on:
            parsed.wait(20)
        return Empty("no_facts")

    return extract


def test_a_parser_that_hangs_costs_its_job_and_no_slot(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    a_service: Callable[..., Service],
    url: str,
    a_worker: A_Worker,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "HUNG_SECONDS", -0.5)
    parsed = threading.Event()
    a_key(db)
    a_list(db, 5, run_seconds=1)
    with a_worker(dsn, a_service(_hangs("00000001", parsed)), url, slots=2, beat=0.1) as parts:
        until(lambda: _done(db) == 4)
        until(lambda: _jobs(db)[0][:3] == ("failed", "too_slow", 1))
        until(lambda: db.execute("SELECT blocked, held FROM worker").fetchone() == (1, 0))
        with db.transaction():
            jobs.enqueue(db, a_list(db, 0), (NewJob(f"x{n}") for n in range(4)))
        until(lambda: _done(db) == 8)  # both slots work on
        parsed.set()
        until(lambda: db.execute("SELECT blocked FROM worker").fetchone() == (0,))
        until(lambda: parts.worker._room.is_idle)  # its slot was given up once, not twice
        assert parts.thread.is_alive()
    assert _jobs(db)[0][:3] == ("failed", "too_slow", 1)
    assert "job 1 (00000001) does not end" in caplog.text
    assert tally.check(db) == []


def test_a_worker_of_which_all_slots_hang_ends_to_be_started_anew(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    a_service: Callable[..., Service],
    url: str,
    a_worker: A_Worker,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "HUNG_SECONDS", -0.5)
    parsed, ends = threading.Event(), []
    run = Worker.run

    def noted(worker: Worker, *arguments: Any) -> bool:
        ends.append(run(worker, *arguments))
        return ends[-1]

    monkeypatch.setattr(Worker, "run", noted)
    a_key(db)
    a_list(db, 2, run_seconds=1)
    with a_worker(dsn, a_service(_hangs("00000002", parsed)), url, slots=2, beat=0.1) as parts:
        parts.thread.join(10)
        assert not parts.thread.is_alive()
        assert {row[:2] for row in _jobs(db)} == {("failed", "too_slow")}
        assert ends == [False]  # the program ends with 1, and whoever watches it starts it again
        parsed.set()


def test_a_stop_has_an_end_while_the_database_is_away(
    db: psycopg.Connection,
    proxy: Any,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(module, "DRAIN_SECONDS", 0.2)
    monkeypatch.setattr(module, "HALT_SECONDS", 0.2)
    a_key(db)
    a_list(db, 2)
    gate = register.hold("/second")
    with a_worker(proxy.url, two_calls, url) as parts:
        until(lambda: register.waiting == 2)
        proxy.cut()
        gate.set()
        until(lambda: "results wait" in caplog.text)
        parts.worker.drain()
        parts.thread.join(5)
        assert not parts.thread.is_alive()


def test_a_job_that_is_no_longer_ours_makes_no_further_call(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
    caplog: pytest.LogCaptureFixture,
) -> None:
    a_key(db)
    a_list(db, 1, max_losses=9)
    gate = register.hold("/first")
    with a_worker(dsn, two_calls, url) as parts:
        until(lambda: register.waiting == 1)
        db.execute("UPDATE list SET state = 'paused'")
        db.execute("UPDATE job SET claim_no = 5, status = 'pending', worker = NULL, run_until = NULL")
        held = parts.worker._held[1]
        until(held.lost.is_set)
        gate.set()
        until(lambda: "lost claim" in caplog.text)
        until(lambda: not parts.worker._held)
        assert [path.split("/")[1] for path in register.paths] == ["first"]
        assert _jobs(db) == [("pending", None, 0, 0, 5)]


def test_a_job_is_no_loss_of_ours_that_was_settled_and_claimed_again_meanwhile(
    a_work: Callable[..., Work],
) -> None:
    """Between what is said with a beat and what comes back, a job can end and be ours again."""
    worker = Worker({}, _no_connections, slots=2, key_set=None)
    before, after = a_work(claim_no=1), a_work(claim_no=2)
    worker._held[7] = before
    worker.vitals()
    worker._held[7] = after
    worker.heard(Pulse("running", 0, {}, frozenset(), (), False, False))
    assert (before.lost.is_set(), after.lost.is_set()) == (True, False)
    worker.gone([_put_back(before.claim)], ())
    assert worker._held == {7: after}
    worker.gone([_put_back(after.claim)], ())
    assert worker._held == {}


@pytest.mark.parametrize("beat", [0.2, 60.0], ids=["a beat", "a notification"])
def test_a_cancelled_list_stops_its_running_jobs_at_their_next_call(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    beat: float,
) -> None:
    """It hears so at once, or with its beat where nothing is heard."""
    if beat < 1:
        monkeypatch.setattr(jobs, "STOP", "SELECT 1")
    a_key(db)
    list_id = a_list(db, 3)
    gate = register.hold("/first")
    with a_worker(dsn, two_calls, url, slots=2, beat=beat, lease=300.0) as parts:
        until(lambda: register.waiting == 2)
        assert lists.cancel(db, list_id) == 1
        until(lambda: all(held.cancelled.is_set() for held in parts.worker._held.values()))
        gate.set()
        until(lambda: [row[0] for row in _jobs(db)] == ["cancelled"] * 3)
        assert [path.split("/")[1] for path in register.paths] == ["first"] * 2
        assert db.execute("SELECT count(*) FROM answer").fetchone() == (2,)
        assert [row[1:4] for row in _jobs(db)][:2] == [("list_cancelled", 0, 0)] * 2
        lists.resume(db, list_id)
        until(lambda: _done(db) == 3)
    assert len(register.paths) == len(set(register.paths)) == 6


def test_a_list_that_starts_later_starts_within_a_beat_of_its_time(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    a_worker: A_Worker,
    until: Until,
) -> None:
    """Nobody says so when the time has come: the beat asks what is due."""
    a_key(db)
    with a_worker(dsn, two_calls, url, beat=0.5) as parts:
        until(parts.heartbeat.is_believed)
        starts = db.execute("SELECT now() + interval '1.5 seconds'").fetchall()[0][0]
        a_list(db, 1, start_at=starts)
        until(lambda: _done(db) == 1)
    ((late,),) = db.execute(
        "SELECT extract(epoch FROM claimed_at - %s)::float8 FROM job", (starts,)
    ).fetchall()
    assert 0 <= late < 2.0


def _no_connections() -> Any:
    raise AssertionError("no database is needed here")


def _put_back(claim: Claim) -> Settlement:
    return Settlement(claim.id, claim.worker, claim.claim_no, Status.PENDING, cause="shutdown")


def test_a_job_in_hand_makes_no_further_call_when_its_service_has_stopped_elsewhere(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
) -> None:
    """Another worker was told to stop, or has opened the circuit: this one hears it with its next beat."""
    a_key(db)
    a_list(db, 1)
    gate = register.hold("/first")
    with a_worker(dsn, two_calls, url, beat=0.1):
        until(lambda: register.waiting == 1)
        db.execute("UPDATE service SET rest_until = now() + interval '1 hour'")
        beats = [db.execute("SELECT seen_at FROM worker").fetchone()]

        def has_beaten_since() -> bool:
            beats.append(db.execute("SELECT seen_at FROM worker").fetchone())
            return len(set(beats)) > 2  # the first of them has been heard when the next one comes

        until(has_beaten_since)
        gate.set()
        until(lambda: _jobs(db) == [("pending", "service_resting", 0, 0, 1)])
        assert register.paths == ["/first/00000001"]
        db.execute("UPDATE service SET rest_until = now()")
        until(lambda: _done(db) == 1)
    assert register.paths == ["/first/00000001", "/second/00000001"]


def test_claims_whose_answer_is_lost_run_soon(
    db: psycopg.Connection,
    proxy: Any,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The table says they are ours, and nobody had told us."""
    a_key(db)
    proxy.lose_answer_to(b"claimed AS")
    a_list(db, 4)
    with a_worker(proxy.url, two_calls, url):
        until(lambda: _done(db) == 4)
    assert proxy.lost_answers == 1
    assert "4 jobs that were claimed when a connection broke are given back" in caplog.text
    assert [(row[2], row[3]) for row in _jobs(db)] == [(0, 0)] * 4
    assert len(register.paths) == len(set(register.paths)) == 8
    assert tally.check(db) == []


def test_jobs_of_a_worker_that_was_cut_off_run_again_when_it_is_alone(
    db: psycopg.Connection,
    proxy: Any,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
) -> None:
    """Its lease runs out and nobody else is there to declare it lost: it gives its jobs back itself."""
    a_key(db)
    a_list(db, 2)
    gate = register.hold("/first")
    with a_worker(proxy.url, two_calls, url, lease=0.6, beat=0.1) as parts:
        until(lambda: register.waiting == 2)
        proxy.cut()
        until(lambda: not parts.heartbeat.is_believed())
        gate.set()
        until(lambda: all(not work.claim or not register.waiting for work in parts.worker._held.values()))
        proxy.mend()
        until(lambda: _done(db) == 2)
    assert len(register.paths) == len(set(register.paths)) == 4
    assert [row[2] for row in _jobs(db)] == [0, 0]


def test_an_answer_that_was_cut_off_with_its_worker_is_used_by_the_next_one(
    dsn: str,
    db: psycopg.Connection,
    proxy: Any,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is stored when the next worker has looked already and stands in line to ask the same."""
    monkeypatch.setattr(writer, "AWAY_SECONDS", (0.05,))
    monkeypatch.setattr(connections, "LONGEST_WAIT_SECONDS", 0.2)
    for one in (module, outlook):  # the next worker stands in line for long
        monkeypatch.setattr(one, "SOON_SECONDS", 6.0)
    a_key(db, "2/6s")
    a_list(db, 2)
    gate = register.hold("/first")
    with a_worker(proxy.url, two_calls, url, lease=0.6, beat=0.1) as parts:
        until(lambda: register.waiting == 2)
        proxy.cut()
        until(lambda: not parts.heartbeat.is_believed())
        gate.set()
        with a_worker(dsn, two_calls, url, beat=0.1):
            until(lambda: [row[4] for row in _jobs(db) if row[0] == "in_progress"] == [2, 2])
            assert db.execute("SELECT count(*) FROM answer").fetchone() == (0,)
            proxy.mend()
            until(lambda: _done(db) == 2, 30.0)
    assert sorted(register.paths) == [
        f"/{call}/{number:08}" for call in ("first", "second") for number in (1, 2)
    ]


def test_nothing_is_claimed_while_the_lease_is_not_believed(
    db: psycopg.Connection,
    dsn: str,
    proxy: Any,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked_while_lapsed = []
    real = claims.claim

    with a_worker(dsn, two_calls, url, beat=0.2) as parts:
        until(parts.heartbeat.is_believed)

        def claim(*arguments: Any, **more: Any) -> Any:
            asked_while_lapsed.append(parts.heartbeat.is_believed())
            return real(*arguments, **more)

        monkeypatch.setattr(claims, "claim", claim)
        lapsed = threading.Event()
        monkeypatch.setattr(parts.heartbeat, "is_believed", lapsed.is_set)
        a_key(db)
        a_list(db, 2)
        until(lambda: parts.worker._due)
        beats = db.execute("SELECT seen_at FROM worker").fetchone()
        until(lambda: db.execute("SELECT seen_at FROM worker").fetchone() != beats)
        assert asked_while_lapsed == []
        lapsed.set()


@pytest.mark.parametrize("error", [SystemExit(1), KeyboardInterrupt(), ValueError("a bug")])
def test_no_extractor_takes_a_slot_with_it(
    dsn: str,
    db: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    a_service: Callable[..., Service],
    url: str,
    a_worker: A_Worker,
    until: Until,
    error: BaseException,
) -> None:
    def extract(company: Company, options: Options) -> Extraction:
        yield Get("/a")
        if company.number == "00000001":
            raise error
        return Empty("no_facts")

    a_key(db)
    a_list(db, 3)
    with a_worker(dsn, a_service(extract), url, slots=1):
        until(lambda: _done(db) == 2)
    assert _jobs(db)[0][:3] == ("failed", "extractor_error", 1)


def test_an_outage_of_the_database_under_load_costs_nothing(
    db: psycopg.Connection,
    proxy: Any,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    two_calls: Service,
    url: str,
    register: Register,
    a_worker: A_Worker,
    until: Until,
) -> None:
    a_key(db)
    a_list(db, 40)
    with a_worker(proxy.url, two_calls, url, slots=8):
        for enough in (3, 12, 24):
            until(lambda enough=enough: _done(db) >= enough, 20.0)
            proxy.cut()
            began = time.monotonic()
            until(lambda began=began: time.monotonic() - began > 0.3)
            proxy.mend()
        until(lambda: _done(db) == 40, 20.0)
    assert len(register.paths) == len(set(register.paths)) == 80
    assert {row[2:4] for row in _jobs(db)} == {(0, 0)}
    assert tally.check(db) == []
