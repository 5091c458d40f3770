"""Workers behind PgBouncer in transaction mode: no session of their own, and only the lease tells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from bench.chaos.pooler import pooler
from bench.chaos.proxy import Proxy
from store import database

UK = "companies_house"
LEASE_SECONDS = 3.0
SLACK_SECONDS = 3.0  # a beat, a claim, and a busy machine
POOL_SIZE = 4  # fewer server connections than there are clients


@pytest.fixture
def pooled(scene: Any, debian_tool: Callable[[str], list[str]]) -> Iterator[tuple[Any, Proxy]]:
    """The scene with its programs behind PgBouncer, and the proxy between the two."""
    there = conninfo_to_dict(scene.dsn)
    with pooler(debian_tool("pgbouncer"), scene.dsn, POOL_SIZE) as port, Proxy(port) as proxy:
        scene.environment |= {
            "DATABASE_URL": scene.dsn.replace(f":{there['port']}/", f":{proxy.port}/"),
            "LEASE_SECONDS": f"{LEASE_SECONDS:g}",
        }
        scene.until(lambda: _answers(scene.environment["DATABASE_URL"]))
        yield scene, proxy


def _answers(url: str) -> bool:
    with suppress(psycopg.OperationalError), database.connect(url, "test") as conn:
        assert database.is_pooled(conn)
        return True
    return False


def _held_by(scene: Any, process: Any) -> list[int]:
    held = """SELECT j.id FROM job j JOIN worker w ON w.id = j.worker
              WHERE w.pid = %s AND j.status = 'in_progress'"""
    return [row[0] for row in scene.db.execute(held, (process.pid,))]


def _two_workers_hold(scene: Any) -> tuple[Any, Any, list[int], int]:
    """Two workers on slow jobs; the second pair: what the first one holds, and the list."""
    scene.sandbox([(UK, "uk1", "100/s")], "--latency", "500ms")
    scene.add_key(UK, "uk1", "90/s")
    first, second = (scene.worker("--slots", "4") for _ in range(2))
    running = "SELECT count(*) FROM worker WHERE state = 'running'"
    scene.until(lambda: scene.db.execute(running).fetchone() == (2,))
    list_id = scene.add_list(UK, only=8)
    scene.until(lambda: len(_held_by(scene, first)) == len(_held_by(scene, second)) == 4)
    return first, second, _held_by(scene, first), list_id


def _run_again(scene: Any, jobs: list[int]) -> bool:
    again = "SELECT count(*) = 0 FROM job WHERE id = ANY (%s) AND claim_no = 1 AND status = 'in_progress'"
    return bool(scene.db.execute(again, (jobs,)).fetchone()[0])


def test_kill_9_behind_pgbouncer_loses_nothing(pooled: tuple[Any, Proxy]) -> None:
    scene, _ = pooled
    first, second, orphans, list_id = _two_workers_hold(scene)
    sessions = "SELECT count(*) FROM worker WHERE backend_pid IS NOT NULL"
    assert scene.db.execute(sessions).fetchone() == (0,)  # a pooler's session is no sign of life
    first.kill()
    assert scene.until(lambda: _run_again(scene, orphans)) < LEASE_SECONDS + SLACK_SECONDS
    scene.until(scene.ended)
    assert scene.differences(list_id) == []
    assert (scene.summary()["repeated"], scene.summary()["over_limit"]) == (0, 0)
    assert scene.counts_off() == []
    assert "prepared statement" not in second.log
    assert "Traceback" not in second.log


@pytest.mark.parametrize("harm", ["cut", "deafen"])
def test_a_network_that_fails_behind_pgbouncer_is_waited_out(pooled: tuple[Any, Proxy], harm: str) -> None:
    scene, proxy = pooled
    *workers, _, list_id = _two_workers_hold(scene)
    getattr(proxy, harm)()
    scene.until(lambda: all(_lease_is_over(scene, worker) for worker in workers))
    proxy.heal()
    scene.until(scene.ended, 40.0)
    assert scene.differences(list_id) == []
    assert (scene.summary()["repeated"], scene.summary()["over_limit"]) == (0, 0)
    assert scene.counts_off() == []
    for worker in workers:
        assert worker.runs()
        assert "Traceback" not in worker.log


def _lease_is_over(scene: Any, process: Any) -> bool:
    over = "SELECT lease_until < clock_timestamp() FROM worker WHERE pid = %s ORDER BY started_at LIMIT 1"
    return bool(scene.db.execute(over, (process.pid,)).fetchone()[0])
