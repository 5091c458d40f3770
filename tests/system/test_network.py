"""A network that is cut or goes deaf before the database: the jobs run elsewhere, nothing twice."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.system.chaos.proxy import Proxy

UK = "companies_house"
LEASE_SECONDS = 3.0


@pytest.fixture
def network(empty_dsn: str) -> Iterator[Proxy]:
    """The way to the database of the worker that will lose it."""
    proxy = Proxy(urlsplit(empty_dsn).port or 0)
    yield proxy
    proxy.close()


@pytest.mark.parametrize("goes", ["cut", "go_deaf"])
def test_jobs_of_a_worker_that_is_cut_off_run_elsewhere_within_the_lease(
    scene: Any, network: Proxy, empty_dsn: str, goes: str
) -> None:
    scene.sandbox([(UK, "uk1", "100/s")], "--latency", "500ms")
    scene.add_key(UK, "uk1", "90/s")
    scene.environment |= {"LEASE_SECONDS": str(LEASE_SECONDS), "HEARTBEAT_SECONDS": "0.5"}
    behind = empty_dsn.replace(f":{urlsplit(empty_dsn).port}/", f":{network.port}/")
    list_id = scene.add_list(UK, only=8)
    alone = scene.worker("--slots", "8", DATABASE_URL=behind)
    scene.until(lambda: scene.rows()["in_progress"] == 8)
    other = scene.worker("--slots", "8")
    running = "SELECT count(*) FROM worker WHERE state = 'running'"
    scene.until(lambda: scene.db.execute(running).fetchone() == (2,))
    getattr(network, goes)()
    lost = "SELECT count(*) FROM worker WHERE pid = %s AND state = 'lost'"
    took = scene.until(lambda: scene.db.execute(lost, (alone.pid,)).fetchone() == (1,))
    assert took < LEASE_SECONDS + 2.0
    scene.until(scene.ended)
    network.mend()
    scene.until(lambda: scene.db.execute(running).fetchone() == (2,))  # it came back, as another one
    assert scene.differences(list_id) == []
    assert scene.summary()["repeated"] == 0
    assert alone.runs()
    assert other.runs()
