"""Tests of keys are ordered once at a time, claimed for their own key, and no list to people."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest

from store import claims, database, jobs, key_tests, keys, ledger, list_pages, lists, steering, tally
from store.claims import Claim, Settlement
from store.ledger import NoKey, Reservation
from store.states import Status
from store.workers import Identity

A = Callable[..., int]
PROBE = "00000006"


def test_a_test_is_ordered_once_at_a_time(
    conn: psycopg.Connection,
    a_key: A,
    a_worker: Callable[..., Identity],
    take: Callable[..., list[Claim]],
    settlement: Callable[..., Settlement],
) -> None:
    key = a_key(conn)
    assert key_tests.order(conn, key, PROBE)
    assert not key_tests.order(conn, key, PROBE)
    (claim,) = take(conn, a_worker(conn))
    assert (claim.key_id, claim.company) == (key, PROBE)
    assert not key_tests.order(conn, key, PROBE)
    claims.settle(conn, [settlement(claim, Status.FAILED, cause="key_invalid")])
    assert key_tests.last(conn)[key].cause == "key_invalid"
    assert key_tests.order(conn, key, PROBE)


def test_of_two_who_order_at_once_one_does(dsn: str, a_key: A) -> None:
    with database.connect(dsn, "test") as conn:
        key = a_key(conn)
    ordered: list[bool] = []

    def order() -> None:
        with database.connect(dsn, "test") as own:
            ordered.append(key_tests.order(own, key, PROBE))

    threads = [threading.Thread(target=order) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ordered) == [False] * 5 + [True]


def test_a_disabled_key_is_not_tested(conn: psycopg.Connection, a_key: A) -> None:
    key = a_key(conn)
    assert keys.disable(conn, key)
    assert not key_tests.order(conn, key, PROBE)
    assert key_tests.order(conn, key + 1, PROBE) is False
    assert not key_tests.last(conn)


def test_a_test_is_claimed_first_and_without_room_for_others(
    conn: psycopg.Connection,
    a_key: A,
    a_list: A,
    a_worker: Callable[..., Identity],
    take: Callable[..., list[Claim]],
) -> None:
    key, who = a_key(conn), a_worker(conn)
    a_list(conn, 3, priority=1000)
    keys.reject(conn, key, "no good")
    assert take(conn, who, 5) == []
    assert key_tests.order(conn, key, PROBE)
    assert [claim.key_id for claim in take(conn, who, 5)] == [key]
    other = a_key(conn)
    assert key_tests.order(conn, other, PROBE)
    assert Counter(claim.key_id for claim in take(conn, who, 3)) == {other: 1, None: 2}


@pytest.mark.parametrize("why", ["disabled", "resting", "full", "of another set"])
def test_a_test_whose_key_may_not_call_is_not_claimed(
    conn: psycopg.Connection,
    a_key: A,
    a_worker: Callable[..., Identity],
    take: Callable[..., list[Claim]],
    why: str,
) -> None:
    a_key(conn, key_set="here")
    key = a_key(conn, "1/h", key_set="there" if why == "of another set" else "here")
    assert key_tests.order(conn, key, PROBE)
    match why:
        case "disabled":
            keys.disable(conn, key)
        case "resting":
            steering.rest_key(conn, key, 600, "rested")
        case "full":
            ledger.reserve(conn, "registry", None, 1, 0.1, key_id=key)
    assert take(conn, a_worker(conn, key_set="here")) == []


def test_a_permit_is_of_the_key_that_is_tested(conn: psycopg.Connection, a_key: A) -> None:
    a_key(conn)
    key = a_key(conn)
    keys.reject(conn, key, "no good")
    reserved = ledger.reserve(conn, "registry", None, 1, 0.1, key_id=key)
    assert isinstance(reserved, Reservation)
    assert reserved.key_id == key
    usual = ledger.reserve(conn, "registry", None, 1, 0.1)
    assert isinstance(usual, Reservation)
    assert usual.key_id != key
    keys.enable(conn, key)
    keys.disable(conn, key)
    assert ledger.reserve(conn, "registry", None, 1, 0.1, key_id=key) == NoKey()


def test_people_see_no_list_and_count_no_job_of_a_test(conn: psycopg.Connection, a_key: A) -> None:
    assert key_tests.order(conn, a_key(conn), PROBE)
    assert lists.see(conn) == list_pages.latest(conn, 9, 9) == []
    assert (list_pages.states(conn), list_pages.waiting(conn)) == ({}, set())
    assert jobs.oldest_due(conn) is None
    assert tally.totals(conn) == []
    tally.fold(conn)
    assert tally.totals(conn) == []
    assert [count.n for count in tally.read(conn)] == [1]


def test_only_a_key_that_was_out_of_use_is_proved(conn: psycopg.Connection, a_key: A) -> None:
    key = a_key(conn)
    assert not keys.prove(conn, key)
    keys.disable(conn, key)
    assert not keys.prove(conn, key)
    keys.enable(conn, key)
    keys.exhaust(conn, key, "empty")
    assert keys.prove(conn, key)
