"""A test of a key: one call under this key and no other, whatever it or the others are worth."""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import Any

import psycopg
import pytest

from services.extraction import Company, Extraction, Fields, Get, Options
from services.service import Service
from store import jobs, key_tests, keys, steering
from store.key_tests import TestSeen


@dataclass
class Register:
    """Answers by secret: (status, words, headers); 200 when nothing was said of it."""

    send: Callable[..., None]
    said: dict[str, tuple[int, str, dict[str, str]]] = field(default_factory=dict)
    asked_by: list[str] = field(default_factory=list)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        secret = base64.b64decode(handler.headers["authorization"].removeprefix("Basic ")).decode()
        self.asked_by.append(secret)
        status, words, headers = self.said.get(secret, (200, "Seven Ltd", {}))
        self.send(handler, status, words.encode(), **headers)


def _two_calls(company: Company, options: Options) -> Extraction:
    yield [Get(f"/company/{company.number}"), Get("/b")]
    yield Get("/c")
    return Fields({})


@pytest.fixture
def register(send: Callable[..., None]) -> Register:
    return Register(send)


@pytest.fixture
def working(
    dsn: str,
    register: Register,
    serve: Callable[..., str],
    a_service: Callable[..., Service],
    a_worker: Callable[..., AbstractContextManager[Any]],
) -> AbstractContextManager[Any]:
    """`with working:` a worker that asks the register twice for every company."""
    return a_worker(dsn, a_service(_two_calls), serve(register.answer))


Tested = Callable[[int], TestSeen]


@pytest.fixture
def tested(
    db: psycopg.Connection, until: Callable[..., None], working: AbstractContextManager[Any]
) -> Tested:
    """`tested(key_id)`: what a test that a worker made of the key has shown."""

    def run(key_id: int) -> TestSeen:
        assert key_tests.order(db, key_id, "00000006")
        with working:
            until(lambda: not key_tests.last(db)[key_id].is_under_way)
        return key_tests.last(db)[key_id]

    return run


def state_of(db: psycopg.Connection, key_id: int) -> tuple[str, str | None]:
    return next((key.state, key.last_error) for key in keys.see(db) if key.id == key_id)


@pytest.mark.parametrize("out", [keys.reject, keys.exhaust])
def test_a_mended_key_is_proved_by_one_call_and_in_use_again(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    register: Register,
    tested: Tested,
    out: Callable[..., bool],
) -> None:
    a_key(db, secret="another-secret")
    mended = a_key(db, secret="mended-secret")
    assert out(db, mended, "no good")
    assert tested(mended).status == "done"
    assert state_of(db, mended) == ("active", None)
    assert register.asked_by == ["mended-secret"]


@pytest.mark.parametrize(
    ("status", "cause", "state"),
    [
        (401, "key_invalid", "invalid"),
        (402, "key_exhausted", "exhausted"),
        (429, "rate_limited", "resting"),
        (500, "service_error", "active"),
    ],
)
def test_a_test_says_what_the_service_said_and_tries_no_other_key(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    register: Register,
    tested: Tested,
    status: int,
    cause: str,
    state: str,
) -> None:
    a_key(db, secret="another-secret")
    bad = a_key(db, secret="bad-secret")
    register.said["bad-secret"] = (status, "not for bad-secret", {"Retry_After": "60"})
    seen = tested(bad)
    assert (seen.status, seen.cause, seen.message) == ("failed", cause, "not for [key]")
    assert state_of(db, bad)[0] == state
    assert register.asked_by == ["bad-secret"]


def test_a_proved_key_takes_up_the_work_that_waited_for_it(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    a_list: Callable[..., int],
    register: Register,
    working: AbstractContextManager[Any],
    until: Callable[..., None],
) -> None:
    only = a_key(db, secret="only-secret")
    a_list(db, 3)
    keys.reject(db, only, "no good")
    done = "SELECT count(*) FROM job WHERE status = 'done'"
    assert key_tests.order(db, only, "00000006")
    with working:
        until(lambda: db.execute(done).fetchone() == (4,))
    assert register.asked_by == ["only-secret"] * 10


def test_a_test_waits_while_its_key_may_not_call_and_ends_as_soon_as_it_may(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    register: Register,
    working: AbstractContextManager[Any],
    until: Callable[..., None],
) -> None:
    key = a_key(db, secret="resting-secret")
    other = a_key(db, secret="other-secret")
    steering.rest_key(db, key, 3600, "rested")
    assert key_tests.order(db, key, "00000006")
    assert key_tests.order(db, other, "00000006")
    with working:
        until(lambda: key_tests.last(db)[other].status == "done")
        assert key_tests.last(db)[key].status == "pending"
        assert steering.end_rest(db, key)
        db.execute(jobs.WAKE)
        until(lambda: key_tests.last(db)[key].status == "done")
    assert register.asked_by == ["other-secret", "resting-secret"]


def test_a_repeated_test_asks_again(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    register: Register,
    working: AbstractContextManager[Any],
    until: Callable[..., None],
) -> None:
    key = a_key(db, secret="same-secret")
    with working:
        for times in (1, 2):
            assert key_tests.order(db, key, "00000006")
            until(lambda: key_tests.last(db)[key].status == "done")
            assert len(register.asked_by) == times
