"""Behind PgBouncer in transaction mode everything holds; a dead worker is found by its lease."""

from __future__ import annotations

import os
import pwd
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from store import database

UK, US = "companies_house", "sec_edgar"
LEASE_SECONDS = 3.0


@pytest.fixture
def pooled(empty_dsn: str, tmp_path: Path, debian_tool: Callable[..., list[str]]) -> Iterator[str]:
    """The same database through a PgBouncer of this test's own; it refuses to run as root."""
    server = urlsplit(empty_dsn)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    name = server.path.lstrip("/")
    config = tmp_path / "pgbouncer.ini"
    config.write_text(
        f"""[databases]
{name} = host=127.0.0.1 port={server.port} user={server.username} password={server.password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 10
ignore_startup_parameters = extra_float_digits
"""
    )
    as_whom: dict[str, Any] = {}
    if os.geteuid() == 0:
        os.chmod(tmp_path, 0o755)
        for above in tmp_path.parents[:3]:
            os.chmod(above, 0o755)
        as_whom = {"user": pwd.getpwnam("nobody").pw_uid, "group": "nogroup", "extra_groups": []}
    bouncer = subprocess.Popen(
        [*debian_tool("pgbouncer"), "-q", str(config)], cwd="/", stderr=subprocess.PIPE, text=True, **as_whom
    )
    url = empty_dsn.replace(f":{server.port}/", f":{port}/")
    deadline = time.monotonic() + 10
    while True:
        try:
            database.connect(url, "test").close()
            break
        except psycopg.OperationalError:
            assert bouncer.poll() is None, bouncer.stderr and bouncer.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
    yield url
    bouncer.terminate()
    bouncer.wait(10)
    if bouncer.stderr:
        bouncer.stderr.close()


@pytest.fixture
def running(scene: Any, pooled: str) -> Any:
    """Lists, keys, and two workers that reach the database through the pooler only."""
    keys = [(UK, "uk1", "50/s"), (US, "us1", "50/s")]
    scene.sandbox(keys, "--latency", "300ms")
    for service, label, _ in keys:
        scene.add_key(service, label, "40/s")
    scene.environment |= {
        "DATABASE_URL": pooled,
        "LEASE_SECONDS": str(LEASE_SECONDS),
        "HEARTBEAT_SECONDS": "0.5",
    }
    return scene


def held_by(scene: Any, pid: int) -> list[int]:
    held = """SELECT j.id FROM job j JOIN worker w ON w.id = j.worker
              WHERE w.pid = %s AND j.status = 'in_progress'"""
    return [job for (job,) in scene.db.execute(held, (pid,))]


def test_it_is_noticed(pooled: str, empty_dsn: str) -> None:
    for url, is_pooled in ((pooled, True), (empty_dsn, False)):
        with database.connect(url, "test") as conn:
            assert database.is_pooled(conn) is is_pooled


def test_jobs_of_a_killed_worker_run_again_within_the_lease_and_all_is_right(running: Any) -> None:
    lists = [running.add_list(UK), running.add_list(US)]
    first, _ = running.worker("--slots", "4"), running.worker("--slots", "4")
    running.until(lambda: held_by(running, first.pid))
    orphans = held_by(running, first.pid)
    first.kill()
    again = """SELECT bool_and(losses > 0 OR claim_no > 1 OR status IN ('done', 'failed'))
               FROM job WHERE id = ANY (%s)"""
    took = running.until(lambda: running.db.execute(again, (orphans,)).fetchone()[0])
    assert took < LEASE_SECONDS + 3.0
    running.until(running.ended, 60.0)
    assert [running.differences(one) for one in lists] == [[], []]
    summary = running.summary()
    assert (summary["over_limit"], summary["repeated"], running.counts_off()) == (0, 0, [])


def test_a_living_worker_is_not_declared_lost_when_the_pooler_drops_its_sessions(running: Any) -> None:
    list_id = running.add_list(UK)
    worker = running.worker("--slots", "4")
    running.until(lambda: held_by(running, worker.pid))
    running.db.execute(
        """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
           WHERE datname = current_database() AND pid <> pg_backend_pid()"""
    )
    running.until(running.ended, 60.0)
    assert running.differences(list_id) == []
    assert running.db.execute("SELECT state FROM worker").fetchall() == [("running",)]
    assert running.db.execute("SELECT sum(losses) FROM job").fetchone() == (0,)
    assert worker.runs()
