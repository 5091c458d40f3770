"""What runs when: APScheduler in memory, intervals in UTC, each job at most once at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from apscheduler.executors.pool import BasePoolExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler
from apscheduler.triggers.interval import IntervalTrigger


class DaemonThreads(Executor):
    """A thread per job that ends with the process: a mail server that hangs must not keep it alive."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()

        def run() -> None:
            try:
                future.set_result(fn(*args, **kwargs))
            except BaseException as error:  # noqa: BLE001 - the scheduler logs it
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future


class _Daemons(BasePoolExecutor):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__(DaemonThreads())


class Schedule:
    """Jobs by name. `every` before `start`; `soon` runs one as soon as it can."""

    def __init__(self) -> None:
        self._scheduler = BackgroundScheduler(
            timezone=UTC,
            executors={"default": _Daemons()},
            job_defaults={"coalesce": True, "max_instances": 1, "misfire_grace_time": None},
        )

    def every(self, seconds: float, name: str, run: Callable[[], None]) -> None:
        """Run it now and then every so many seconds."""
        self._scheduler.add_job(
            run, IntervalTrigger(seconds=seconds, timezone=UTC), id=name, next_run_time=datetime.now(UTC)
        )

    def soon(self, name: str) -> None:
        """Run it now if it does not run already, and go on as before."""
        with suppress(JobLookupError):  # stopped meanwhile
            self._scheduler.modify_job(name, next_run_time=datetime.now(UTC))

    def start(self) -> None:
        self._scheduler.start()

    def stop(self) -> None:
        """Start nothing more; what runs is left to itself."""
        self._scheduler.shutdown(wait=False)
