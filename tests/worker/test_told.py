"""What answers tell beside their data: which of it is news, and what it changes for everybody."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from services.verdicts import ServiceFailed, Usable, Verdict
from store import circuits, keys, ledger, steering
from worker.connections import Connections
from worker.http import Received, Unreachable
from worker.told import Breaker, Budgets
from worker.work import PutBack, Work

GOOD = Received(200, {}, b"")
DOWN = ServiceFailed("service_error", "503")


@pytest.fixture
def account(db: psycopg.Connection, a_key: Callable[..., int]) -> int:
    key = a_key(db, "100/5m", label="one")
    row = db.execute("SELECT account_id FROM key WHERE id = %s", (key,)).fetchone()
    assert row
    return int(row[0])


@pytest.fixture
def hear(dsn: str, borrow: Callable[[str], Connections], account: int) -> Callable[..., None]:
    """`hear(left, reset)`: a good answer with these headers was sent just now."""
    told, borrowed = Budgets(), borrow(dsn)

    def heard(left: int, reset: float, age: float = 0.0) -> None:
        headers = {"x-ratelimit-remaining": str(left), "x-ratelimit-reset": str(reset)}
        told.hear(borrowed, "registry", account, headers, age)

    return heard


def _used(db: psycopg.Connection) -> int:
    (key,) = keys.see(db)
    return key.used[0]


def test_an_account_of_which_others_used_the_rest_is_used_no_further(
    db: psycopg.Connection, hear: Callable[..., None]
) -> None:
    ledger.reserve(db, "registry", None, 10, 0.2)
    hear(30, 200)
    assert _used(db) == 70
    assert len(_reserved(db)) == 16
    hear(1, 200)
    assert _used(db) == 99
    assert len(_reserved(db)) == 1
    assert _reserved(db) == ()
    answer = ledger.reserve(db, "registry", None, 1, 0.2)
    assert isinstance(answer, ledger.Reservation)
    assert 195 < answer.wait_seconds < 206  # their calls leave the window when the service's own is over


def _reserved(db: psycopg.Connection) -> tuple[float, ...]:
    answer = ledger.reserve(db, "registry", None, 16, 0.2)
    assert isinstance(answer, ledger.Reservation)
    return answer.in_seconds


def test_an_account_with_nothing_left_rests_before_a_429_comes(
    db: psycopg.Connection, hear: Callable[..., None]
) -> None:
    hear(0, 100, age=10.0)
    (key,) = keys.see(db)
    assert key.state == "resting"
    assert (
        89 < key.rest_seconds <= 99
    )  # the reset is told from when the call was sent; a tenth of jitter on top
    assert key.last_error == "the service says that no calls are left"


def test_what_the_ledger_knows_is_no_news(
    db: psycopg.Connection, hear: Callable[..., None], account: int
) -> None:
    while ledger.reserve(db, "registry", None, 16, 0.2) and _used(db) < 100:
        pass
    hear(0, 250)
    assert keys.see(db)[0].state == "active"
    assert not steering.lower(db, account, "calls", 5, 250.0)
    assert _used(db) == 100


def test_a_longer_rest_is_not_shortened_by_what_is_left(
    db: psycopg.Connection, hear: Callable[..., None], account: int
) -> None:
    steering.rest_account(db, account, 500.0, "429")
    hear(0, 100)
    assert keys.see(db)[0].rest_seconds > 490


def test_a_window_is_looked_into_a_few_times_however_many_calls_it_has(
    hear: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []

    def lower(_conn: psycopg.Connection, _account: int, _unit: str, left: int, _reset: float) -> bool:
        looks.append(left)
        return False

    monkeypatch.setattr(steering, "lower", lower)
    for left in range(599, 0, -1):
        hear(left, 290)
    assert looks[0] == 599
    assert len(looks) <= 11
    hear(599, 299)
    assert looks[-1] == 599  # a new window
    hear(3, 1)
    assert looks[-1] == 599  # over before anybody acts on it


@pytest.fixture
def tell(
    dsn: str, db: psycopg.Connection, borrow: Callable[[str], Connections], a_key: Callable[..., int]
) -> Callable[..., Breaker]:
    """`tell(work, verdict, times)`: the breaker after it heard this so often."""
    a_key(db)
    borrowed = borrow(dsn)
    breaker = Breaker()

    def told(work: Work, verdict: Verdict, times: int = 1, came: Received | Unreachable = GOOD) -> Breaker:
        for _ in range(times):
            breaker.hear(borrowed, work, came, verdict, 30.0)
        return breaker

    return told


def test_jobs_that_run_when_the_circuit_opens_make_no_further_call(
    db: psycopg.Connection, tell: Callable[..., Breaker], a_work: Callable[..., Work]
) -> None:
    work = a_work()
    tell(work, DOWN, circuits.LEAST_FAILURES - 1).check(work)
    breaker = tell(work, DOWN)
    with pytest.raises(PutBack, match="service_resting"):
        breaker.check(work)
    breaker.check(a_work(is_probe=True))
    until = time.monotonic()
    while (later := a_work()).began <= until:
        pass
    breaker.check(later)  # whatever is claimed now, is claimed because it may be called


def test_good_answers_cost_no_statement(a_work: Callable[..., Work]) -> None:
    def no_connection() -> Any:
        raise AssertionError("no statement is needed")

    breaker, budgets = Breaker(), Budgets()
    breaker.hear(no_connection, a_work(), GOOD, Usable(), 0.1)
    budgets.hear(no_connection, "registry", 1, {"content-type": "application/json"}, 0.1)


@pytest.mark.parametrize(
    ("verdict", "came", "is_open", "is_free"),
    [
        (Usable(), GOOD, False, True),
        (DOWN, GOOD, True, True),
        (ServiceFailed("service_unreachable"), Unreachable("service_unreachable", ""), True, True),
        (Usable(), Unreachable("bad_request", "was not sent"), True, False),
    ],
)
def test_the_first_answer_to_a_probe_decides(
    db: psycopg.Connection,
    tell: Callable[..., Breaker],
    a_work: Callable[..., Work],
    verdict: Verdict,
    came: Received | Unreachable,
    is_open: bool,
    is_free: bool,
) -> None:
    db.execute("UPDATE service SET opened_at = now(), pause_seconds = 2, probe_job = 7, probe_claim_no = 1")
    work = a_work(is_probe=True)
    tell(work, verdict, came=came)
    found = db.execute(
        "SELECT opened_at IS NOT NULL, probe_job IS NULL, pause_seconds FROM service"
    ).fetchone()
    assert found is not None
    assert found[:2] == (is_open, is_free)
    if is_free:
        tell(work, DOWN, 20)  # what comes after is the job's own
    assert db.execute("SELECT pause_seconds FROM service").fetchone() == found[2:]
