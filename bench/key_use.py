"""How much of their limits workers get out of keys, and whether the service ever had to say no.

The sandbox counts, over sliding windows and without any tolerance. Its answers take 200 ms.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any

import psycopg

from bench import place
from bench.figure import Measured
from deploy import samples
from deploy.parts import Part, PartFailed, Parts
from deploy.samples import SampleKey, SampleList, Sandbox
from store import database
from store.limits import Limit, parse
from store.vault import Vault

SERVICE = "companies_house"
KEYS, WORKERS, SLOTS = 8, 4, 16
COMPANIES = 3_000
RUN_SECONDS = 60.0
KILL_EVERY_SECONDS = 5.0
START_SECONDS = 60.0
MOST_REFUSED_SHARE = 1 / 1000

# How much longer than the service needs a call took: there and back, so at least the jitter on the way.
BEYOND = """
SELECT percentile_cont(ARRAY[0.5, 0.99, 1]) WITHIN GROUP (ORDER BY took_ms - 200) FROM call WHERE status = 200
"""


def key_use_minute() -> Measured:
    """Of 300 calls a minute each; 0 when the service refused one."""
    return _measure("300/m", most_refused=0.0, kills=False)


def key_use_second() -> Measured:
    """Of 5 calls a second each; 0 when the service refused more than one in a thousand."""
    return _measure("5/s", most_refused=MOST_REFUSED_SHARE, kills=False)


def key_use_kills() -> Measured:
    """Of 300 calls a minute each while workers are killed; 0 when the service refused one."""
    return _measure("300/m", most_refused=0.0, kills=True)


def _measure(text: str, *, most_refused: float, kills: bool) -> Measured:
    limit = parse(text)
    with _running(text) as (conn, sandbox, parts):
        workers = [
            parts.start(f"worker-{n}", "-m", "worker", "--slots", str(SLOTS), "--key-set", samples.KEY_SET)
            for n in range(1, WORKERS + 1)
        ]
        began = _first_call(sandbox, parts)
        _wait(began + RUN_SECONDS, parts, workers if kills else [])
        stats: dict[str, Any] = json.loads(sandbox.ask("/sandbox/stats"))
        (beyond,) = conn.execute(BEYOND).fetchall()[0]
    return _judged(stats, limit, most_refused, beyond)


def _judged(stats: dict[str, Any], limit: Limit, most_refused: float, beyond: list[float]) -> Measured:
    """The share of what the keys could do at most, or nothing when too many calls were refused."""
    ours = [key for key in stats["keys"].values() if key["service"] == SERVICE]
    by_key = [key["calls"] - key["rate_limited"] for key in ours]
    allowed = limit.amount * RUN_SECONDS / limit.per_seconds
    share = sum(by_key) / (allowed * len(by_key))
    refused = sum(key["rate_limited"] for key in ours)
    is_fair = refused <= most_refused * stats["calls"]
    return Measured(
        [share],
        share if is_fair else 0.0,
        [
            f"{stats['calls']} calls, {refused} answered 429; the least used key {min(by_key) / allowed:.1%},"
            f" the most used {max(by_key) / allowed:.1%}",
            "jitter: calls took {:.0f} ms (median), {:.0f} (99%), {:.0f} (most) longer than the service;"
            " the guard is {:.0f} ms".format(*beyond, limit.guard_seconds * 1000),
        ],
    )


@contextmanager
def _running(limit: str) -> Iterator[tuple[psycopg.Connection, Sandbox, Parts]]:
    """A sandbox, keys with this limit and a list that is long enough; no worker yet."""
    keys = [
        SampleKey(SERVICE, f"bench {n}", f"{n:08}-beef-4111-8111-111111111111", limit)
        for n in range(1, KEYS + 1)
    ]
    with place.database() as url, tempfile.TemporaryDirectory() as folder:
        sandbox = Sandbox()
        settings = place.environment(url, sandbox.url)
        with Parts(Path(folder), settings) as parts, database.connect(url, "sluice bench") as conn:
            sandbox.start(parts, Path(folder), COMPANIES, keys)
            samples.add_keys(conn, Vault([settings["SLUICE_MASTER_KEYS"]]), keys)
            one = SampleList("Bench: keys", SERVICE, "/sandbox/companies.csv")
            samples.import_list(settings, sandbox, one, Path(folder))
            yield conn, sandbox, parts


def _first_call(sandbox: Sandbox, parts: Parts) -> float:
    deadline = time.monotonic() + START_SECONDS
    while not json.loads(sandbox.ask("/sandbox/stats"))["calls"]:
        parts.watch()
        if time.monotonic() > deadline:
            raise PartFailed(f"No worker makes a call. Its log ends:\n{parts.log_end('worker-1')}")
        time.sleep(0.02)
    return time.monotonic()


def _wait(until: float, parts: Parts, victims: list[Part]) -> None:
    """Until then; meanwhile one of the victims after the other is killed, and started again at once."""
    kill_at = time.monotonic() + KILL_EVERY_SECONDS
    turns = cycle(victims)
    while (now := time.monotonic()) < until:
        if victims and now >= kill_at:
            next(turns).process.kill()
            kill_at += KILL_EVERY_SECONDS
        parts.watch()
        time.sleep(min(0.05, max(until - now, 0.0)))
