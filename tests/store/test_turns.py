"""Which jobs a claim may take: no more than there is headroom for, and every list in its turn."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from store import answers, calls, claims, database, keys, ledger, steering
from store.claims import Claim, Settlement
from store.workers import Identity

Take = Callable[..., list[Claim]]
A = Callable[..., int]
AWorker = Callable[..., Identity]


def room(
    conn: psycopg.Connection, who: Identity, n: int = 50, soon_seconds: float = 0.5, **how: float
) -> int:
    """For how many jobs there is headroom, as a claim that takes them says."""
    asked: dict[str, Any] = {"n": n, "soon_seconds": soon_seconds, **how}
    return claims.claim(conn, who.id, "registry", who.key_set, **asked).room


def account_of(conn: psycopg.Connection, key: int) -> int:
    row = conn.execute("SELECT account_id FROM key WHERE id = %s", (key,)).fetchone()
    assert row
    return int(row[0])


def test_a_worker_claims_no_more_than_the_keys_have_headroom_for(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_key(conn, "7/m")
    a_key(conn, "5/m", "1000/day")
    a_list(conn, 50)
    who = a_worker(conn)
    assert len(take(conn, who, 50)) == 12
    assert room(conn, who, waiting=12) == 0


def test_headroom_is_less_by_reserved_permits_and_by_jobs_in_progress_of_anybody(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_key(conn, "10/m")
    a_list(conn, 50)
    ledger.reserve(conn, "registry", None, 4, 0.0)
    assert len(take(conn, a_worker(conn), 2)) == 2
    assert room(conn, a_worker(conn)) == 10 - 4 - 2


def test_permits_that_come_back_soon_are_headroom(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker
) -> None:
    a_key(conn, "4/m")
    a_list(conn, 50)
    who = a_worker(conn)
    ledger.reserve(conn, "registry", None, 4, 0.0)
    assert room(conn, who, soon_seconds=59.0) == 0
    assert room(conn, who, soon_seconds=61.0) == 4


def test_jobs_that_others_have_held_for_longer_take_no_headroom(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    """They have their permit: a service that takes 10 s per call can be asked 10 times a second."""
    a_key(conn, "10/m")
    a_list(conn, 50)
    held = take(conn, a_worker(conn), 6)
    who = a_worker(conn)
    assert room(conn, who) == 10 - 6
    conn.execute(
        "UPDATE job SET claimed_at = claimed_at - interval '1 second' WHERE id = ANY (%s)",
        ([claim.id for claim in held[:4]],),
    )
    assert room(conn, a_worker(conn)) == 10 - 2 - 4  # 4 were claimed by the look before


def test_a_worker_says_how_many_of_its_own_jobs_wait(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_key(conn, "10/m")
    a_list(conn, 50)
    who = a_worker(conn)
    assert len(take(conn, who, 6)) == 6
    assert room(conn, who, n=0, waiting=6) == 0
    assert len(claims.claim(conn, who.id, "registry", None, n=50, soon_seconds=0.5, waiting=6).claims) == 4


@pytest.mark.parametrize(
    ("text", "used", "since", "soon", "free"),
    [
        ("10/s", 0, 0.0, 2.0, 20),  # at once, and once again
        ("10/s", 10, 0.0, 2.0, 10),  # when the window has passed; the next would be too late
        ("10/s", 10, 0.5, 2.0, 20),
        ("10/s", 4, 0.0, 2.0, 16),
        ("2/s", 2, 0.0, 10.0, 18),
        ("300/m", 300, 0.0, 2.0, 0),
        ("300/m", 100, 30.0, 2.0, 200),
        ("600 tokens/m", 5, 0.0, 2.0, 5),  # calls cost 60 tokens each
        ("10/s spread", 1, 0.0, 2.0, 18),
    ],
)
def test_headroom_is_the_permits_that_there_will_be_soon(
    conn: psycopg.Connection,
    clock: Any,
    a_key: A,
    a_worker: AWorker,
    text: str,
    used: int,
    since: float,
    soon: float,
    free: int,
) -> None:
    a_key(conn, text)
    who = a_worker(conn)
    while used > 0:
        answer = ledger.reserve(conn, "registry", None, min(used, 100), 0.0, tokens=[60] * 100)
        assert isinstance(answer, ledger.Reservation)
        used -= len(answer.in_seconds)
    clock.advance(since)
    assert room(conn, who, n=1000, soon_seconds=soon, tokens=60) == free


def test_the_smallest_limit_of_an_account_is_its_headroom_and_keys_of_one_account_share_it(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker
) -> None:
    for _ in range(3):
        a_key(conn, "100/m", "6/h", account="one")
    a_list(conn, 50)
    assert room(conn, a_worker(conn)) == 6


def test_without_a_key_nothing_is_claimed(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_list(conn, 5)
    a_key(conn, service="elsewhere")
    who = a_worker(conn)
    assert room(conn, who) == 0
    assert take(conn, who, 5) == []


@pytest.mark.parametrize(
    "leave", [keys.disable, lambda c, k: keys.reject(c, k, "401"), lambda c, k: keys.exhaust(c, k, "402")]
)
def test_a_key_out_of_use_is_no_headroom(
    conn: psycopg.Connection,
    a_key: A,
    a_list: A,
    a_worker: AWorker,
    leave: Callable[[psycopg.Connection, int], bool],
) -> None:
    key = a_key(conn, "10/s")
    a_list(conn, 5)
    assert leave(conn, key)
    assert room(conn, a_worker(conn)) == 0
    assert keys.enable(conn, key)
    assert room(conn, a_worker(conn)) > 0


def test_a_resting_account_is_no_headroom_until_soon(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker
) -> None:
    key = a_key(conn, "10/m")
    a_list(conn, 5)
    steering.rest_account(conn, account_of(conn, key), 30.0, "rate_limited")
    who = a_worker(conn)
    assert room(conn, who, soon_seconds=29.0) == 0
    assert room(conn, who, soon_seconds=31.0) == 10


def test_a_resting_service_is_left_alone(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_key(conn)
    a_list(conn, 5)
    a_key(conn, service="other")
    a_list(conn, 5, "other")
    steering.rest_service(conn, "registry", 30.0, "stopped")
    who = a_worker(conn)
    assert take(conn, who, 5) == []
    assert len(take(conn, who, 5, "other")) == 5


def test_the_keys_of_another_set_are_no_headroom(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker
) -> None:
    a_key(conn, "3/m", key_set="a")
    a_key(conn, "20/m", key_set="b")
    a_list(conn, 50)
    assert room(conn, a_worker(conn, key_set="c")) == 0
    assert room(conn, a_worker(conn, key_set="a")) == 3
    assert room(conn, a_worker(conn, key_set=None)) == 20


def test_jobs_in_progress_with_the_keys_of_another_set_take_no_headroom(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_key(conn, "3/m", key_set="a")
    a_key(conn, "20/m", key_set="b")
    a_list(conn, 50)
    assert len(take(conn, a_worker(conn, key_set="b"), 20)) == 20
    assert room(conn, a_worker(conn, key_set="a")) == 3


@pytest.mark.parametrize(
    "columns",
    [
        {"state": "paused"},
        {"state": "finished", "finished_at": "2026-01-01"},
        {"state": "cancelled", "finished_at": "2026-01-01"},
        {"start_at": "2999-01-01"},
    ],
    ids=lambda columns: str(next(iter(columns.values()))),
)
def test_a_list_that_is_not_active_now_is_left_alone(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take, columns: dict[str, Any]
) -> None:
    a_key(conn)
    conn.execute("ALTER TABLE list DROP CONSTRAINT list_finished")
    a_list(conn, 5, **columns)
    assert take(conn, a_worker(conn), 5) == []


def test_a_job_is_left_alone_until_its_time(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_key(conn)
    a_list(conn, 3)
    conn.execute("UPDATE job SET run_at = now() + interval '1 second' WHERE line < 3")
    assert [claim.company for claim in take(conn, a_worker(conn), 5)] == ["00000003"]


def test_a_higher_priority_goes_first_always(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_key(conn)
    low = [a_list(conn, 30, priority=0) for _ in range(3)]
    high = a_list(conn, 30, priority=5)
    who = a_worker(conn)
    for _ in range(10):
        assert {claim.list_id for claim in take(conn, who, 3)} == {high}
    assert {claim.list_id for claim in take(conn, who, 3)} <= set(low)


def test_a_list_of_ten_beside_five_thousand_is_served_within_the_first_claims(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_key(conn)
    a_list(conn, 5000)
    small = a_list(conn, 10)
    who = a_worker(conn)
    turns = 0
    while conn.execute("SELECT 1 FROM job WHERE list_id = %s AND status = 'pending'", (small,)).fetchone():
        take(conn, who, 10)
        turns += 1
        assert turns <= 40  # one turn in two is its own: 40 without it happen once in 10^12 runs


def test_lists_of_one_priority_take_equal_turns(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_key(conn)
    three = [a_list(conn, 200) for _ in range(3)]
    who = a_worker(conn)
    turns = Counter(take(conn, who, 1)[0].list_id for _ in range(150))
    assert set(turns) == set(three)
    assert min(turns.values()) > 20  # 50 each on average; 20 or fewer happen once in 10^6 runs


def test_a_batch_is_filled_from_the_next_lists_when_one_is_short(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: AWorker, take: Take
) -> None:
    a_key(conn)
    for _ in range(4):
        a_list(conn, 2)
    assert len(take(conn, a_worker(conn), 7)) == 7


def plan_of(conn: psycopg.Connection, statement: str, asked: dict[str, Any]) -> list[dict[str, Any]]:
    """The nodes of the statement's plan."""
    row = conn.execute(f"EXPLAIN (FORMAT json) {statement}", asked).fetchone()
    assert row

    def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
        return [plan, *(node for child in plan.get("Plans", []) for node in nodes(child))]

    return nodes(row[0][0]["Plan"])


def asking(who: Identity, n: int = 50) -> dict[str, Any]:
    """What a claim of so many jobs hands to the database."""
    return {
        "worker": who.id, "service": "registry", "key_set": None, "n": n, "soon": 2.0, "locked": [],
        "waiting": 0, "tokens": 0.0, "keyless": False,
    }  # fmt: skip


@pytest.mark.parametrize("is_analyzed", [False, True], ids=["right after an import", "after ANALYZE"])
def test_a_claim_finds_its_jobs_by_their_indexes_and_reads_no_list_as_a_whole(
    dsn: str, a_key: A, a_list: A, a_worker: AWorker, take: Take, is_analyzed: bool
) -> None:
    with database.connect(dsn, "test") as conn:
        a_key(conn)
        for size in (20_000, 10, 10):
            a_list(conn, size)
        who = a_worker(conn)
        take(conn, who, 50)
        if is_analyzed:
            conn.execute("ANALYZE")
        plan = plan_of(conn, claims.CLAIM, asking(who))
    assert not [
        node for node in plan if (node["Node Type"], node.get("Relation Name")) == ("Seq Scan", "job")
    ]
    used = {
        node["Index Name"]: node.get("Index Cond") for node in plan if "job" in node.get("Index Name", "")
    }
    assert set(used) == {"job_due", "job_held", "job_pkey", "job_suspect"}
    for name in ("job_due", "job_suspect"):
        assert (used[name] or "").replace("turn_1", "turn") == "((list_id = turn.id) AND (run_at <= now()))"
    assert used["job_pkey"]


def test_a_plan_for_one_job_costs_what_one_for_many_does_so_that_it_is_kept(
    dsn: str, a_key: A, a_list: A, a_worker: AWorker
) -> None:
    """Making the plan takes longer than carrying it out; Postgres keeps one that no parameter betters."""
    with database.connect(dsn, "test") as conn:
        a_key(conn)
        a_list(conn, 20_000)
        conn.execute("ANALYZE")
        who = a_worker(conn)
        one, many = (plan_of(conn, claims.CLAIM, asking(who, n))[0]["Total Cost"] for n in (1, 500))
        assert one == many


def test_a_list_of_ten_beside_a_hundred_thousand_starts_within_two_seconds(
    dsn: str,
    connect: Callable[[], psycopg.Connection],
    a_key: A,
    a_list: A,
    a_worker: AWorker,
    take: Take,
    settlement: Callable[..., Settlement],
) -> None:
    """Three workers of eight slots are busy with the large one, in rounds of a tenth of a second."""
    setup, stop = connect(), threading.Event()
    a_key(setup)
    a_list(setup, 100_000)
    begun: dict[int, float] = {}

    def work(conn: psycopg.Connection) -> None:
        who = a_worker(conn)
        while not stop.is_set():
            held = take(conn, who, 8)
            for claim in held:
                begun.setdefault(claim.list_id, time.monotonic())
            stop.wait(0.1)
            claims.settle(conn, [settlement(claim) for claim in held])

    with ThreadPoolExecutor(3) as threads:
        working = [threads.submit(work, connect()) for _ in range(3)]
        try:
            deadline = time.monotonic() + 20
            while len(begun) < 1 and time.monotonic() < deadline:
                stop.wait(0.01)
            small, joined = a_list(setup, 10), time.monotonic()
            while small not in begun and time.monotonic() < joined + 5:
                stop.wait(0.005)
        finally:
            stop.set()
        for one in working:
            one.result(10)
    print(f"the small list started after {begun[small] - joined:.2f} s")  # pytest -rP shows it
    assert begun[small] - joined < 2.0


def test_a_settle_finds_its_jobs_by_their_ids_even_when_no_job_was_in_progress_at_the_last_analyze(
    dsn: str, a_key: A, a_list: A, a_worker: AWorker, take: Take, settlement: Callable[..., Settlement]
) -> None:
    """Over the index of held jobs it would compare each row given with each job in progress."""
    with database.connect(dsn, "test") as conn:
        a_key(conn)
        a_list(conn, 20_000)
        conn.execute("ANALYZE")
        given = claims.columns([settlement(one) for one in take(conn, a_worker(conn), 20)])
        plan = plan_of(
            conn, claims.SETTLE, given | answers.columns([]) | calls.columns([], 0.0) | {"again": False}
        )
    assert {
        (node["Node Type"], node["Index Name"]) for node in plan if "job" in node.get("Index Name", "")
    } == {("Index Scan", "job_pkey")}
    assert not [
        node for node in plan if (node["Node Type"], node.get("Relation Name")) == ("Seq Scan", "job")
    ]
