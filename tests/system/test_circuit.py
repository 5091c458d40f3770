"""A service that does not answer: all workers leave it alone, one job at a time tries, then all go on."""

from __future__ import annotations

import time
from typing import Any

import pytest

UK = "companies_house"
DOWN = {"match": ".*", "kind": "status", "status": 503, "service": UK, "seconds": 0}


@pytest.fixture
def register(scene: Any) -> Any:
    scene.sandbox([(UK, "uk1", "200/s")], "--latency", "150ms", "--companies", "60")
    scene.add_key(UK, "uk1", "150/s")
    return scene


def _circuit(scene: Any) -> Any:
    """Whether it is open, which job tries, and its pause."""
    return scene.db.execute(
        "SELECT opened_at IS NOT NULL, probe_job, pause_seconds FROM service WHERE name = %s", (UK,)
    ).fetchone()


def _open(scene: Any) -> bool:
    return bool(_circuit(scene)[0]) and scene.rows()["in_progress"] == 0


def _prober(scene: Any) -> int | None:
    """The process that tries now."""
    row = scene.db.execute(
        """SELECT w.pid FROM service s JOIN job j ON j.id = s.probe_job AND j.claim_no = s.probe_claim_no
           JOIN worker w ON w.id = j.worker WHERE j.status = 'in_progress' AND s.name = %s""",
        (UK,),
    ).fetchone()
    return int(row[0]) if row else None


def test_one_job_at_a_time_tries_over_four_workers_and_then_all_go_on_at_full_speed(register: Any) -> None:
    scene = register
    list_id = scene.add_list(UK, "companies", only=60)
    scene.faults(DOWN)
    workers = [scene.worker("--slots", "4") for _ in range(4)]
    scene.until(lambda: _open(scene))
    calls = scene.stats()["calls"]
    most, tries, until = 0, set(), time.monotonic() + 6.0

    def watched() -> bool:
        nonlocal most
        most = max(most, scene.rows()["in_progress"])
        tries.add(_circuit(scene)[2])
        return time.monotonic() > until

    scene.until(watched)
    assert most == 1
    assert 1 <= scene.stats()["calls"] - calls <= len(tries)
    assert scene.db.execute("SELECT count(*) FROM job WHERE status = 'failed'").fetchone() == (0,)
    scene.faults()
    scene.until(lambda: not _circuit(scene)[0], 15.0)
    scene.until(lambda: scene.rows()["done"] > 30, 10.0)
    scene.until(scene.ended, 60.0)  # those that had failed make their pauses first
    assert scene.differences(list_id) == []
    assert all("Traceback" not in worker.log for worker in workers)
    harmed = "SELECT count(*) FROM job WHERE status = 'done' AND attempts + losses > 0"
    assert scene.db.execute(harmed).fetchone() == (0,)


def test_a_worker_that_dies_while_it_tries_frees_the_try_for_another(register: Any) -> None:
    scene = register
    list_id = scene.add_list(UK, "companies", only=12)
    scene.faults(DOWN)
    workers = {worker.pid: worker for worker in (scene.worker("--slots", "4") for _ in range(2))}
    scene.until(lambda: _open(scene))
    scene.until(lambda: _prober(scene))
    killed = _prober(scene)
    if killed is None:  # it has just ended: the next one
        scene.until(lambda: _prober(scene))
        killed = _prober(scene)
    assert killed is not None
    workers.pop(killed).kill()
    scene.faults()
    scene.until(lambda: not _circuit(scene)[0])
    scene.until(scene.ended)
    assert scene.differences(list_id) == []
