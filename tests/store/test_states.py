"""The moves written down, drawn and made are the same."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from store import claims, jobs, lists, tally, workers
from store.claims import Claim, Settlement
from store.jobs import NewJob
from store.states import MOVES, Outcome, Status
from store.workers import Identity, Pulse

A = Callable[..., int]
DOCS = Path(__file__).resolve().parents[2] / "docs"
DRAWN = (DOCS / "states.md").read_text(encoding="utf-8").split("## A circuit")[0]
MADE_BY = {(move.name, move.before, move.after) for move in MOVES}


def test_the_table_in_the_docs_says_what_the_code_says() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (?:`(\w+)`)? ?\| `(\w+)` \| (.+) \|$", DRAWN, re.MULTILINE)
    assert rows == [(move.name, move.before or "", move.after, move.meaning) for move in MOVES]


def test_the_drawing_in_the_docs_shows_the_same_moves() -> None:
    arrows = re.findall(r"^ +(\S+) --> (\S+): (\w+)$", DRAWN, re.MULTILINE)
    assert arrows == [(move.before or "[*]", move.after, move.name) for move in MOVES]


def test_every_move_names_the_function_that_makes_it() -> None:
    rooms = (jobs, claims, workers)
    assert all(any(callable(getattr(room, move.name, None)) for room in rooms) for move in MOVES)


def test_every_status_is_reached_and_none_is_final() -> None:
    assert {move.after for move in MOVES} == set(Status)
    assert {move.before for move in MOVES} == set(Status) | {None}


class Queue:
    """A queue of two lists and two workers; each method is a step that a person or a program may take."""

    def __init__(self, conn: psycopg.Connection, seed: int, build: dict[str, Callable[..., Any]]) -> None:
        self.conn = conn
        self.chance = random.Random(seed)
        self.beat, self.a_worker = build["beat"], build["a_worker"]
        self.take, self.settlement = build["take"], build["settlement"]
        build["a_key"](conn)
        self.lists = [build["a_list"](conn, 4, max_losses=2) for _ in range(2)]
        self.workers: list[Identity] = [self.a_worker(conn) for _ in range(2)]
        self.held: list[Claim] = []

    def enqueue(self) -> None:
        numbers = {self.chance.randint(1, 12) for _ in range(3)}
        with self.conn.transaction():
            jobs.enqueue(self.conn, self.chance.choice(self.lists), [NewJob(f"{n:08}") for n in numbers])

    def claim(self) -> None:
        who = self.chance.choice(self.workers)
        claimed: list[Claim] = self.take(self.conn, who, self.chance.randint(1, 4))
        self.held += claimed

    def settle(self) -> None:
        """Some of the claims that were ever made, so that lost and ended ones are tried too."""
        self.chance.shuffle(self.held)
        ends = []
        for claim in self.held[:3]:
            status = self.chance.choice([Status.DONE, Status.FAILED, Status.PENDING])
            more: dict[str, Any] = {}
            if status is Status.DONE:
                more["outcome"] = self.chance.choice(list(Outcome))
                more["cause"] = self.chance.choice([None, "no_facts"])
            else:
                more["cause"] = self.chance.choice(["not_found", "parse_error"])
            ends.append(self.settlement(claim, status, **more))
        claims.settle(self.conn, ends)

    def tick(self) -> None:
        """One worker dies and another one beats."""
        dead = self.workers.pop(0)
        self.conn.execute("UPDATE worker SET lease_until = 'epoch' WHERE id = %s", (dead.id,))
        self.workers.append(self.a_worker(self.conn))
        pulse: Pulse = self.beat(self.conn, self.workers[0])
        assert pulse.state == "running"

    def retry(self) -> None:
        jobs.retry(self.conn, self.chance.choice(self.lists), self.chance.choice([None, "not_found", "x"]))

    def retry_one(self) -> None:
        jobs.retry_one(self.conn, self._any_job())

    def ask_again(self) -> None:
        jobs.ask_again(self.conn, self._any_job())

    def refresh(self) -> None:
        jobs.refresh(self.conn, self.chance.choice(self.lists))

    def release(self) -> None:
        """Some of the claims that were ever made, as if their worker had never heard of them."""
        for claim in self.chance.sample(self.held, min(2, len(self.held))):
            claims.release(self.conn, claim.worker, {claim.id: claim.claim_no})

    def _any_job(self) -> int:
        return self.chance.choice(sorted(self.statuses()))

    def cancel(self) -> None:
        lists.cancel(self.conn, self.chance.choice(self.lists))

    def revive(self) -> None:
        lists.resume(self.conn, self.chance.choice(self.lists))

    def finish(self) -> None:
        lists.finish(self.conn)

    def fold(self) -> None:
        tally.fold(self.conn)

    def statuses(self) -> dict[int, tuple[str, int]]:
        return {row[0]: row[1:] for row in self.conn.execute("SELECT id, status, claim_no FROM job")}


STEPS = ["enqueue", "claim", "settle", "tick", "retry", "retry_one", "ask_again", "cancel", "revive"]
STEPS += ["refresh", "release", "finish", "fold"]
OFTEN = ["claim", "settle", "claim", "settle"]


@pytest.fixture
def build(
    a_list: A,
    a_key: A,
    a_worker: Callable[..., Identity],
    beat: Callable[..., Pulse],
    take: Callable[..., list[Claim]],
    settlement: Callable[..., Settlement],
) -> dict[str, Callable[..., Any]]:
    return {
        "a_list": a_list,
        "a_key": a_key,
        "a_worker": a_worker,
        "beat": beat,
        "take": take,
        "settlement": settlement,
    }


def check_step(queue: Queue, step: str, before: dict[int, tuple[str, int]]) -> None:
    after = queue.statuses()
    for job, (status, claim_no) in after.items():
        was, old_claim_no = before.get(job, (None, 0))
        assert claim_no - old_claim_no == (step == "claim" and (was, status) == ("pending", "in_progress"))
        if was != status:
            assert (step, was, status) in MADE_BY
    assert before.keys() <= after.keys()
    counted = [(c.list_id, c.status, c.outcome, c.cause, c.n) for c in tally.read(queue.conn)]
    assert counted == queue.conn.execute(tally.TRUTH).fetchall()


@settings(
    max_examples=25,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to make a walk shorter takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=st.lists(st.sampled_from(STEPS + OFTEN), min_size=20, max_size=40), seed=st.integers(0, 2**32))
def test_no_walk_makes_a_move_that_is_not_written_down_and_counts_stay_true(
    conn: psycopg.Connection,
    clock: Any,
    build: dict[str, Callable[..., Any]],
    steps: list[str],
    seed: int,
) -> None:
    with conn.transaction(force_rollback=True):
        queue = Queue(conn, seed, build)
        for step in steps:
            before = queue.statuses()
            getattr(queue, step)()
            check_step(queue, step, before)
            clock.advance(1.0)
