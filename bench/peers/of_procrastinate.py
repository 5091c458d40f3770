"""Procrastinate at its best: async tasks, 16 at a time, each result one INSERT over its own pool.

`prepare URL SIZE` makes its tables and that many jobs, `work URL` runs a worker until it is ended.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys

import procrastinate

AT_A_TIME = 16
LINE = "The quick brown fox jumps over the lazy dog. " * 5
INSERT = "INSERT INTO result VALUES (%(job)s, %(result)s)"


def the_app(url: str) -> procrastinate.App:
    app = procrastinate.App(
        connector=procrastinate.PsycopgConnector(conninfo=url, min_size=4, max_size=AT_A_TIME)
    )

    @app.task(name="fill", pass_context=True)
    async def fill(context, number: str) -> None:
        filled = json.dumps({f"line_{n}": f"{number} {LINE}" for n in range(1, 5)})
        await app.connector.execute_query_async(INSERT, job=context.job.id, result=filled)

    return app


async def prepare(url: str, size: int) -> None:
    app = the_app(url)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await app.connector.execute_query_async(
            "CREATE TABLE result (job bigint PRIMARY KEY, result jsonb NOT NULL)"
        )
        for first in range(0, size, 1000):
            numbers = [{"number": f"{number:08}"} for number in range(first, first + 1000)]
            await app.tasks["fill"].batch_defer_async(*numbers)
        await app.connector.execute_query_async("ANALYZE")


async def work(url: str) -> None:
    app = the_app(url)
    async with app.open_async():
        await app.run_worker_async(concurrency=AT_A_TIME)


if __name__ == "__main__":
    logging.disable(logging.INFO)  # a line for each job is not its best
    match sys.argv[1:]:
        case ["prepare", url, size]:
            asyncio.run(prepare(url, int(size)))
        case ["work", url]:
            asyncio.run(work(url))
