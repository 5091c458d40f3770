"""The states of a job and every move between them, once. `docs/states.md` draws the same table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Outcome(StrEnum):
    """What a done job holds."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Move:
    """`name` is the function in `store.jobs`, `store.claims` or `store.workers` that makes the move."""

    name: str
    before: Status | None
    after: Status
    meaning: str


MOVES: tuple[Move, ...] = (
    Move("enqueue", None, Status.PENDING, "a company joins a list"),
    Move("claim", Status.PENDING, Status.IN_PROGRESS, "a worker takes it; claim_no rises"),
    Move("settle", Status.IN_PROGRESS, Status.DONE, "its holder writes the result"),
    Move("settle", Status.IN_PROGRESS, Status.FAILED, "its holder gives up for a cause"),
    Move("settle", Status.IN_PROGRESS, Status.PENDING, "its holder gives it back to run later"),
    Move("settle", Status.IN_PROGRESS, Status.CANCELLED, "the same when its list was cancelled meanwhile"),
    Move("release", Status.IN_PROGRESS, Status.PENDING, "its holder never heard that it was given it"),
    Move("release", Status.IN_PROGRESS, Status.CANCELLED, "the same of a cancelled list"),
    Move("tick", Status.IN_PROGRESS, Status.PENDING, "its worker is gone; another will run it"),
    Move("tick", Status.IN_PROGRESS, Status.CANCELLED, "its worker is gone and its list was cancelled"),
    Move("tick", Status.IN_PROGRESS, Status.FAILED, "it was lost with its worker too often"),
    Move("retry", Status.FAILED, Status.PENDING, "a person sends it back"),
    Move("retry_one", Status.FAILED, Status.PENDING, "the same for one job"),
    Move("ask_again", Status.FAILED, Status.PENDING, "a person asks the service anew; kept answers go"),
    Move("ask_again", Status.DONE, Status.PENDING, "the same after a result, which goes too"),
    Move("refresh", Status.FAILED, Status.PENDING, "a person asks anew for a whole list"),
    Move("refresh", Status.DONE, Status.PENDING, "the same after a result"),
    Move("cancel", Status.PENDING, Status.CANCELLED, "a person takes it off the list's work"),
    Move("revive", Status.CANCELLED, Status.PENDING, "a person takes a cancelled list up again"),
)

# What a job `j` that goes back becomes. The list's row is locked against whoever cancels it this instant: the
# one who comes second sees what the first has done, and no job waits in a list that was cancelled.
BACK = """
    (SELECT CASE state WHEN 'cancelled' THEN 'cancelled' ELSE 'pending' END
     FROM list WHERE id = j.list_id FOR SHARE)"""
