"""Recovery is everybody's: whoever beats frees the jobs of workers that are gone, and only those."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
import pytest

from store import claims, database, job_details, lists, tally, workers
from store.claims import Claim, Settlement
from store.job_details import JobSeen
from store.states import Status
from store.workers import Identity, Pulse

Take = Callable[..., list[Claim]]
A = Callable[..., int]
AWorker = Callable[..., Identity]
Beat = Callable[..., Pulse]
Settle = Callable[..., Settlement]
Connect = Callable[[], psycopg.Connection]


def server_started(conn: psycopg.Connection, seconds_ago: float) -> None:
    """As if the server had, for statements on this connection."""
    conn.execute("CREATE SCHEMA server")
    conn.execute(f"""
        CREATE FUNCTION server.pg_postmaster_start_time() RETURNS timestamptz LANGUAGE sql
        AS $$ SELECT now() - {seconds_ago} * interval '1 second' $$""")
    conn.execute("SET search_path = server, pg_catalog, public")


def last_seen(conn: psycopg.Connection, who: Identity, seconds_ago: float) -> None:
    """As if the worker had beaten for the last time then."""
    conn.execute(
        "UPDATE worker SET seen_at = clock_timestamp() - %s * interval '1 second' WHERE id = %s",
        (seconds_ago, who.id),
    )


def state_of(conn: psycopg.Connection, who: Identity) -> str:
    row = conn.execute("SELECT state FROM worker WHERE id = %s", (who.id,)).fetchone()
    assert row
    return str(row[0])


def see(conn: psycopg.Connection, job: int) -> JobSeen:
    seen = job_details.see(conn, job)
    assert seen
    return seen


def test_a_beat_renews_the_lease_and_says_what_is_held_and_due(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take, beat: Beat
) -> None:
    a_key(conn)
    who = a_worker(conn, lease_seconds=1.0, services=["registry", "other"])
    a_list(conn, 3)
    a_list(conn, 1, "third")
    held = take(conn, who, 2)
    pulse = beat(conn, who, lease_seconds=60.0)
    assert (pulse.state, pulse.recovered) == ("running", 0)
    assert pulse.held == {claim.id: claim.claim_no for claim in held}
    assert pulse.due == ("registry",)
    lease = conn.execute("SELECT lease_until > clock_timestamp() + interval '50 seconds' FROM worker")
    assert lease.fetchone() == (True,)


@pytest.mark.parametrize("change", [{"state": "paused"}, {"start_at": "2999-01-01"}], ids=["paused", "later"])
def test_a_beat_calls_no_service_due_whose_lists_wait(
    conn: psycopg.Connection, a_list: A, a_worker: AWorker, beat: Beat, change: dict[str, Any]
) -> None:
    a_list(conn, 3, **change)
    assert beat(conn, a_worker(conn)).due == ()


def test_a_beat_calls_no_service_due_that_rests_or_has_no_job_due(
    conn: psycopg.Connection, a_list: A, a_worker: AWorker, beat: Beat
) -> None:
    a_list(conn, 1)
    who = a_worker(conn)
    assert beat(conn, who).due == ("registry",)
    conn.execute("UPDATE service SET rest_until = now() + interval '1 minute'")
    assert beat(conn, who).due == ()
    conn.execute("UPDATE service SET rest_until = now()")
    conn.execute("UPDATE job SET run_at = now() + interval '1 minute'")
    assert beat(conn, who).due == ()


def test_a_beat_says_when_upkeep_is_worth_a_statement(
    conn: psycopg.Connection,
    a_key: A,
    a_list: A,
    a_worker: AWorker,
    take: Take,
    beat: Beat,
    settlement: Settle,
) -> None:
    a_key(conn)
    who = a_worker(conn)
    a_list(conn)  # without jobs it has not ended: they may come
    assert (beat(conn, who).moves_wait, beat(conn, who).list_ended) == (False, False)
    a_list(conn, 1)
    assert beat(conn, who).moves_wait
    (claim,) = take(conn, who)
    assert not beat(conn, who).list_ended
    claims.settle(conn, [settlement(claim)])
    assert beat(conn, who).list_ended
    lists.finish(conn)
    while tally.fold(conn):
        pass
    assert (beat(conn, who).moves_wait, beat(conn, who).list_ended) == (False, False)


def test_the_jobs_of_a_worker_whose_lease_is_over_run_again(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take, beat: Beat
) -> None:
    a_key(conn)
    a_list(conn, 3)
    hung, healthy = a_worker(conn, lease_seconds=0.0), a_worker(conn)
    held, kept = take(conn, hung, 2), take(conn, healthy, 1)
    assert beat(conn, healthy).recovered == 2
    assert state_of(conn, hung) == "lost"
    for claim in held:
        job = see(conn, claim.id)
        assert (job.status, job.cause, job.losses, job.attempts, job.faults) == (
            "pending",
            "worker_lost",
            1,
            0,
            0,
        )
    assert see(conn, kept[0].id).status == "in_progress"


def test_the_jobs_of_a_killed_worker_run_again_as_soon_as_its_session_is_gone(
    dsn: str,
    connect: Connect,
    a_key: A,
    a_list: A,
    a_worker: AWorker,
    take: Take,
    beat: Beat,
    until: Callable[..., None],
) -> None:
    conn = connect()
    server_started(conn, 60.0)
    a_key(conn)
    a_list(conn, 2)
    killed, other = a_worker(conn), a_worker(conn)
    with database.connect(dsn, "killed") as its_own:
        beat(its_own, killed)
        pid = its_own.info.backend_pid
        take(conn, killed, 2)
        last_seen(conn, killed, 1.6)
        assert beat(conn, other).recovered == 0  # its session lives, so it does
    until(lambda: not conn.execute("SELECT FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchall())
    assert beat(conn, other).recovered == 2
    assert state_of(conn, killed) == "lost"


def test_a_new_session_under_the_number_of_the_old_one_is_no_sign_of_life(
    conn: psycopg.Connection,
    a_key: A,
    a_list: A,
    a_worker: AWorker,
    take: Take,
    beat: Beat,
) -> None:
    server_started(conn, 60.0)
    a_key(conn)
    a_list(conn, 1)
    killed, other = a_worker(conn), a_worker(conn)
    beat(conn, killed)
    take(conn, killed, 1)
    last_seen(conn, killed, 1.6)
    conn.execute(
        "UPDATE worker SET backend_start = backend_start - interval '1 hour' WHERE id = %s", (killed.id,)
    )
    assert beat(conn, other).recovered == 1


@pytest.mark.parametrize("direct", [True, False], ids=["seen a moment ago", "behind a pooler"])
def test_a_session_that_is_gone_is_no_death_within_the_grace_or_behind_a_pooler(
    dsn: str,
    connect: Connect,
    a_key: A,
    a_list: A,
    a_worker: AWorker,
    take: Take,
    beat: Beat,
    until: Callable[..., None],
    direct: bool,
) -> None:
    conn = connect()
    server_started(conn, 60.0)
    a_key(conn)
    a_list(conn, 1)
    living, other = a_worker(conn), a_worker(conn)
    with database.connect(dsn, "living") as its_own:
        beat(its_own, living, direct=direct)
        (claim,) = take(conn, living)
        pid = its_own.info.backend_pid
        conn.execute("SELECT pg_terminate_backend(%s)", (pid,))
        until(lambda: not conn.execute("SELECT FROM pg_stat_activity WHERE pid = %s", (pid,)).fetchall())
    last_seen(conn, living, 0.0 if direct else 20.0)
    assert beat(conn, other).recovered == 0
    with database.connect(dsn, "living") as its_own:
        assert beat(its_own, living).held == {claim.id: 1}
        last_seen(conn, living, 1.6)
        assert beat(conn, other).recovered == 0


@pytest.mark.parametrize(("since_start", "recovered"), [(-20.0, 0), (4.0, 0), (5.1, 1)])
def test_after_a_restart_of_the_server_only_the_lease_counts(
    conn: psycopg.Connection,
    a_key: A,
    a_list: A,
    a_worker: AWorker,
    take: Take,
    beat: Beat,
    since_start: float,
    recovered: int,
) -> None:
    """Every session is new then: a worker that beat before, or just after it, is given its lease."""
    a_key(conn)
    a_list(conn, 1)
    living, other = a_worker(conn), a_worker(conn)
    beat(conn, living)
    take(conn, living)
    conn.execute("UPDATE worker SET backend_pid = 0 WHERE id = %s", (living.id,))
    server_started(conn, 10.0)
    last_seen(conn, living, 10.0 - since_start)
    assert beat(conn, other).recovered == recovered


def test_the_jobs_of_a_worker_without_a_row_run_again(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take, beat: Beat
) -> None:
    a_key(conn)
    a_list(conn, 2)
    nobody, other = a_worker(conn), a_worker(conn)
    take(conn, nobody, 2)
    conn.execute("DELETE FROM worker WHERE id = %s", (nobody.id,))
    assert beat(conn, other).recovered == 2
    assert beat(conn, other).recovered == 0


def test_the_jobs_of_a_worker_that_left_without_settling_run_again(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take, beat: Beat
) -> None:
    a_key(conn)
    a_list(conn, 1)
    leaver, other = a_worker(conn), a_worker(conn)
    take(conn, leaver)
    workers.leave(conn, leaver.id)
    assert state_of(conn, leaver) == "stopped"
    assert beat(conn, other).recovered == 1
    assert state_of(conn, leaver) == "stopped"


def test_a_worker_declared_lost_learns_it_at_its_next_beat_and_claims_nothing_more(
    conn: psycopg.Connection,
    a_key: A,
    a_list: A,
    a_worker: AWorker,
    take: Take,
    beat: Beat,
    settlement: Settle,
) -> None:
    a_key(conn)
    a_list(conn, 2)
    hung, other = a_worker(conn, lease_seconds=0.0), a_worker(conn)
    (claim,) = take(conn, hung)
    beat(conn, other)
    conn.execute("UPDATE job SET run_at = now()")
    assert claims.settle(conn, [settlement(claim)]) == {claim.id}
    assert take(conn, hung) == []
    pulse = beat(conn, hung)
    assert (pulse.state, pulse.held) == (None, {})
    assert state_of(conn, hung) == "lost"
    assert take(conn, hung) == []
    workers.leave(conn, hung.id)
    assert state_of(conn, hung) == "lost"


def test_jobs_that_are_lost_together_again_and_again_part_ways(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take, beat: Beat
) -> None:
    """One of them may be what kills the workers; the others must not fail with it."""
    pauses = "SELECT extract(epoch FROM run_at - clock_timestamp())::float8 FROM job ORDER BY run_at"
    a_key(conn)
    a_list(conn, 8)
    watcher = a_worker(conn)
    take(conn, a_worker(conn, lease_seconds=0.0), 8)
    beat(conn, watcher)
    assert all(pause < 0 for (pause,) in conn.execute(pauses))  # the first time at once

    conn.execute("UPDATE job SET run_at = now()")
    take(conn, a_worker(conn, lease_seconds=0.0), 8)
    beat(conn, watcher)
    again = [pause for (pause,) in conn.execute(pauses)]
    assert again[-1] - again[0] > 0.2
    assert again[-1] <= 4.0


def test_a_job_that_loses_its_worker_too_often_fails_as_worker_lost(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take, beat: Beat
) -> None:
    a_key(conn)
    a_list(conn, 1, max_losses=3, max_attempts=1)
    watcher = a_worker(conn)
    for losses in (1, 2, 3):
        (claim,) = take(conn, a_worker(conn, lease_seconds=0.0))
        assert beat(conn, watcher).recovered == 1
        job = see(conn, claim.id)
        assert (job.losses, job.attempts) == (losses, 0)
        assert job.status == ("failed" if losses == 3 else "pending")
        conn.execute("UPDATE job SET run_at = now()")
    assert (job.cause, job.message, job.ended_at is not None) == (
        "worker_lost",
        "lost with its worker, 3 in a row",
        True,
    )
    assert tally.read(conn) == [tally.Count(watcher_list(conn), "failed", "", "worker_lost", 1)]


def watcher_list(conn: psycopg.Connection) -> int:
    row = conn.execute("SELECT max(id) FROM list").fetchone()
    assert row
    return int(row[0])


def test_a_loss_is_no_attempt_and_an_attempt_is_no_loss(
    conn: psycopg.Connection,
    a_key: A,
    a_list: A,
    a_worker: AWorker,
    take: Take,
    beat: Beat,
    settlement: Settle,
) -> None:
    a_key(conn)
    a_list(conn, 1)
    who = a_worker(conn)
    (claim,) = take(conn, a_worker(conn, lease_seconds=0.0))
    beat(conn, who)
    conn.execute("UPDATE job SET run_at = now()")
    (claim,) = take(conn, who)
    assert (claim.losses, claim.attempts) == (1, 0)
    claims.settle(conn, [settlement(claim, Status.PENDING, cause="not_found", tried=1)])
    job = see(conn, claim.id)
    assert (job.losses, job.attempts, job.faults) == (0, 1, 0)


def test_a_beat_never_waits_for_the_row_of_another_worker(
    dsn: str, connect: Connect, a_worker: AWorker, beat: Beat
) -> None:
    """Two that look dead to each other would wait for each other: whoever beats at this moment lives."""
    one, other = connect(), connect()
    late, watcher = a_worker(one, lease_seconds=0.0), a_worker(one)
    other.execute("SET lock_timeout = '2s'")
    with one.transaction():
        beat(one, late)
        assert beat(other, watcher).state == "running"
    assert state_of(one, late) == "running"


def test_two_beats_at_once_free_a_job_once_and_neither_waits(
    dsn: str, connect: Connect, a_key: A, a_list: A, a_worker: AWorker, take: Take, beat: Beat
) -> None:
    one, other = connect(), connect()
    other.execute("SET lock_timeout = '2s'")
    a_key(one)
    a_list(one, 3)
    nobody, first, second = (a_worker(one) for _ in range(3))
    take(one, nobody, 3)
    one.execute("DELETE FROM worker WHERE id = %s", (nobody.id,))
    with one.transaction():
        assert beat(one, first).recovered == 3
        assert beat(other, second).recovered == 0
    assert beat(other, second).recovered == 0
    assert one.execute("SELECT sum(losses) FROM job").fetchone() == (3,)


def test_a_settlement_on_its_way_is_neither_waited_for_nor_undone(
    dsn: str,
    connect: Connect,
    a_key: A,
    a_list: A,
    a_worker: AWorker,
    take: Take,
    beat: Beat,
    settlement: Settle,
) -> None:
    one, other = connect(), connect()
    other.execute("SET lock_timeout = '2s'")
    a_key(one)
    a_list(one, 1)
    late, watcher = a_worker(one, lease_seconds=0.0), a_worker(one)
    (claim,) = take(one, late)
    with one.transaction():
        assert claims.settle(one, [settlement(claim)]) == set()
        assert beat(other, watcher).recovered == 0
    assert beat(other, watcher).recovered == 0
    assert see(one, claim.id).status == "done"


def test_many_beats_at_once_free_each_job_once_and_never_deadlock(
    dsn: str, connect: Connect, a_key: A, a_list: A, a_worker: AWorker, take: Take, beat: Beat
) -> None:
    setup = connect()
    a_key(setup)
    a_list(setup, 400, max_losses=1000)
    watchers = [a_worker(setup) for _ in range(4)]

    def storm(who: Identity) -> int:
        with database.connect(dsn, "test") as conn:
            return sum(beat(conn, who).recovered for _ in range(10))

    held = recovered = losses = 0
    with ThreadPoolExecutor(len(watchers)) as threads:
        for _ in range(4):
            dying = [a_worker(setup, lease_seconds=0.0) for _ in range(5)]
            held += sum(len(take(setup, who, 60)) for who in dying)
            recovered += sum(threads.map(storm, watchers))
            losses += setup.execute("SELECT sum(losses) FROM job").fetchall()[0][0]
            setup.execute("UPDATE job SET run_at = clock_timestamp(), losses = 0")
    assert recovered == held == losses > 1000
    assert setup.execute("SELECT count(*) FROM job WHERE status <> 'pending'").fetchone() == (0,)
    assert tally.check(setup) == []


def test_living_workers_and_those_that_ended_within_a_day_are_seen(
    conn: psycopg.Connection, a_worker: AWorker
) -> None:
    living, stopped, older = (a_worker(conn) for _ in range(3))
    for who in (stopped, older):
        workers.leave(conn, who.id)
    conn.execute("UPDATE worker SET ended_at = ended_at - interval '25 hours' WHERE id = %s", (older.id,))
    seen: dict[UUID, str] = {worker.id: worker.state for worker in workers.see(conn)}
    assert seen == {living.id: "running", stopped.id: "stopped"}
