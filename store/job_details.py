"""One job as people look into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import psycopg
from psycopg.rows import class_row

SEE = """
SELECT j.id, l.name AS list, l.service, j.company, j.name, j.status, j.outcome, j.cause, j.message, j.run_at,
       j.attempts, j.losses, j.faults, j.claim_no, j.claimed_at, j.ended_at, j.result, j.run_until, j.worker,
       j.extra, j.line, l.id AS list_id, l.state AS list_state, l.fields, l.max_attempts, l.max_losses,
       l.max_faults, w.name AS worker_name, l.key_id
FROM job j JOIN list l ON l.id = j.list_id LEFT JOIN worker w ON w.id = j.worker WHERE j.id = %s
"""


@dataclass(frozen=True, slots=True)
class JobSeen:
    """One job with everything a person may want to know of it."""

    id: int
    list: str
    service: str
    company: str
    name: str | None
    status: str
    outcome: str | None
    cause: str | None
    message: str | None
    run_at: datetime
    attempts: int
    losses: int
    faults: int
    claim_no: int
    claimed_at: datetime | None
    ended_at: datetime | None
    result: dict[str, Any] | None
    run_until: datetime | None
    worker: UUID | None
    extra: dict[str, str]
    line: int | None
    list_id: int
    list_state: str
    fields: Sequence[str]
    max_attempts: int
    max_losses: int
    max_faults: int
    worker_name: str | None
    key_id: int | None


def see(conn: psycopg.Connection, job_id: int) -> JobSeen | None:
    """The job, or None when there is none with this id."""
    with conn.cursor(row_factory=class_row(JobSeen)) as cursor:
        return cursor.execute(SEE, (job_id,)).fetchone()
