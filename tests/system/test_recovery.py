"""Workers that are killed, stopped, cut off or told to end, and a database that crashes under them."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from store.embedded import Server

ROOT = Path(__file__).parents[2]
UK, US = "companies_house", "sec_edgar"


def _held_by(scene: Any, pid: int) -> list[int]:
    return [
        row[0]
        for row in scene.db.execute(
            """SELECT j.id FROM job j JOIN worker w ON w.id = j.worker
               WHERE w.pid = %s AND j.status = 'in_progress'""",
            (pid,),
        )
    ]


def _registered(scene: Any, pid: int) -> bool:
    row = scene.db.execute(
        "SELECT count(*) FROM worker WHERE pid = %s AND state = 'running' AND backend_pid IS NOT NULL", (pid,)
    ).fetchone()
    return bool(row[0])


@pytest.fixture
def slow_uk(scene: Any) -> Any:
    """A register that takes its time, so that jobs are in progress when something happens."""
    scene.sandbox([(UK, "uk1", "100/s")], "--latency", "500ms")
    scene.add_key(UK, "uk1", "90/s")
    return scene


def test_jobs_of_a_killed_worker_run_again_within_five_seconds(slow_uk: Any) -> None:
    """The lease is long: it is the missing session that tells."""
    scene = slow_uk
    first, second = [scene.worker("--slots", "4", LEASE_SECONDS="60") for _ in range(2)]
    scene.until(lambda: _registered(scene, first.pid) and _registered(scene, second.pid))
    seconds_up = "SELECT extract(epoch FROM now() - pg_postmaster_start_time()) > 6"
    scene.until(lambda: scene.db.execute(seconds_up).fetchone()[0])
    list_id = scene.add_list(UK, only=8)
    scene.until(lambda: len(_held_by(scene, first.pid)) == len(_held_by(scene, second.pid)) == 4)
    orphans = _held_by(scene, first.pid)
    first.kill()
    recovered = (
        "SELECT count(*) = 4 FROM job WHERE id = ANY (%s) AND losses > 0 OR status = 'done' AND claim_no > 1"
    )
    took = scene.until(lambda: scene.db.execute(recovered, (orphans,)).fetchone()[0])
    assert took < 5.0
    scene.until(lambda: "4 jobs of lost workers run again" in second.log)
    scene.until(scene.ended)
    assert scene.differences(list_id) == []
    assert scene.summary()["repeated"] == 0


def test_a_worker_that_hung_past_its_lease_changes_nothing_when_it_wakes(slow_uk: Any) -> None:
    scene = slow_uk
    list_id = scene.add_list(UK, only=3)
    hung = scene.worker("--slots", "3")
    scene.until(lambda: len(_held_by(scene, hung.pid)) == 3)
    hung.signal(signal.SIGSTOP)
    other = scene.worker("--slots", "3")
    scene.until(lambda: len(_held_by(scene, other.pid)) == 3)
    hung.signal(signal.SIGCONT)
    scene.until(lambda: hung.log.count("lost claim") >= 3)
    scene.until(lambda: "declared lost while away; starting again under a new identity" in hung.log)
    scene.until(scene.ended)
    assert scene.differences(list_id) == []
    assert "lost claim" not in other.log
    ids = "SELECT count(*), count(*) FILTER (WHERE state = 'lost') FROM worker WHERE pid = %s"
    assert scene.db.execute(ids, (hung.pid,)).fetchone() == (2, 1)
    scene.add_list(UK, only=3)  # under its new identity it works on
    other.kill()
    scene.until(scene.ended)
    assert scene.counts_off() == []


def test_sigterm_lets_running_jobs_finish(slow_uk: Any) -> None:
    scene = slow_uk
    scene.add_list(UK, only=8)
    worker = scene.worker("--slots", "4")
    scene.until(lambda: scene.rows()["in_progress"] == 4)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    rows = scene.rows()
    assert (rows["in_progress"], rows["pending"]) == (0, 4)
    assert "stopped" in worker.log.splitlines()[-1]
    untouched = (
        "SELECT count(*) FROM job WHERE status = 'pending' AND attempts + losses + faults + claim_no = 0"
    )
    assert scene.db.execute(untouched).fetchone() == (4,)
    assert scene.db.execute("SELECT state FROM worker").fetchone() == ("stopped",)


def test_a_second_sigterm_puts_running_jobs_back_unharmed(slow_uk: Any) -> None:
    scene = slow_uk
    list_id = scene.add_list(UK, only=4)
    worker = scene.worker("--slots", "4")
    scene.until(lambda: scene.rows()["in_progress"] == 4)
    began = time.monotonic()
    worker.signal(signal.SIGTERM)
    scene.until(lambda: "no new jobs" in worker.log)
    worker.signal(signal.SIGTERM)
    assert worker.ended() == 0
    assert time.monotonic() - began < 1.4  # one call, not three
    unharmed = """SELECT count(*) FROM job WHERE status = 'pending' AND cause = 'shutdown'
                  AND attempts + losses + faults = 0"""
    assert scene.db.execute(unharmed).fetchone() == (4,)
    scene.worker("--slots", "4")
    scene.until(scene.ended)
    assert scene.differences(list_id) == []
    assert scene.summary()["repeated"] == 0


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that this test may crash, with our tables in it."""
    with Server(tmp_path / "var") as server:
        subprocess.run(
            [sys.executable, "-m", "flask", "db", "upgrade"],
            cwd=ROOT,
            env={**os.environ, "DATABASE_URL": server.url, "FLASK_APP": "wsgi"},
            check=True,
            capture_output=True,
        )
        yield server
        home = server.home
    shutil.rmtree(home)


def _crash(server: Server) -> None:
    """Immediate mode: what a power cut leaves."""
    postmaster = int((server.home / "data" / "postmaster.pid").read_text().split()[0])
    os.kill(postmaster, signal.SIGQUIT)
    with suppress(psutil.NoSuchProcess):
        while psutil.Process(postmaster).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
    server.start()


def test_a_database_that_crashes_under_load_costs_nothing(
    own_server: Server, scene_on: Callable[[str], Any]
) -> None:
    scene = scene_on(own_server.url)
    keys = [(UK, "uk1", "50/s"), (US, "us1", "50/s")]
    scene.sandbox(keys, "--latency", "100ms")
    for service, label, _ in keys:
        scene.add_key(service, label, "12/s")
    lists = [scene.add_list(service, only=20) for service in (UK, US)]
    workers = [scene.worker("--slots", "4") for _ in range(2)]
    for enough in (5, 20):
        scene.until(lambda enough=enough: scene.rows()["done"] >= enough)
        _crash(own_server)
        scene.reconnect()
    scene.until(scene.ended, 40.0)
    assert [difference for one in lists for difference in scene.differences(one)] == []
    assert scene.summary()["over_limit"] == 0
    assert scene.summary()["repeated"] == 0
    assert scene.counts_off() == []
    for worker in workers:
        assert worker.runs()
        assert "Traceback" not in worker.log
        worker.signal(signal.SIGTERM)
    assert [worker.ended() for worker in workers] == [0, 0]
