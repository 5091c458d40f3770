"""A network that fails between a worker and its database, and a database that refuses for a while."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from bench.chaos.proxy import Proxy
from store import database

UK = "companies_house"
LEASE_SECONDS = 3.0
SLACK_SECONDS = 3.0  # a beat, a claim, and a busy machine


@pytest.fixture
def proxy(scene: Any) -> Iterator[Proxy]:
    """Stands between the database and the workers that are given its port."""
    with Proxy(int(str(conninfo_to_dict(scene.dsn)["port"]))) as made:
        yield made


@pytest.fixture
def slow_uk(scene: Any) -> Any:
    """A register that takes its time, so that jobs are in progress when something happens."""
    scene.sandbox([(UK, "uk1", "100/s")], "--latency", "500ms")
    scene.add_key(UK, "uk1", "90/s")
    scene.environment["LEASE_SECONDS"] = f"{LEASE_SECONDS:g}"
    return scene


def _held_by(scene: Any, process: Any) -> list[int]:
    held = """SELECT j.id FROM job j JOIN worker w ON w.id = j.worker
              WHERE w.pid = %s AND j.status = 'in_progress'"""
    return [row[0] for row in scene.db.execute(held, (process.pid,))]


def _run_again(scene: Any, jobs: list[int]) -> bool:
    left = "SELECT count(*) = 0 FROM job WHERE id = ANY (%s) AND claim_no = 1 AND status = 'in_progress'"
    return bool(scene.db.execute(left, (jobs,)).fetchone()[0])


def _through(scene: Any, proxy: Proxy) -> str:
    port = conninfo_to_dict(scene.dsn)["port"]
    return str(scene.dsn.replace(f":{port}/", f":{proxy.port}/"))


@pytest.mark.parametrize("harm", ["stop", "cut", "deafen"])
def test_jobs_of_a_worker_that_is_out_of_reach_run_again_within_its_lease(
    slow_uk: Any, proxy: Proxy, harm: str
) -> None:
    scene = slow_uk
    away = scene.worker("--slots", "4", DATABASE_URL=_through(scene, proxy))
    running = "SELECT count(*) FROM worker WHERE state = 'running'"
    scene.until(lambda: scene.db.execute(running).fetchone() == (1,))
    list_id = scene.add_list(UK, only=4)
    scene.until(lambda: len(_held_by(scene, away)) == 4)
    orphans = _held_by(scene, away)
    other = scene.worker("--slots", "4")
    scene.until(lambda: scene.db.execute(running).fetchone() == (2,))
    if harm == "stop":
        away.signal(signal.SIGSTOP)
    else:
        getattr(proxy, harm)()
    took = scene.until(lambda: _run_again(scene, orphans))
    assert took < LEASE_SECONDS + SLACK_SECONDS
    away.signal(signal.SIGCONT)
    proxy.heal()
    scene.until(scene.ended)
    assert scene.differences(list_id) == []
    assert scene.summary()["repeated"] == 0
    assert scene.counts_off() == []
    assert away.runs()
    assert "Traceback" not in away.log + other.log


@pytest.fixture
def refuse(scene: Any, database_server: str) -> Iterator[Callable[[str], None]]:
    """`refuse(how)`: have the database refuse in that way, with every session ended; `end`: no longer."""
    name = sql.Identifier(str(conninfo_to_dict(scene.dsn)["dbname"]))
    ways = {
        "read-only": "ALTER DATABASE {} SET default_transaction_read_only = on",
        "no connections left": "ALTER DATABASE {} CONNECTION LIMIT 0",
        "end": "ALTER DATABASE {} CONNECTION LIMIT -1",
    }
    others = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = %s AND application_name LIKE 'sluice worker%%'"""
    with psycopg.connect(database_server, autocommit=True) as admin, ExitStack() as after:

        def make(how: str) -> None:
            admin.execute(sql.SQL(ways[how]).format(name))
            if how == "end":
                admin.execute(sql.SQL("ALTER DATABASE {} RESET default_transaction_read_only").format(name))
            admin.execute(others, (conninfo_to_dict(scene.dsn)["dbname"],))

        after.callback(make, "end")
        yield make


@pytest.fixture
def limited_role(scene: Any, database_server: str) -> Iterator[str]:
    """The scene's database as an ordinary role: limits of connections do not hold for a superuser."""
    role = sql.Identifier("sluice_test_worker")
    with database.connect(scene.dsn, "test") as conn:
        conn.execute(sql.SQL("DROP ROLE IF EXISTS {}").format(role))
        conn.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD 'hidden' IN ROLE pg_read_all_stats").format(role))
        for what in ("ALL TABLES", "ALL SEQUENCES"):
            conn.execute(sql.SQL("GRANT ALL ON {} IN SCHEMA public TO {}").format(sql.SQL(what), role))
        try:
            yield f"postgresql://sluice_test_worker:hidden@{scene.dsn.rpartition('@')[2]}"
        finally:
            conn.execute(sql.SQL("DROP OWNED BY {}").format(role))
            conn.execute(sql.SQL("DROP ROLE {}").format(role))


@pytest.mark.parametrize("how", ["read-only", "no connections left"])
def test_a_database_that_refuses_for_some_seconds_is_waited_out(
    slow_uk: Any, refuse: Callable[[str], None], limited_role: str, how: str
) -> None:
    scene = slow_uk
    list_id = scene.add_list(UK, only=12)
    workers = [scene.worker("--slots", "4", DATABASE_URL=limited_role) for _ in range(2)]
    scene.until(lambda: scene.rows()["in_progress"] == 8)
    refuse(how)
    away = "heartbeat: the database is away"
    scene.until(lambda: all(worker.log.count(away) >= 4 for worker in workers))
    assert all(worker.log.count(away) < 40 for worker in workers)  # bounded, and not a storm of tries
    refuse("end")
    scene.until(scene.ended, 40.0)
    assert scene.differences(list_id) == []
    assert (scene.summary()["repeated"], scene.summary()["over_limit"]) == (0, 0)
    assert scene.counts_off() == []
    for worker in workers:
        assert worker.runs()
        assert "Traceback" not in worker.log
        worker.signal(signal.SIGTERM)
    assert [worker.ended() for worker in workers] == [0, 0]
