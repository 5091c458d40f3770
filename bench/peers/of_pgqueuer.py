"""PgQueuer at its best: asyncpg on uvloop, batches of 100, each result one INSERT over a pool.

`prepare URL SIZE` makes its tables and that many jobs, `work URL` runs a worker until it is ended.
"""

from __future__ import annotations

import json
import sys

import asyncpg
import uvloop
from pgqueuer import AsyncpgPoolDriver, PgQueuer, Queries

BATCH = 100
LINE = "The quick brown fox jumps over the lazy dog. " * 5


async def prepare(url: str, size: int) -> None:
    async with asyncpg.create_pool(url) as pool:
        queries = Queries(AsyncpgPoolDriver(pool))
        await queries.install()
        await pool.execute("CREATE TABLE result (job bigint PRIMARY KEY, result jsonb NOT NULL)")
        for first in range(0, size, 1000):
            numbers = [b"%08d" % number for number in range(first, first + 1000)]
            await queries.enqueue(["fill"] * 1000, numbers, [0] * 1000)
        await pool.execute("ANALYZE")


async def work(url: str) -> None:
    async with asyncpg.create_pool(url, min_size=4, max_size=8) as pool:
        queue = PgQueuer(AsyncpgPoolDriver(pool))

        @queue.entrypoint("fill")
        async def fill(job) -> None:
            filled = json.dumps({f"line_{n}": f"{job.payload.decode()} {LINE}" for n in range(1, 5)})
            await pool.execute("INSERT INTO result VALUES ($1, $2)", job.id, filled)

        await queue.run(batch_size=BATCH)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["prepare", url, size]:
            uvloop.run(prepare(url, int(size)))
        case ["work", url]:
            uvloop.run(work(url))
