"""House is kept beside the work, and never at its cost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

import psycopg
import pytest

from store import partitions, schedules
from worker import upkeep as module
from worker.connections import Connections
from worker.upkeep import Upkeep

Alongside = Callable[..., AbstractContextManager[threading.Thread]]


def test_partitions_are_there_soon_after_a_worker_has_started(
    dsn: str,
    db: psycopg.Connection,
    borrow: Callable[[str], Connections],
    a_list: Callable[..., int],
    alongside: Alongside,
    until: Callable[..., None],
) -> None:
    a_list(db, 1)
    for name, _ in db.execute(partitions.ENDS, ("answer",)).fetchall():
        db.execute(f"DROP TABLE {name}")
    upkeep = Upkeep(borrow(dsn))
    with alongside(upkeep.run, upkeep.stop):
        until(lambda: len(db.execute(partitions.ENDS, ("answer",)).fetchall()) == 2)


def test_what_cannot_be_done_now_is_tried_again_soon(
    dsn: str,
    borrow: Callable[[str], Connections],
    alongside: Alongside,
    until: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tries: list[psycopg.Connection] = []

    def keep(conn: psycopg.Connection) -> list[str]:
        tries.append(conn)
        if len(tries) == 1:
            raise psycopg.errors.LockNotAvailable("canceling statement due to lock timeout")
        return ["made answer_20260101"]

    monkeypatch.setattr(partitions, "keep", keep)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    upkeep = Upkeep(borrow(dsn))
    with alongside(upkeep.run, upkeep.stop):
        until(lambda: len(tries) == 2)
    assert "upkeep is put off: canceling statement due to lock timeout" in caplog.text


def test_a_list_whose_time_has_come_is_refreshed_by_any_worker(
    dsn: str,
    db: psycopg.Connection,
    borrow: Callable[[str], Connections],
    a_list: Callable[..., int],
    alongside: Alongside,
    until: Callable[..., None],
) -> None:
    list_id = a_list(db, 2)
    db.execute("""UPDATE job SET status = 'failed', cause = 'not_found', ended_at = now()""")
    db.execute("UPDATE list SET state = 'finished', finished_at = now()")
    schedules.schedule(db, list_id, "day")
    db.execute("UPDATE list SET refresh_at = now()")
    upkeep = Upkeep(borrow(dsn))
    with alongside(upkeep.run, upkeep.stop):
        until(lambda: db.execute("SELECT DISTINCT status FROM job").fetchall() == [("pending",)])
