"""Lists of tickers and names, and of several periods, through a real worker."""

from __future__ import annotations

from typing import Any

from services.registry import SERVICES
from store import export, jobs, lists
from store.jobs import NewJob
from store.lists import NewList

US = "sec_edgar"
NAMES = {
    "AAPL": "320193",
    "NVIDIA CORP": "1045810",
    "GOOGL": "1652044",
    "BOEING": "12927",
    "NO SUCH FIRM": "",
}


def test_tickers_and_names_cost_a_worker_one_call_more_and_a_series_none(scene: Any) -> None:
    scene.sandbox([(US, "us1", "60/s")], "--latency", "20ms")
    scene.add_key(US, "us1", "50/s")
    options = {"periods": "2", "as": "first"}
    fields = SERVICES[US].columns(["cik", "period_end", "revenue"], options)
    list_id = lists.create(scene.db, NewList("names", US, fields, ["cik"], options))
    with scene.db.transaction():
        jobs.enqueue(scene.db, list_id, [NewJob(name) for name in NAMES])
    worker = scene.worker("--slots", "4")
    scene.until(scene.ended, 40.0)
    header = export.header(fields)
    rows = [dict(zip(header, row, strict=True)) for row in export.rows(scene.db, list_id, fields)]
    assert {row["company"]: row["cik"] for row in rows} == NAMES
    apple = next(row for row in rows if row["company"] == "AAPL")
    assert (apple["period_end_prior"], apple["revenue_prior"]) == ("2024-09-28", "391035000000")
    missing = next(row for row in rows if row["company"] == "NO SUCH FIRM")
    assert (missing["status"], missing["cause"]) == ("failed", "not_found")
    assert scene.summary()["calls"] == 1 + 4
    worker.signal(15)
    assert worker.ended() == 0
