"""What another job was answered lately, taken over instead of a call: where the list allows it."""

from __future__ import annotations

import logging
import time

import psycopg

from services.extraction import Get
from store import answers
from store.answers import Reused
from store.calls import REUSED, Call
from worker.connections import Connections
from worker.http import described
from worker.work import Work
from worker.writer import Writer

log = logging.getLogger(__name__)


def take_over(connections: Connections, writer: Writer, work: Work, call: Get, occurrence: int) -> None:
    """Put the answer of another job among what is stored for this one, if it is young enough.

    It costs neither permit nor call and is logged as reused. Raises `Stopped` when the work must not go on.
    """
    work.check()
    try:
        with connections() as conn:
            found = answers.reuse(conn, work.claim.id, call.fingerprint, occurrence)
    except psycopg.OperationalError as error:
        log.warning("the database is away, no answer is taken over: %s", error)
        return
    if found is not None:
        work.stored[call.fingerprint, occurrence] = (found.status, found.headers, found.body)
        writer.log(_logged(work, call, found))


def _logged(work: Work, call: Get, found: Reused) -> Call:
    return Call(
        work.claim.id,
        work.claim.claim_no,
        work.claim.worker,
        None,
        described(call),
        REUSED,
        found.status,
        f"the answer that job {found.from_job} got {found.age_seconds / 3600:.1f} h before",
        waited_ms=0,
        took_ms=0,
        late=False,
        body_bytes=len(found.body),
        sent_at=time.monotonic(),
    )
