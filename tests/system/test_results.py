"""Whole runs: what comes out is what the sandbox knows to be true, and no service is asked too much."""

from __future__ import annotations

import random
import time
from typing import Any

UK, US = "companies_house", "sec_edgar"


def test_the_results_equal_the_sandboxs_truth_cell_by_cell(scene: Any) -> None:
    scene.sandbox([(UK, "uk1", "60/s"), (UK, "uk2", "60/s"), (US, "us1", "60/s")], "--latency", "20ms")
    for service, label in ((UK, "uk1"), (UK, "uk2"), (US, "us1")):
        scene.add_key(service, label, "50/s")
    lists = [scene.add_list(service) for service in (UK, US)]
    worker = scene.worker("--slots", "8")
    scene.until(scene.ended, 40.0)
    assert [difference for one in lists for difference in scene.differences(one)] == []
    summary = scene.summary()
    assert (summary["over_limit"], summary["repeated"]) == (0, 0)
    assert all(key["calls"] > 0 for label, key in summary["keys"].items() if label != "ip")
    worker.signal(15)
    assert worker.ended() == 0
    assert scene.counts_off() == []


def test_kill_9_loses_nothing_and_repeats_no_stored_answer(scene: Any) -> None:
    keys = [(UK, f"uk{n}", "30/3s") for n in (1, 2, 3)] + [(US, "us1", "25/3s")]
    scene.sandbox(keys, "--latency", "60ms", "--jitter", "20ms", "--companies", "27")
    for service, label, limit in keys:
        scene.add_key(service, label, limit)
    lists = [scene.add_list(service, "companies") for service in (UK, US)]
    dice = random.Random(20)
    workers = [scene.worker("--slots", "4") for _ in range(3)]
    kills, next_at = 0, time.monotonic() + 2.0
    while not scene.ended():
        if time.monotonic() > next_at and kills < 12:
            victim = dice.randrange(3)
            workers[victim].kill()
            workers[victim] = scene.worker("--slots", "4")
            kills, next_at = kills + 1, time.monotonic() + dice.uniform(0.3, 1.5)
        assert time.monotonic() < next_at + 60.0, scene.rows()
        time.sleep(0.02)
    assert kills >= 6
    assert [difference for one in lists for difference in scene.differences(one)] == []
    summary = scene.summary()
    assert (summary["over_limit"], summary["repeated"]) == (0, 0)
    assert summary["in_flight_at_kills"] <= kills * 4
    assert scene.counts_off() == []
