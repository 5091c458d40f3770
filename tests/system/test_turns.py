"""A small list beside a very large one, with real workers."""

from __future__ import annotations

from typing import Any

from store import jobs, lists
from store.jobs import NewJob
from store.lists import NewList

UK = "companies_house"
LARGE = 100_000


def _add_large(scene: Any) -> None:
    """Of companies that the register does not know: one call each, and no end in sight."""
    list_id = lists.create(scene.db, NewList("large", UK, fields=["shareholder_funds"]))
    with scene.db.transaction():
        jobs.enqueue(scene.db, list_id, (NewJob(f"{10_000_000 + line}", line=line) for line in range(LARGE)))


def test_a_list_of_ten_beside_a_hundred_thousand_jobs_starts_within_two_seconds(scene: Any) -> None:
    scene.sandbox([(UK, "uk1", "100/s")], "--latency", "50ms")
    scene.add_key(UK, "uk1", "60/s")
    _add_large(scene)
    for _ in range(2):
        scene.worker("--slots", "4")
    scene.until(lambda: scene.rows()["failed"] >= 20)
    small = scene.add_list(UK, only=10)
    begun = "SELECT extract(epoch FROM min(claimed_at) - min(run_at)) FROM job WHERE list_id = %s"
    scene.until(lambda: scene.db.execute(begun, (small,)).fetchone()[0] is not None)
    assert scene.db.execute(begun, (small,)).fetchone()[0] < 2.0
    left = "SELECT count(*) FROM job WHERE list_id = %s AND ended_at IS NULL"
    scene.until(lambda: scene.db.execute(left, (small,)).fetchone()[0] == 0, 40.0)
    assert scene.differences(small) == []
    assert scene.rows()["pending"] > 0.9 * LARGE
