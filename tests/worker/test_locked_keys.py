"""A worker without the master key of a secret: it does without that key and is in nobody's way."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg
import pytest
from cryptography.fernet import Fernet

from store import claims, database, jobs, keys, limits, lists, workers
from store.jobs import NewJob
from store.ledger import NoKey, Reservation, reserve
from store.lists import NewList
from store.vault import Vault
from store.workers import Identity
from worker.line import Waiter
from worker.permits import Permits
from worker.work import PutBack, Work


@pytest.fixture
def conn(dsn: str) -> Iterator[psycopg.Connection]:
    with database.connect(dsn, "test") as conn:
        yield conn


def _add_key(conn: psycopg.Connection, vault: Vault) -> int:
    with conn.transaction():
        return keys.add(
            conn, vault, service="registry", label="one", secret="secret", limits=[limits.parse("100/m")]
        )


def _line(conn: psycopg.Connection, vault: Vault) -> Permits:
    @contextmanager
    def connections() -> Iterator[psycopg.Connection]:
        yield conn

    return Permits("registry", None, connections, vault)


def test_a_worker_with_the_wrong_master_key_asks_once_and_leaves_the_key_to_the_others(
    conn: psycopg.Connection, vault: Vault, a_work: Callable[..., Work], caplog: pytest.LogCaptureFixture
) -> None:
    _add_key(conn, vault)
    line = _line(conn, Vault([Fernet.generate_key().decode()]))
    waiter = Waiter(a_work(), 0)
    line._line.join(waiter)
    with caplog.at_level(logging.ERROR):
        line.serve()
        line.serve()
    assert isinstance(waiter.given, PutBack)
    assert waiter.given.cause == "no_key"
    assert len(caplog.records) == 1
    assert "SLUICE_MASTER_KEYS" in caplog.text

    (key,) = keys.see(conn)
    assert (key.state, key.used) == ("active", [1])
    assert isinstance(reserve(conn, "registry", None, 1, 0.0), Reservation)


def test_a_secret_that_is_sealed_anew_is_tried_again(
    conn: psycopg.Connection, vault: Vault, a_work: Callable[..., Work]
) -> None:
    key_id = _add_key(conn, vault)
    other = Vault([Fernet.generate_key().decode()])
    line = _line(conn, other)
    line._line.join(Waiter(a_work(), 0))
    line.serve()
    assert isinstance(reserve(conn, "registry", None, 1, 0.0, line.locked), NoKey)

    conn.execute("UPDATE key SET secret = %s WHERE id = %s", (other.seal("secret"), key_id))
    waiter = Waiter(a_work(), 0)
    line._line.join(waiter)
    line.serve()
    assert waiter.given is not None
    assert not isinstance(waiter.given, PutBack)
    assert waiter.given.secret == "secret"


@pytest.mark.parametrize(("is_locked", "claimed"), [(False, 3), (True, 0)])
def test_nothing_is_claimed_for_keys_that_cannot_be_opened(
    conn: psycopg.Connection, vault: Vault, is_locked: bool, claimed: int
) -> None:
    _add_key(conn, vault)
    list_id = lists.create(conn, NewList("a list", "registry", ["name"]))
    with conn.transaction():
        jobs.enqueue(conn, list_id, [NewJob(f"{n:08}") for n in range(3)])
    who = Identity(uuid4(), "test", "test", 1, "0", None, ["registry"], 8)
    workers.register(conn, who, 30.0)
    sealed = [row[0] for row in conn.execute("SELECT secret FROM key")]
    got = claims.claim(
        conn, who.id, "registry", None, n=8, soon_seconds=2.0, locked=sealed if is_locked else ()
    )
    assert len(got.claims) == claimed
