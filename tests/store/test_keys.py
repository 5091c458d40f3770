"""Keys are added once, sealed, and shown without their secret."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from store import claims, keys, ledger, steering
from store.calls import Call
from store.keys import KeySeen, KeyTaken
from store.ledger import Reservation
from store.limits import Limit
from store.vault import Vault, fingerprint
from store.workers import Identity

A = Callable[..., int]
AWorker = Callable[..., Identity]
Connect = Callable[[], psycopg.Connection]


def the_key(conn: psycopg.Connection) -> KeySeen:
    (key,) = keys.see(conn)
    return key


def test_a_key_is_shown_with_its_limits_and_without_its_secret(conn: psycopg.Connection, a_key: A) -> None:
    a_key(conn, "10/s", "600/5m", label="main", secret="hush-hush", key_set="night")
    key = the_key(conn)
    assert (key.service, key.label, key.account, key.key_set) == ("registry", "main", "main", "night")
    assert (key.state, key.rest_seconds, key.last_error) == ("active", 0.0, None)
    assert key.limits == [Limit(10, 1), Limit(600, 300)]
    assert key.used == [0, 0]
    assert key.fingerprint == fingerprint("hush-hush")
    assert "hush-hush" not in repr(key)


def test_the_secret_is_sealed_in_the_table_and_opens_for_whoever_reserves(
    conn: psycopg.Connection, a_key: A, vault: Vault
) -> None:
    a_key(conn, secret="hush-hush")
    (row,) = conn.execute("SELECT key::text, encode(secret, 'escape') FROM key").fetchall()
    assert not [text for text in row if "hush" in text]
    answer = ledger.reserve(conn, "registry", None, 1, 0.0)
    assert isinstance(answer, Reservation)
    assert vault.open(answer.secret) == "hush-hush"
    assert answer.fingerprint == fingerprint("hush-hush")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"label": "main", "secret": "other"}, "This label is taken: key “main” of registry"),
        ({"label": "second", "secret": "hush"}, "This secret is there already: key “main” of registry"),
    ],
)
def test_a_key_is_added_once(conn: psycopg.Connection, a_key: A, more: dict[str, str], words: str) -> None:
    a_key(conn, label="main", secret="hush")
    with pytest.raises(KeyTaken, match=words) as taken:
        a_key(conn, **more)
    assert "Nothing was added." in str(taken.value)
    assert "hush" not in str(taken.value)
    assert the_key(conn).label == "main"
    a_key(conn, service="other", **more)  # another service may have the same


def test_a_key_without_a_limit_is_refused(conn: psycopg.Connection, vault: Vault) -> None:
    with pytest.raises(ValueError, match="at least one limit"):
        keys.add(conn, vault, service="registry", label="main", secret="hush", limits=[])


def test_a_key_leaves_use_once_and_comes_back(conn: psycopg.Connection, a_key: A) -> None:
    key = a_key(conn)
    assert keys.reject(conn, key, "401 from the service")
    assert not keys.reject(conn, key, "later")
    assert not keys.exhaust(conn, key, "later")
    assert not keys.disable(conn, key)
    assert (the_key(conn).state, the_key(conn).last_error) == ("invalid", "401 from the service")
    assert keys.enable(conn, key)
    assert not keys.enable(conn, key)
    assert (the_key(conn).state, the_key(conn).last_error) == ("active", None)
    assert keys.exhaust(conn, key, "no money")
    assert the_key(conn).state == "exhausted"
    assert keys.enable(conn, key)
    assert keys.disable(conn, key)
    assert the_key(conn).state == "disabled"


def test_a_secret_is_replaced_and_the_ledger_hands_the_new_one_out(
    conn: psycopg.Connection, vault: Vault, a_key: A
) -> None:
    key = a_key(conn, secret="hush")
    keys.reject(conn, key, "401 from the service")
    assert keys.rotate(conn, vault, key, "new")
    assert (the_key(conn).state, the_key(conn).last_error) == ("active", None)
    answer = ledger.reserve(conn, "registry", None, 1, 0.0)
    assert isinstance(answer, Reservation)
    assert vault.open(answer.secret) == "new"
    assert not keys.rotate(conn, vault, key + 99, "another")


def test_what_is_said_late_of_the_secret_before_does_not_count(
    conn: psycopg.Connection, vault: Vault, a_key: A
) -> None:
    key = a_key(conn, secret="hush")
    keys.rotate(conn, vault, key, "new")
    for leave in (keys.reject, keys.exhaust):
        assert not leave(conn, key, "late", fingerprint("hush"))
        assert the_key(conn).state == "active"
    assert keys.reject(conn, key, "401", fingerprint("new"))


def test_two_keys_of_a_service_never_have_one_secret(
    conn: psycopg.Connection, vault: Vault, a_key: A
) -> None:
    key, other = a_key(conn, label="main", secret="hush"), a_key(conn, label="other", secret="new")
    for whose, secret, words in (
        (key, "hush", "“main” has this"),
        (key, "new", "“other” of the same service"),
    ):
        with pytest.raises(KeyTaken, match=words) as taken:
            keys.rotate(conn, vault, whose, secret)
        assert secret not in str(taken.value).replace("another", "")
    assert a_key(conn, service="elsewhere", secret="free")
    assert keys.rotate(conn, vault, other, "free")


def test_a_key_shows_its_rest_and_what_it_used(conn: psycopg.Connection, clock: Any, a_key: A) -> None:
    a_key(conn, "10/s", "60/m")
    answer = ledger.reserve(conn, "registry", None, 4, 0.0)
    assert isinstance(answer, Reservation)
    clock.advance(2.0)
    ledger.reserve(conn, "registry", None, 3, 0.0)
    assert the_key(conn).used == [3, 7]
    steering.rest_account(conn, answer.account_id, 30.0, "rate limited")
    key = the_key(conn)
    assert key.state == "resting"
    assert key.rest_seconds == pytest.approx(30.0, abs=1e-4)
    assert key.last_error == "rate limited"
    clock.advance(31.0)
    assert the_key(conn).state == "active"


def test_a_key_shows_its_calls_of_the_last_hour(
    conn: psycopg.Connection, a_key: A, a_worker: AWorker
) -> None:
    key, other = a_key(conn), a_key(conn)
    who = a_worker(conn)

    def call(key_id: int, verdict: str, ago: float) -> Call:
        return Call(1, 1, who.id, key_id, "/", verdict, 200, None, 0, 0, False, 0, sent_at=5000.0 - ago)

    calls = [
        call(key, "usable", 0),
        call(key, "key_rests", 60),
        call(key, "usable", 3700),
        call(other, "usable", 1),
    ]
    claims.settle(conn, [], calls=calls, now=5000.0)
    assert [(k.calls, k.rate_limited) for k in keys.see(conn)] == [(2, 1), (1, 0)]


@pytest.mark.parametrize("same", [{"label": "main"}, {"secret": "hush"}, {"account": "shared"}], ids=str)
def test_of_two_people_adding_at_once_the_second_is_told(
    dsn: str,
    connect: Connect,
    a_key: A,
    until: Callable[..., None],
    waits_for_lock: Callable[[psycopg.Connection, int], bool],
    same: dict[str, str],
) -> None:
    one, other, watcher = connect(), connect(), connect()
    a_key(one)  # the service is known already
    with ThreadPoolExecutor(1) as thread:
        with one.transaction():
            first = a_key(one, **same)
            second = thread.submit(a_key, other, **same)
            until(lambda: waits_for_lock(watcher, other.info.backend_pid))
        if "account" in same:
            assert second.result(10) > first
        else:
            with pytest.raises(KeyTaken, match="at the same moment"):
                second.result(10)
    assert len(keys.see(one)) == (3 if "account" in same else 2)
