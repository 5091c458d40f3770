"""One holder per job, and every write of a holder behind the fence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.rows import dict_row

from store import claims, database, job_details, lists, tally
from store.claims import Claim, Settlement
from store.states import Outcome, Status
from store.workers import Identity, Pulse

Take = Callable[..., list[Claim]]
A = Callable[..., int]
AWorker = Callable[..., Identity]
Settle = Callable[..., Settlement]
Connect = Callable[[], psycopg.Connection]


@pytest.fixture
def who(conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker) -> Identity:
    """A worker with a key and a list of five jobs."""
    a_key(conn)
    a_list(conn, 5)
    return a_worker(conn)


def everything(conn: psycopg.Connection) -> list[dict[str, Any]]:
    """All jobs and counts, to see whether anything changed."""
    with conn.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute("SELECT * FROM job ORDER BY id").fetchall()
        return rows + cursor.execute("SELECT * FROM tally_delta ORDER BY 1, 2, 3, 4, 5, 6").fetchall()


def test_a_claim_brings_the_oldest_due_jobs_with_what_their_list_asks_for(
    conn: psycopg.Connection, who: Identity, take: Take
) -> None:
    claimed = take(conn, who, 3)
    assert [(c.company, c.claim_no, c.worker, c.attempts) for c in claimed] == [
        (f"0000000{n}", 1, who.id, 0) for n in (1, 2, 3)
    ]
    assert (claimed[0].service, claimed[0].fields, claimed[0].required) == (
        "registry",
        ["name", "total"],
        ["name"],
    )


def test_a_service_without_keys_is_claimed_up_to_the_batch(
    conn: psycopg.Connection, a_list: A, a_worker: AWorker
) -> None:
    a_list(conn, 5)
    who = a_worker(conn)
    assert not claims.claim(conn, who.id, "registry", None, n=3, soon_seconds=2.0).claims
    claimed = claims.claim(conn, who.id, "registry", None, n=3, soon_seconds=2.0, keyless=True)
    assert (len(claimed.claims), claimed.room) == (3, 3)


def test_settling_as_a_stranger_changes_nothing_and_says_so(
    conn: psycopg.Connection, who: Identity, take: Take, settlement: Settle, a_worker: AWorker
) -> None:
    (claim,) = take(conn, who)
    before = everything(conn)
    assert claims.settle(conn, [settlement(replace(claim, worker=a_worker(conn).id))]) == {claim.id}
    assert everything(conn) == before


def test_settling_with_an_older_claim_of_the_same_worker_changes_nothing_and_says_so(
    conn: psycopg.Connection, who: Identity, take: Take, settlement: Settle
) -> None:
    (first,) = take(conn, who)
    claims.settle(conn, [settlement(first, Status.PENDING, pause_seconds=-60.0)])
    again = [claim for claim in take(conn, who, 5) if claim.id == first.id]
    assert [claim.claim_no for claim in again] == [2]
    before = everything(conn)
    assert claims.settle(conn, [settlement(first)]) == {first.id}
    assert everything(conn) == before


def test_settling_twice_changes_nothing_the_second_time(
    conn: psycopg.Connection, who: Identity, take: Take, settlement: Settle
) -> None:
    (claim,) = take(conn, who)
    assert claims.settle(conn, [settlement(claim)]) == set()
    before = everything(conn)
    assert claims.settle(conn, [settlement(claim, Status.FAILED)]) == {claim.id}
    assert everything(conn) == before


@pytest.mark.parametrize("status", [Status.DONE, Status.FAILED, Status.PENDING])
@pytest.mark.parametrize("is_cancelled", [False, True])
def test_what_a_try_before_has_written_was_not_lost(
    conn: psycopg.Connection,
    who: Identity,
    take: Take,
    settlement: Settle,
    status: Status,
    is_cancelled: bool,
) -> None:
    """Its acknowledgement was lost; others of the batch are written only now."""
    written, other = take(conn, who, 2)
    if is_cancelled:
        lists.cancel(conn, written.list_id)
    ends = settlement(written, status)
    assert claims.settle(conn, [ends]) == set()
    before = everything(conn)
    assert claims.settle(conn, [ends], again=True) == set()
    assert everything(conn) == before
    assert claims.settle(conn, [ends, settlement(other)], again=True) == set()
    assert claims.settle(conn, [ends, settlement(other)]) == {written.id, other.id}


@pytest.mark.parametrize("status", [Status.DONE, Status.FAILED, Status.PENDING])
@pytest.mark.parametrize("max_losses", [1, 3])
def test_a_try_again_says_what_was_lost_meanwhile(
    conn: psycopg.Connection,
    who: Identity,
    take: Take,
    settlement: Settle,
    a_worker: AWorker,
    beat: Callable[..., Pulse],
    status: Status,
    max_losses: int,
) -> None:
    """The try before was not written, and the worker was declared lost."""
    freed, taken = take(conn, who, 2)
    conn.execute("UPDATE list SET max_losses = %s", (max_losses,))
    conn.execute("UPDATE worker SET lease_until = now() - interval '1 second' WHERE id = %s", (who.id,))
    other = a_worker(conn)
    assert beat(conn, other).recovered == 2
    ends = [settlement(freed, status), settlement(taken, status)]
    assert claims.settle(conn, ends, again=True) == {freed.id, taken.id}
    if max_losses > 1:
        conn.execute("UPDATE job SET run_at = now() WHERE id = %s", (taken.id,))
        (again,) = (claim for claim in take(conn, other, 5) if claim.id == taken.id)
        assert claims.settle(conn, [settlement(again, status)]) == set()
        assert claims.settle(conn, ends, again=True) == {freed.id, taken.id}


def test_the_fence_asks_for_a_job_in_progress(
    conn: psycopg.Connection, who: Identity, take: Take, settlement: Settle
) -> None:
    """Were `job_holder` ever dropped, a worker's name left in an ended row must not open the fence."""
    (claim,) = take(conn, who)
    claims.settle(conn, [settlement(claim)])
    conn.execute("ALTER TABLE job DROP CONSTRAINT job_holder")
    conn.execute("UPDATE job SET worker = %s WHERE id = %s", (who.id, claim.id))
    assert claims.settle(conn, [settlement(claim, Status.FAILED)]) == {claim.id}


def test_only_the_lost_ones_of_a_batch_are_refused(
    conn: psycopg.Connection, who: Identity, take: Take, settlement: Settle
) -> None:
    held = take(conn, who, 3)
    late = replace(held[1], claim_no=0)
    assert claims.settle(conn, [settlement(c) for c in (held[0], late, held[2])]) == {late.id}
    statuses = [status for (status,) in conn.execute("SELECT status FROM job ORDER BY id LIMIT 3")]
    assert statuses == ["done", "in_progress", "done"]


def test_a_settlement_writes_what_it_says(
    conn: psycopg.Connection, who: Identity, take: Take, settlement: Settle
) -> None:
    done, failed, back, _ = take(conn, who, 4)
    claims.settle(
        conn,
        [
            settlement(done, outcome=Outcome.PARTIAL, result='{"values": {"name": "Bø"}}'),
            settlement(failed, Status.FAILED, cause="parse_error", message="no\x00table", faulted=2),
            settlement(back, Status.PENDING, cause="rate_limited", pause_seconds=90.0),
        ],
    )
    seen = [job_details.see(conn, claim.id) for claim in (done, failed, back)]
    assert [(j.status, j.outcome, j.cause, j.message, j.attempts, j.faults) for j in seen if j] == [
        ("done", "partial", None, None, 0, 0),
        ("failed", None, "parse_error", "notable", 1, 2),
        ("pending", None, "rate_limited", None, 0, 0),
    ]
    assert seen[0] is not None
    assert seen[0].result == {"values": {"name": "Bø"}}
    row = conn.execute(
        "SELECT worker, run_until, ended_at, extract(epoch FROM run_at - clock_timestamp())::float8 FROM job"
        " WHERE id = %s",
        (back.id,),
    ).fetchone()
    assert row is not None
    assert row[:3] == (None, None, None)
    assert 80.0 < row[3] <= 90.0


def test_a_release_costs_no_attempt_no_fault_and_no_loss(
    conn: psycopg.Connection, who: Identity, take: Take, settlement: Settle
) -> None:
    (claim,) = take(conn, who)
    claims.settle(conn, [settlement(claim, Status.PENDING, cause="shutdown")])
    job = job_details.see(conn, claim.id)
    assert job
    assert (job.status, job.attempts, job.faults, job.losses, job.claim_no) == ("pending", 0, 0, 0, 1)


@pytest.mark.parametrize(
    "impossible",
    [
        {"result": None},
        {"outcome": None},
        {"result": '{"values": NaN}'},
        {"result": '{"values": "\\u0000"}'},
        {"result": "{"},
        {"status": Status.FAILED, "outcome": None, "result": None, "cause": None},
        {"status": Status.FAILED, "outcome": None, "cause": "not_found"},
        {"status": Status.PENDING},
        {"status": Status.IN_PROGRESS, "outcome": None, "result": None},
        {"cause": ""},
    ],
    ids=lambda wrong: " ".join(f"{name}={value}" for name, value in wrong.items()),
)
def test_a_batch_with_one_row_that_postgres_refuses_changes_nothing(
    conn: psycopg.Connection, who: Identity, take: Take, settlement: Settle, impossible: dict[str, Any]
) -> None:
    good, bad = take(conn, who, 2)
    before = everything(conn)
    batch = [settlement(good), replace(settlement(bad), **impossible)]
    with pytest.raises((psycopg.DataError, psycopg.IntegrityError)), conn.transaction():
        claims.settle(conn, batch)
    assert everything(conn) == before
    assert claims.settle(conn, batch[:1]) == set()


def test_a_job_that_goes_back_keeps_its_place_unless_it_is_to_pause(
    conn: psycopg.Connection, who: Identity, take: Take, settlement: Settle
) -> None:
    at_once, later = take(conn, who, 2)
    before = conn.execute("SELECT run_at FROM job WHERE id = %s", (at_once.id,)).fetchone()
    back = [settlement(at_once, Status.PENDING), settlement(later, Status.PENDING, pause_seconds=60.0)]
    assert claims.settle(conn, back) == set()
    assert conn.execute("SELECT run_at FROM job WHERE id = %s", (at_once.id,)).fetchone() == before
    pause = conn.execute(
        "SELECT extract(epoch FROM run_at - clock_timestamp()) FROM job WHERE id = %s", (later.id,)
    ).fetchone()
    assert pause is not None
    assert 59 < pause[0] <= 60


def test_whoever_settles_a_job_has_survived_it_so_its_losses_begin_anew(
    conn: psycopg.Connection, who: Identity, take: Take, settlement: Settle
) -> None:
    (claim,) = take(conn, who)
    conn.execute("UPDATE job SET losses = 2 WHERE id = %s", (claim.id,))
    assert claims.settle(conn, [settlement(claim, Status.PENDING)]) == set()
    assert conn.execute("SELECT losses FROM job WHERE id = %s", (claim.id,)).fetchone() == (0,)


def test_a_worker_that_is_not_running_claims_nothing(
    conn: psycopg.Connection, who: Identity, take: Take, beat: Callable[..., Pulse]
) -> None:
    assert take(conn, replace(who, id=uuid4())) == []
    assert beat(conn, who, draining=True).state == "draining"
    assert take(conn, who) == []


def test_exactly_the_batch_is_locked_and_nobody_waits_for_it(
    dsn: str, connect: Connect, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    one, other = connect(), connect()
    other.execute("SET lock_timeout = '2s'")
    a_key(one)
    for _ in range(5):
        a_list(one, 20)
    first, second = a_worker(one), a_worker(one)
    with one.transaction():
        claimed = {claim.id for claim in take(one, first, 7)}
        free = {row[0] for row in other.execute("SELECT id FROM job FOR UPDATE SKIP LOCKED")}
        assert (len(claimed), len(free), len(claimed & free)) == (7, 93, 0)
        assert {claim.id for claim in take(other, second, 100)} == free


def test_many_workers_claim_every_job_exactly_once(
    dsn: str, connect: Connect, a_key: A, a_list: A, a_worker: AWorker, settlement: Settle
) -> None:
    setup = connect()
    a_key(setup)
    sizes = {a_list(setup, 300): 300, a_list(setup, 7): 7, a_list(setup, 60, priority=3): 60}
    identities = [a_worker(setup) for _ in range(6)]

    def work(who: Identity) -> list[Claim]:
        held: list[Claim] = []
        with database.connect(dsn, "test") as conn:
            while batch := claims.claim(conn, who.id, "registry", None, n=9, soon_seconds=2.0).claims:
                held += batch
                # Half are given back at once for others to take, so that rows change under the claimers.
                back = [c for c in batch if c.claim_no == 1 and c.id % 2]
                assert claims.settle(conn, [settlement(c, Status.PENDING) for c in back]) == set()
        return held

    with ThreadPoolExecutor(len(identities)) as threads:
        claimed = [claim for held in threads.map(work, identities) for claim in held]
    times = Counter((claim.id, claim.claim_no) for claim in claimed)
    assert set(times.values()) == {1}
    assert Counter(claim.list_id for claim in claimed if claim.claim_no == 1) == sizes
    holder = {claim.id: claim.worker for claim in sorted(claimed, key=lambda claim: claim.claim_no)}
    rows = setup.execute("SELECT id, worker FROM job WHERE status = 'in_progress'").fetchall()
    assert dict(rows) == holder
    assert len(holder) == sum(sizes.values())
    assert tally.check(setup) == []


def test_of_two_settlements_at_once_one_wins(
    dsn: str,
    connect: Connect,
    a_key: A,
    a_list: A,
    a_worker: AWorker,
    take: Take,
    settlement: Settle,
    until: Callable[..., None],
    waits_for_lock: Callable[[psycopg.Connection, int], bool],
) -> None:
    one, other, watcher = connect(), connect(), connect()
    a_key(one)
    a_list(one, 1)
    (claim,) = take(one, a_worker(one))
    with ThreadPoolExecutor(1) as thread:
        with one.transaction():
            assert claims.settle(one, [settlement(claim)]) == set()
            second = thread.submit(claims.settle, other, [settlement(claim, Status.FAILED)])
            until(lambda: waits_for_lock(watcher, other.info.backend_pid))
        assert second.result(10) == {claim.id}
    job = job_details.see(one, claim.id)
    assert job
    assert job.status == "done"
