"""A service that does not answer is left alone by all workers, and one job at a time tries again."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from store import circuits, claims, database, jobs, steering, workers
from store.calls import Call
from store.circuits import MOVES, Circuit, ServiceSeen
from store.claims import Claim, Settlement
from store.states import Status
from store.workers import Identity, Pulse

A = Callable[..., int]
AWorker = Callable[..., Identity]
Take = Callable[..., list[Claim]]
Beat = Callable[..., Pulse]
Settle = Callable[..., Settlement]
DRAWN = (Path(__file__).resolve().parents[2] / "docs" / "states.md").read_text(encoding="utf-8")
SERVICE = "registry"


def trip(conn: psycopg.Connection, times: int = 1, took: float = 0.1) -> bool:
    return [circuits.trip(conn, SERVICE, took, "503") for _ in range(times)][-1] is Circuit.OPEN


def open_it(conn: psycopg.Connection) -> None:
    assert trip(conn, circuits.LEAST_FAILURES, took=30.0)


def seen(conn: psycopg.Connection) -> ServiceSeen:
    (one,) = circuits.see(conn)
    return one


def answered(conn: psycopg.Connection, key: int, times: int, verdict: str = "usable") -> None:
    """As if so many calls had been sent just now."""
    call = Call(1, 1, uuid4(), key, "/a", verdict, 200, None, 0, 1, False, 0, 0.0)
    claims.settle(conn, [], calls=[call] * times)


def test_the_docs_draw_the_moves_of_a_circuit_as_the_code_has_them() -> None:
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \| `(\w+)` \| (.+) \|$", DRAWN.split("## A circuit")[1], re.M)
    assert rows == [(move.name, move.before, move.after, move.meaning) for move in MOVES]
    arrows = re.findall(r"^ +(\w+) --> (\w+): (\w+)$", DRAWN.split("## A circuit")[1], re.M)
    assert arrows == [(move.before, move.after, move.name) for move in MOVES]
    rooms = (circuits, claims, workers)
    assert all(any(callable(getattr(room, move.name, None)) for room in rooms) for move in MOVES)
    assert {move.after for move in MOVES} == {move.before for move in MOVES} == set(Circuit)


def test_failures_of_all_workers_open_it_and_fewer_do_not(
    conn: psycopg.Connection, clock: Any, a_key: A
) -> None:
    a_key(conn)
    assert not trip(conn, circuits.LEAST_FAILURES)
    assert circuits.see(conn) == []  # not yet: good calls of the same moment may not be logged yet
    clock.advance(1.0)
    assert trip(conn)
    assert seen(conn).circuit == Circuit.OPEN
    assert trip(conn)  # whoever fails later hears it too
    assert seen(conn).rest_cause == "503"


def test_failures_far_apart_open_nothing(conn: psycopg.Connection, clock: Any, a_key: A) -> None:
    a_key(conn)
    for _ in range(20):
        assert not trip(conn)
        clock.advance(circuits.WINDOW_SECONDS / (circuits.LEAST_FAILURES - 1))
    assert circuits.see(conn) == []


def test_calls_that_hang_open_it_when_they_end_together(
    conn: psycopg.Connection, clock: Any, a_key: A
) -> None:
    a_key(conn)
    assert trip(conn, circuits.LEAST_FAILURES, took=30.0)


def test_while_most_calls_are_answered_it_stays_closed(conn: psycopg.Connection, a_key: A) -> None:
    """One worker's network is cut, or one company breaks the service: the others go on."""
    key = a_key(conn)
    answered(conn, key, 8)
    assert not trip(conn, 8, took=30.0)
    assert trip(conn, 1)


def test_failed_calls_in_the_log_are_no_answers(conn: psycopg.Connection, a_key: A) -> None:
    answered(conn, a_key(conn), 50, "service_failed")
    open_it(conn)


def test_an_open_circuit_stops_all_claims_until_its_pause_is_over_and_then_lets_one_job_try(
    conn: psycopg.Connection, clock: Any, a_key: A, a_list: A, a_worker: AWorker, take: Take, beat: Beat
) -> None:
    a_key(conn)
    a_list(conn, 20)
    first, second = a_worker(conn), a_worker(conn)
    open_it(conn)
    assert take(conn, first, 8) == []
    assert (beat(conn, first).due, beat(conn, first).stopped) == ((), (SERVICE,))
    clock.advance(circuits.FIRST_PAUSE_SECONDS)
    assert beat(conn, first).due == (SERVICE,)
    (probe,) = take(conn, first, 8)
    assert probe.is_probe
    assert seen(conn).circuit == Circuit.PROBING
    for _ in range(3):
        assert take(conn, second, 8) == take(conn, first, 8) == []
        clock.advance(100.0)


def test_an_answer_closes_it_and_everybody_claims_at_once(
    conn: psycopg.Connection, clock: Any, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_key(conn)
    a_list(conn, 20)
    first, second = a_worker(conn), a_worker(conn)
    open_it(conn)
    clock.advance(circuits.FIRST_PAUSE_SECONDS)
    (probe,) = take(conn, first, 8)
    assert circuits.prove(conn, SERVICE, probe.id, probe.claim_no)
    assert circuits.see(conn) == []
    claimed = take(conn, second, 8)
    assert (len(claimed), any(claim.is_probe for claim in claimed)) == (8, False)
    assert not circuits.prove(conn, SERVICE, probe.id, probe.claim_no)
    assert not trip(conn, circuits.LEAST_FAILURES - 1)  # it counts anew


def test_a_failed_probe_doubles_the_pause_up_to_a_bound(
    conn: psycopg.Connection,
    clock: Any,
    a_key: A,
    a_list: A,
    a_worker: AWorker,
    take: Take,
    settlement: Settle,
) -> None:
    a_key(conn)
    a_list(conn, 20)
    who = a_worker(conn)
    open_it(conn)
    pauses = []
    for _ in range(9):
        clock.advance(circuits.LONGEST_PAUSE_SECONDS)
        (probe,) = take(conn, who, 8)
        assert circuits.fail(conn, SERVICE, probe.id, probe.claim_no, "503 again")
        assert not circuits.fail(conn, SERVICE, probe.id, probe.claim_no, "late")
        claims.settle(conn, [settlement(probe, Status.PENDING, cause="service_error")])
        until = seen(conn).rest_until
        assert until
        pauses.append(until.timestamp() - clock.at)
    for times, pause in enumerate(pauses, 2):
        longest = min(circuits.LONGEST_PAUSE_SECONDS, circuits.FIRST_PAUSE_SECONDS * 2.0 ** (times - 1))
        assert longest * (1 - circuits.JITTER) - 0.001 <= pause <= longest
    assert len(set(pauses)) == len(pauses)
    longest_pause = conn.execute("SELECT pause_seconds FROM service").fetchone()
    assert longest_pause == (circuits.LONGEST_PAUSE_SECONDS,)
    assert seen(conn).rest_cause == "503 again"


@pytest.mark.parametrize("how", ["settled without a call", "worker lost", "released"])
def test_a_probe_whose_job_is_put_down_is_free_for_the_next(
    conn: psycopg.Connection,
    clock: Any,
    a_key: A,
    a_list: A,
    a_worker: AWorker,
    take: Take,
    beat: Beat,
    settlement: Settle,
    how: str,
) -> None:
    a_key(conn)
    a_list(conn, 3)
    first, second = a_worker(conn), a_worker(conn)
    open_it(conn)
    clock.advance(circuits.FIRST_PAUSE_SECONDS)
    (probe,) = take(conn, first, 8)
    clock.advance(5.0)
    match how:
        case "settled without a call":
            claims.settle(conn, [settlement(probe, Status.PENDING, cause="shutdown")])
        case "worker lost":
            conn.execute("UPDATE worker SET lease_until = 'epoch' WHERE id = %s", (first.id,))
            assert beat(conn, second).recovered == 1
        case _:
            claims.release(conn, first.id, {probe.id: probe.claim_no})
    assert seen(conn).circuit == Circuit.OPEN
    (again,) = take(conn, second, 8)
    assert again.is_probe
    assert not circuits.fail(conn, SERVICE, probe.id, probe.claim_no, "late") or again.id != probe.id


def test_many_that_claim_at_once_get_one_probe(
    dsn: str, connect: Callable[[], psycopg.Connection], a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    setup = connect()
    a_key(setup)
    a_list(setup, 50)
    four = [a_worker(setup) for _ in range(4)]

    def claim(who: Identity) -> int:
        with database.connect(dsn, "test") as conn:
            return sum(len(take(conn, who, 8)) for _ in range(5))

    open_it(setup)
    with ThreadPoolExecutor(len(four)) as threads:
        for _ in range(6):
            setup.execute("UPDATE service SET rest_until = now(), probe_job = NULL, probe_claim_no = NULL")
            assert sum(threads.map(claim, four)) == 1
            setup.execute("UPDATE job SET status = 'pending', worker = NULL, run_until = NULL")


def test_a_probe_leaves_a_longer_rest_that_its_answer_asks_for(
    conn: psycopg.Connection, clock: Any, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_key(conn)
    a_list(conn, 3)
    open_it(conn)
    clock.advance(circuits.FIRST_PAUSE_SECONDS)
    (probe,) = take(conn, a_worker(conn), 8)
    steering.rest_service(conn, SERVICE, 600.0, "too many requests")
    assert circuits.prove(conn, SERVICE, probe.id, probe.claim_no)
    one = seen(conn)
    assert (one.circuit, one.rest_cause) == (Circuit.CLOSED, "too many requests")
    assert one.rest_until
    assert one.rest_until.timestamp() == pytest.approx(clock.at + 600.0, abs=0.01)


def test_a_person_ends_a_rest_and_an_open_circuit_tries_at_once(
    conn: psycopg.Connection, clock: Any, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_key(conn)
    a_list(conn, 9)
    who = a_worker(conn)
    steering.rest_service(conn, SERVICE, 600.0, "too many requests")
    assert circuits.end_rest(conn, SERVICE)
    assert not circuits.end_rest(conn, SERVICE)
    assert len(take(conn, who, 2)) == 2
    open_it(conn)
    assert circuits.end_rest(conn, SERVICE)
    assert [claim.is_probe for claim in take(conn, who, 5)] == [True]


def test_a_test_of_a_key_may_be_the_probe_and_is_then_the_only_job(
    conn: psycopg.Connection, clock: Any, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    key = a_key(conn)
    a_list(conn, 9)
    tested = a_list(conn, key_id=key)
    with conn.transaction():
        jobs.enqueue(conn, tested, [jobs.NewJob("1"), jobs.NewJob("2")])
    open_it(conn)
    clock.advance(circuits.FIRST_PAUSE_SECONDS)
    assert [claim.key_id for claim in take(conn, a_worker(conn), 5)] == [key]
