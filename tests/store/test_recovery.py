"""Who is charged when a worker dies: the job that kills its workers, and nobody beside it."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from typing import Any
from uuid import UUID

import psycopg
import pytest

from store import claims
from store.claims import Claim, Settlement
from store.recovery import SUSPECT_LOSSES
from store.workers import Identity, Pulse

A = Callable[..., int]
AWorker = Callable[..., Identity]
Take = Callable[..., list[Claim]]
Beat = Callable[..., Pulse]
Settle = Callable[..., Settlement]
STEP_SECONDS = 0.25
SLOTS = 4


class Crew:
    """Some workers on the database's own statements, on a clock that stands still between steps."""

    def __init__(self, conn: psycopg.Connection, clock: Any, seed: int, size: int, **build: Any) -> None:
        self.conn, self.clock, self.size = conn, clock, size
        self.chance = random.Random(seed)
        self.a_worker, self.beat = build["a_worker"], build["beat"]
        self.take, self.settlement = build["take"], build["settlement"]
        self.held: dict[UUID, list[Claim]] = {}
        self.alive: dict[UUID, Identity] = {}
        self.deaths = 0

    def step(self, ends: float, never: Collection[int] = ()) -> None:
        """Missing workers start, all claim what they have room for, and each job ends with this chance.

        `never`: jobs that do not come to an end.
        """
        while len(self.alive) < self.size:
            who = self.a_worker(self.conn)
            self.alive[who.id], self.held[who.id] = who, []
        for who in self.alive.values():
            self.held[who.id] += self.take(self.conn, who, SLOTS - len(self.held[who.id]))
        for held in self.held.values():
            done = [claim for claim in held if claim.id not in never and self.chance.random() < ends]
            claims.settle(self.conn, [self.settlement(claim) for claim in done])
            held[:] = [claim for claim in held if claim not in done]
        self.clock.advance(STEP_SECONDS)

    def kill(self, worker: UUID) -> None:
        """It is gone, and somebody finds it gone."""
        del self.alive[worker], self.held[worker]
        self.deaths += 1
        self.conn.execute("UPDATE worker SET lease_until = 'epoch' WHERE id = %s", (worker,))
        watcher = next(iter(self.alive.values()), None) or self.a_worker(self.conn)
        self.beat(self.conn, watcher)

    def holders(self, job: int) -> list[UUID]:
        return [who for who, held in self.held.items() if any(claim.id == job for claim in held)]

    def count(self, condition: str) -> int:
        row = self.conn.execute(f"SELECT count(*) FROM job WHERE {condition}").fetchone()
        assert row
        return int(row[0])


@pytest.fixture
def crew(
    conn: psycopg.Connection,
    clock: Any,
    a_key: A,
    a_worker: AWorker,
    beat: Beat,
    take: Take,
    settlement: Settle,
) -> Callable[..., Crew]:
    a_key(conn)
    return lambda seed, size: Crew(
        conn, clock, seed, size, a_worker=a_worker, beat=beat, take=take, settlement=settlement
    )


def storm(crew: Crew, seconds: float) -> None:
    """Two kills a second, whoever it hits."""
    for step in range(int(seconds / STEP_SECONDS)):
        crew.step(ends=0.08)
        if step % 2:
            crew.kill(crew.chance.choice(list(crew.alive)))


@pytest.mark.parametrize("seed", [1, 2])
def test_a_storm_of_kills_fails_no_job(
    conn: psycopg.Connection, crew: Callable[..., Crew], a_list: A, seed: int
) -> None:
    a_list(conn, 200)
    six = crew(seed, 6)
    storm(six, 60.0)
    assert six.deaths > 100
    assert six.count("status = 'failed'") == 0
    assert six.count("status = 'done'") > 100


def test_without_a_look_at_other_deaths_a_storm_would_fail_some(
    conn: psycopg.Connection, crew: Callable[..., Crew], a_list: A
) -> None:
    """Shows that the test above would see it."""
    a_list(conn, 200)
    six = crew(1, 6)
    for step in range(1_200):  # pauses and turns are random: it takes more or less long
        conn.execute("UPDATE worker SET lost_unsuspected = false WHERE lost_unsuspected")
        six.step(ends=0.08)
        if step % 2:
            six.kill(six.chance.choice(list(six.alive)))
        if six.count("status = 'failed'"):
            return
    pytest.fail("no job has failed")


@pytest.mark.parametrize("poison", [1, 3])
def test_jobs_that_kill_their_workers_fail_alone(
    conn: psycopg.Connection, crew: Callable[..., Crew], a_list: A, poison: int
) -> None:
    a_list(conn, 60)
    four = crew(7, 4)
    bad = [row[0] for row in conn.execute("SELECT id FROM job ORDER BY id LIMIT %s", (poison,))]
    for _ in range(700):
        four.step(ends=0.15, never=bad)
        for job in bad:
            for worker in four.holders(job):
                four.kill(worker)
        if not four.count("status IN ('pending', 'in_progress')"):
            break
    failed = conn.execute("SELECT id, cause, losses FROM job WHERE status = 'failed' ORDER BY id").fetchall()
    assert failed == [(job, "worker_lost", 5) for job in bad]
    assert four.deaths <= 8 * poison


def test_a_worker_holds_one_suspect_at_most_and_half_of_the_workers_one(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_key(conn)
    a_list(conn, 40)
    conn.execute("UPDATE job SET losses = %s WHERE line <= 30", (SUSPECT_LOSSES,))
    four = [a_worker(conn) for _ in range(4)]
    held = [[claim.losses for claim in take(conn, who, 3)] for who in four]
    assert [sum(losses >= SUSPECT_LOSSES for losses in one) for one in held] == [1, 1, 0, 0]
    assert [len(one) for one in held] == [3, 3, 3, 3]  # ten of them are none
    assert take(conn, four[0], 3) == []


def test_suspects_at_the_head_of_a_list_keep_nobody_waiting(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_key(conn)
    a_list(conn, 40)
    conn.execute("UPDATE job SET losses = %s WHERE line <= 30", (SUSPECT_LOSSES,))
    assert [claim.losses for claim in take(conn, a_worker(conn), 8)].count(0) == 7
