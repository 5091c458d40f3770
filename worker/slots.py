"""The slots of a worker: threads that take works from one line, in order.

They are daemons that nobody waits for: a parser that never ends keeps its thread, and nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue

from worker.work import Work


class Slots:
    """Threads that call `run` with each work that was put in line, `count` at a time.

    `run` must not raise. It returns False when its thread was given up meanwhile, which ends it.
    """

    def __init__(self, count: int, run: Callable[[Work], bool]) -> None:
        self.count = count
        self._run = run
        self._line: SimpleQueue[Work | None] = SimpleQueue()

    def start(self) -> None:
        """Begin to take works."""
        for _ in range(self.count):
            self.add()

    def add(self) -> None:
        """One more thread, in place of one that is given up."""
        threading.Thread(target=self._serve, name="slot", daemon=True).start()

    def put(self, works: Iterable[Work]) -> None:
        """Let these be run, after those that are in line."""
        for work in works:
            self._line.put(work)

    def take_back(self) -> list[Work]:
        """The works that no slot has begun; they leave the line."""
        back: list[Work] = []
        while True:
            try:
                work = self._line.get_nowait()
            except Empty:
                return back
            if work is not None:
                back.append(work)

    def stop(self) -> None:
        """Let the threads end when they have done what is in line."""
        for _ in range(self.count):
            self._line.put(None)

    def _serve(self) -> None:
        while (work := self._line.get()) is not None and self._run(work):
            pass
