"""So many calls at once: who has the slots, who gets the next one, and that none is lent twice."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from uuid import UUID

import psycopg
import pytest

from store import claims, keys, ledger, slots, workers
from store.ledger import Reservation
from store.workers import Identity

A = Callable[..., int]
AWorker = Callable[..., Identity]


def reserve(conn: psycopg.Connection, want: int = 1, ahead: float = 0.0, **more: Any) -> Reservation:
    answer = ledger.reserve(conn, "registry", None, want, ahead, **more)
    assert isinstance(answer, Reservation), answer
    return answer


def got(conn: psycopg.Connection, worker: UUID, want: int = 1, under_way: int = 0) -> int:
    """How many calls a worker may begin that has so many under way."""
    account = conn.execute("SELECT id FROM account").fetchone()
    assert account
    return len(reserve(conn, want, worker=worker, calling={account[0]: under_way}).in_seconds)


def used(conn: psycopg.Connection) -> list[int]:
    return keys.see(conn)[0].used


def test_no_more_calls_are_under_way_than_may_be_over_all_workers(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker
) -> None:
    a_key(conn, "5 at once")
    one, other = a_worker(conn).id, a_worker(conn).id
    first = reserve(conn, 3, worker=one)
    account = first.account_id
    assert len(first.in_seconds) == 3
    assert len(reserve(conn, 9, worker=other).in_seconds) == 2
    assert reserve(conn, 1, worker=other, calling={account: 2}).wait_seconds == math.inf
    assert reserve(conn, 1, worker=one, calling={account: 3}).in_seconds == ()
    assert len(reserve(conn, 4, worker=one, calling={account: 2}).in_seconds) == 1
    assert used(conn) == [5]


def test_slots_are_given_back_by_the_next_reservation_or_by_word(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker
) -> None:
    a_key(conn, "5 at once")
    one, other = a_worker(conn).id, a_worker(conn).id
    account = reserve(conn, 5, worker=one).account_id
    assert len(reserve(conn, 1, worker=one, calling={account: 1}).in_seconds) == 1
    assert used(conn) == [2]
    assert len(reserve(conn, 9, worker=other).in_seconds) == 3
    slots.keep_slots(conn, "registry", one, {account: 1})
    assert used(conn) == [4]
    slots.keep_slots(conn, "registry", one, {})
    assert used(conn) == [3]


def test_the_slots_of_a_lost_worker_are_free(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker
) -> None:
    a_key(conn, "5 at once")
    lost, left, other = a_worker(conn).id, a_worker(conn).id, a_worker(conn).id
    reserve(conn, 3, worker=lost)
    reserve(conn, 2, worker=left)
    assert reserve(conn, 1, worker=other).in_seconds == ()
    conn.execute("UPDATE worker SET state = 'lost', ended_at = now() WHERE id = %s", (lost,))
    assert used(conn) == [2]
    answer = reserve(conn, 9, worker=other)
    assert len(answer.in_seconds) == 3
    workers.leave(conn, left)
    assert len(reserve(conn, 9, worker=other, calling={answer.account_id: 3}).in_seconds) == 2


def test_slots_of_somebody_unknown_are_free_after_a_while(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker
) -> None:
    """A worker that has registered since a statement began is unknown to it, and lives."""
    a_key(conn, "2 at once")
    reserve(conn, 2, worker=UUID(int=7))
    who = a_worker(conn).id
    assert reserve(conn, 2, worker=who).in_seconds == ()
    clock.advance(61.0)
    assert len(reserve(conn, 2, worker=who).in_seconds) == 2


def test_headroom_for_slots_is_what_others_leave_whatever_the_asker_has_under_way(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker, a_list: A
) -> None:
    a_key(conn, "5 at once")
    a_list(conn, 50)
    one, other = a_worker(conn), a_worker(conn)
    reserve(conn, 3, worker=one.id)
    got = claims.claim(conn, other.id, "registry", None, n=50, soon_seconds=2.0)
    assert got.room == 2
    assert claims.claim(conn, one.id, "registry", None, n=50, soon_seconds=2.0, waiting=1).room == 5 - 1 - 2


def test_who_has_more_than_its_share_makes_way_for_who_has_less(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker
) -> None:
    a_key(conn, "4 at once")
    busy, other = a_worker(conn).id, a_worker(conn).id
    assert got(conn, busy, 9) == 4
    assert got(conn, other, 9) == 0
    assert got(conn, busy, 9, under_way=3) == 0  # the one that has ended is the other's
    assert got(conn, other, 9) == 1
    assert got(conn, busy, 9, under_way=2) == 0
    assert got(conn, other, 9, under_way=1) == 1
    for _ in range(3):  # each has its half: each may go on
        assert got(conn, busy, 9, under_way=1) == 1
        assert got(conn, other, 9, under_way=1) == 1
    assert used(conn) == [4]


def test_what_nobody_wishes_any_more_is_for_whoever_has_work(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker
) -> None:
    a_key(conn, "4 at once")
    busy, other = a_worker(conn).id, a_worker(conn).id
    assert got(conn, busy, 4) == 4
    assert got(conn, other, 1) == 0
    assert got(conn, busy, 9, under_way=2) == 0
    assert got(conn, other, 1) == 1  # that was all it wanted
    assert got(conn, busy, 9, under_way=2) == 1
    assert got(conn, other, 1, under_way=1) == 0  # it wants another one, and has less than its share
    clock.advance(slots.TURN_SECONDS + slots.WISH_SECONDS + 0.01)
    assert got(conn, busy, 9, under_way=2) == 1  # it asks no more


@pytest.mark.parametrize("how", ["leave", "lost", "keep_slots"])
def test_the_wish_of_a_worker_that_is_gone_or_idle_keeps_nobody_waiting(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker, how: str
) -> None:
    a_key(conn, "2 at once")
    busy, other = a_worker(conn).id, a_worker(conn).id
    assert got(conn, busy, 2) == 2
    assert got(conn, other) == 0
    assert got(conn, busy, under_way=1) == 0
    match how:
        case "leave":
            workers.leave(conn, other)
        case "lost":
            conn.execute("UPDATE worker SET state = 'lost', ended_at = now() WHERE id = %s", (other,))
        case _:
            slots.keep_slots(conn, "registry", other, {})
    assert got(conn, busy, under_way=1) == 1


def test_with_more_workers_than_slots_they_take_turns(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker
) -> None:
    """Calls of 0.1 s without end: who has had one asks at once, the others every 0.3 s."""
    a_key(conn, "1 at once")
    three = [a_worker(conn).id for _ in range(3)]
    served: list[int | None] = [0]
    for tick in range(600):
        last, now = served[-1], None
        for number in sorted(range(3), key=lambda number: number != last):
            if (number == last or (tick + number) % 3 == 0) and got(conn, three[number]):
                assert now is None
                now = number
        served.append(now)
        clock.advance(0.1)
    assert served.count(None) < 0.1 * 600
    assert all(served.count(number) > 120 for number in range(3))
    turns = sum(before != after for before, after in pairwise(served) if after is not None)
    assert turns < 2 * 60 / slots.TURN_SECONDS  # two wait a turn each: nobody is hurried on at every call


def test_a_wish_from_before_the_clock_stepped_back_is_over(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker
) -> None:
    a_key(conn, "2 at once")
    busy, other = a_worker(conn).id, a_worker(conn).id
    assert got(conn, busy, 2) == 2
    assert got(conn, other) == 0
    clock.advance(-3600.0)
    assert got(conn, busy, under_way=1) == 1
    assert got(conn, other) == 0
    assert got(conn, busy, under_way=1) == 0


def test_slots_of_somebody_unknown_from_before_the_clock_stepped_back_are_free(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker
) -> None:
    a_key(conn, "2 at once")
    reserve(conn, 2, worker=UUID(int=7))
    clock.advance(-30.0)
    assert got(conn, a_worker(conn).id) == 0
    clock.advance(-3600.0)
    assert got(conn, a_worker(conn).id, 2) == 2


def test_slots_that_are_not_in_use_go_back_with_a_reservation_that_brings_nothing(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker
) -> None:
    """Its calls have ended, and the next ones wait for another limit."""
    a_key(conn, "3 at once", "3/10s")
    one = a_worker(conn).id
    assert got(conn, one, 3) == 3
    assert got(conn, one, 1, under_way=1) == 0
    assert used(conn) == [1, 3]


def test_who_waits_for_another_limit_wishes_no_slot_and_hears_how_long(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker
) -> None:
    a_key(conn, "4 at once", "5/10s")
    busy, other = a_worker(conn).id, a_worker(conn).id
    assert got(conn, busy, 4) == 4
    assert reserve(conn, 2, worker=other).wait_seconds == math.inf  # the window has a place for one
    clock.advance(6.0)
    assert got(conn, busy, 1, under_way=3) == 1
    assert reserve(conn, 2, worker=other).wait_seconds == pytest.approx(4.1, abs=0.01)
    clock.advance(4.2)
    assert got(conn, busy, under_way=3) == 1  # nobody wishes


def test_the_share_of_a_worker_is_headroom_whatever_others_hold_and_have_claimed(
    conn: psycopg.Connection, clock: Any, a_key: A, a_worker: AWorker, a_list: A
) -> None:
    a_key(conn, "2 at once")
    a_list(conn, 50)
    busy, other, third = a_worker(conn).id, a_worker(conn).id, a_worker(conn).id

    def room(worker: UUID, waiting: int = 0) -> int:
        return claims.claim(conn, worker, "registry", None, n=9, soon_seconds=2.0, waiting=waiting).room

    assert room(busy) == 2
    assert got(conn, busy, 2) == 2
    assert room(other) == 1
    assert room(other, waiting=1) == 0
    assert got(conn, other) == 0
    assert got(conn, busy, 2, under_way=1) == 0
    assert got(conn, other) == 1
    assert room(third) == 0  # a third of two slots is none
