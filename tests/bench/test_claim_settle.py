"""Both sides of the measure send the statements that `store` has now, and each does the work."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench import claim_settle, filler
from store import database


@pytest.mark.parametrize("side", [claim_settle.pgbench, claim_settle.processes])
def test_a_side_claims_jobs_and_settles_them(side: Callable[[str, float], None], empty_dsn: str) -> None:
    with database.connect(empty_dsn, "test") as conn:
        filler.a_list(conn, "bench", 20_000)
        side(empty_dsn, 1.0)
        row = conn.execute(
            "SELECT count(*), min(claim_no), max(claim_no) FROM job WHERE status = 'done'"
        ).fetchone()
    assert row
    done, *claims = row
    assert done >= claim_settle.BATCH
    assert claims == [1, 1]
