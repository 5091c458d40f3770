"""A bulk archive through the queue: real workers, one of them killed; every value as the filing states it."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from bench.accounts import accounts, figures, file_name
from services.filings_folder import FILINGS_FOLDER
from store import jobs, lists
from store.jobs import NewJob
from store.lists import NewList

FILINGS = 300
BAD = 7


def of_interest(row: dict[str, Any]) -> dict[str, int]:
    return {name: int(row[name]) for name in figures(0)}


def test_a_pack_is_read_by_two_workers_through_a_kill_and_a_bad_member_costs_one_job(
    scene: Any, tmp_path: Path
) -> None:
    with zipfile.ZipFile(tmp_path / "pack.zip", "w") as pack:
        for n in range(FILINGS):
            pack.writestr(file_name(n), b"\0\1 garbage" if n == BAD else accounts(n))
    fields = [field.name for field in FILINGS_FOLDER.fields]
    new = NewList("pack", "filings_folder", fields, ["period_end"], {"folder": "."})
    with scene.db.transaction():
        list_id = lists.create(scene.db, new)
        jobs.enqueue(scene.db, list_id, (NewJob(f"pack.zip/{file_name(n)}") for n in range(FILINGS)))
    first, _ = (scene.worker("--slots", "2", SLUICE_FILINGS_ROOT=str(tmp_path)) for _ in range(2))
    scene.until(lambda: scene.rows()["done"] > FILINGS // 10)
    first.kill()
    scene.until(scene.ended, seconds=40)
    assert scene.db.execute("SELECT company, cause FROM job WHERE status = 'failed'").fetchall() == [
        (f"pack.zip/{file_name(BAD)}", "parse_error")
    ]
    found = scene.db.execute("SELECT company, result -> 'values' FROM job WHERE status = 'done'").fetchall()
    values = {company.rpartition("/")[2]: of_interest(row) for company, row in found}
    assert values == {file_name(n): figures(n) for n in range(FILINGS) if n != BAD}
    assert scene.counts_off() == []
