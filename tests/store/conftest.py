"""Builders that tests of the store share: a list with jobs, a key, a worker, a settlement, a clock to set.

They take the connection first, as `store` does, so that one test can act as several programs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from cryptography.fernet import Fernet
from psycopg import sql

from store import claims, database, jobs, keys, limits, lists, workers
from store.claims import Claim, Settlement
from store.jobs import NewJob
from store.lists import NewList
from store.states import Outcome, Status
from store.vault import Vault
from store.workers import Identity, Pulse, Vitals

SERVICE = "registry"
_number = count(1)


@pytest.fixture(scope="session")
def vault() -> Vault:
    return Vault([Fernet.generate_key().decode()])


@pytest.fixture(scope="session")
def a_list() -> Callable[..., int]:
    """`a_list(conn, jobs=0, service=…, **columns)`: a list of so many companies; returns its id."""

    def make(conn: psycopg.Connection, size: int = 0, service: str = SERVICE, **columns: Any) -> int:
        new = NewList(f"list {next(_number)}", service, fields=["name", "total"], required=["name"])
        list_id = lists.create(conn, new)
        if size:
            with conn.transaction():
                companies = (
                    NewJob(f"{line:08}", f"Company {line}", line=line) for line in range(1, size + 1)
                )
                jobs.enqueue(conn, list_id, companies)
        for column, value in columns.items():
            statement = sql.SQL("UPDATE list SET {} = %s WHERE id = %s").format(sql.Identifier(column))
            conn.execute(statement, (value, list_id))
        return list_id

    return make


@pytest.fixture(scope="session")
def a_key(vault: Vault) -> Callable[..., int]:
    """`a_key(conn, "10/s", "600/5m", account=…, key_set=…)`: a key with these limits; returns its id."""

    def make(conn: psycopg.Connection, *texts: str, service: str = SERVICE, **more: Any) -> int:
        number = next(_number)
        with conn.transaction():
            return keys.add(
                conn,
                vault,
                service=service,
                label=more.pop("label", f"key {number}"),
                secret=more.pop("secret", f"secret-{number}"),
                limits=[limits.parse(text) for text in texts or ["100000/m"]],
                **more,
            )

    return make


@pytest.fixture(scope="session")
def a_worker() -> Callable[..., Identity]:
    """`a_worker(conn, lease_seconds=30, key_set=…)`: a worker that has registered and never beaten."""

    def make(conn: psycopg.Connection, *, lease_seconds: float = 30.0, **more: Any) -> Identity:
        new = uuid4()
        wanted = {"key_set": None, "services": [SERVICE], "slots": 8} | more
        who = Identity(new, f"test · {new.hex[-4:]}", "test", 4711, "0", **wanted)
        workers.register(conn, who, lease_seconds)
        return who

    return make


@pytest.fixture(scope="session")
def beat() -> Callable[..., Pulse]:
    """`beat(conn, who)`: one tick of this worker on this connection."""

    def tick(
        conn: psycopg.Connection,
        who: Identity,
        *,
        lease_seconds: float = 30.0,
        direct: bool = True,
        draining: bool = False,
    ) -> Pulse:
        vitals = Vitals(draining, held=0, settled=0, rows_per_minute=0.0, memory_bytes=0, keys_in_use=[])
        return workers.tick(conn, who, vitals, lease_seconds=lease_seconds, direct=direct)

    return tick


@pytest.fixture(scope="session")
def take() -> Callable[..., list[Claim]]:
    """`take(conn, who, n)`: up to `n` jobs claimed by this worker."""

    def claim(conn: psycopg.Connection, who: Identity, n: int = 1, service: str = SERVICE) -> list[Claim]:
        return claims.claim(conn, who.id, service, who.key_set, n=n, soon_seconds=2.0).claims

    return claim


@pytest.fixture(scope="session")
def settlement() -> Callable[..., Settlement]:
    """`settlement(claim, Status.FAILED, cause=…)`: an end of this claim that fits its status."""

    def make(claim: Claim, status: Status = Status.DONE, **more: Any) -> Settlement:
        usual: dict[Status, dict[str, Any]] = {
            Status.DONE: {"outcome": Outcome.COMPLETE, "result": '{"values": {"name": "A"}}'},
            Status.FAILED: {"cause": "not_found", "message": "no such company", "tried": 1},
        }
        return Settlement(claim.id, claim.worker, claim.claim_no, status, **(usual.get(status, {}) | more))

    return make


@pytest.fixture
def connect(dsn: str) -> Iterator[Callable[[], psycopg.Connection]]:
    """Each call one more autocommit connection to this test's own database, as another program has it."""
    made: list[psycopg.Connection] = []

    def one() -> psycopg.Connection:
        made.append(database.connect(dsn, "test"))
        return made[-1]

    yield one
    for conn in made:
        conn.close()


@pytest.fixture(scope="session")
def until() -> Callable[..., None]:
    """`until(condition, seconds)`: wait for something that another thread or the server does."""

    def wait(condition: Callable[[], bool], seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"did not happen within {seconds:g} s"
            time.sleep(0.005)

    return wait


@pytest.fixture
def waits_for_lock() -> Callable[[psycopg.Connection, int], bool]:
    """`waits_for_lock(conn, pid)`: whether the session `pid` waits for somebody's lock."""

    def waits(conn: psycopg.Connection, pid: int) -> bool:
        row = conn.execute(
            "SELECT wait_event_type = 'Lock' FROM pg_stat_activity WHERE pid = %s", (pid,)
        ).fetchone()
        return row is not None and bool(row[0])

    return waits


class Clock:
    """The database's clock as one connection sees it, standing still until it is told to go on.

    Works by functions that hide those of `pg_catalog`; column defaults keep the true clock.
    """

    def __init__(self, conn: psycopg.Connection, start: float) -> None:
        self._conn = conn
        conn.execute("CREATE SCHEMA IF NOT EXISTS clock")
        for name in ("now", "statement_timestamp", "clock_timestamp"):
            conn.execute(f"""
                CREATE OR REPLACE FUNCTION clock.{name}() RETURNS timestamptz LANGUAGE sql STABLE
                AS $$ SELECT to_timestamp(current_setting('clock.now')::float8) $$""")
        conn.execute("SET search_path = clock, pg_catalog, public")
        self.set(start)

    def set(self, at: float) -> None:
        """`at` in seconds of the epoch."""
        self.at = at
        self._conn.execute("SELECT set_config('clock.now', %s, false)", (repr(at),))

    def advance(self, seconds: float) -> None:
        self.set(self.at + seconds)


@pytest.fixture
def clock(conn: psycopg.Connection) -> Clock:
    """The clock of `conn`, set to the true time a minute from now."""
    return Clock(conn, time.time() + 60.0)
