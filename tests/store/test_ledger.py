"""Limits hold at the service: in any window a key makes at most its limit of calls, whoever asks."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from store import circuits, keys, ledger, steering
from store.ledger import Busy, NoKey, Reservation, Resting
from store.limits import Limit, parse

A = Callable[..., int]
_number = count()
Ask = tuple[float, int, float]  # seconds since the last one, permits wanted, seconds ahead


def reserve(
    conn: psycopg.Connection, want: int = 1, *, ahead: float = 0.0, key_set: str | None = None
) -> Reservation:
    answer = ledger.reserve(conn, "registry", key_set, want, ahead)
    assert isinstance(answer, Reservation), answer
    return answer


def over_limit(sent: Sequence[float], limit: Limit) -> int:
    """How many calls a service that counts strictly over sliding windows would see above the limit."""
    sent = sorted(sent)
    later = sent[limit.amount :]
    return sum(late - early < limit.per_seconds for early, late in zip(sent, later, strict=False))


def sends(
    conn: psycopg.Connection,
    clock: Any,
    service: str,
    limits: Sequence[Limit],
    asks: Sequence[Ask],
    seed: int,
) -> list[float]:
    """When the service sees the calls, with delays that crowd them as the permits allow.

    Worst is a time in which every call comes as late as it may, and then one in which none is late.
    """
    chance = random.Random(seed)
    guard = min(limit.guard_seconds for limit in limits)
    jitter = guard * (1 - ledger.SLACK_SHARE) * 0.99
    seen, share = [], 1.0
    for gap, want, ahead in asks:
        clock.advance(gap)
        if chance.random() < 0.1:
            share = chance.choice([0.0, 1.0, 1.0 - share, chance.random()])
        answer = ledger.reserve(conn, service, None, want, ahead)
        assert isinstance(answer, Reservation)
        assert all(0.0 <= at <= ahead + 1e-5 for at in answer.in_seconds)
        seen += [clock.at + at + share * (answer.slack_seconds + jitter) for at in answer.in_seconds]
    return seen


LIMIT = st.builds(Limit, st.integers(1, 40), st.sampled_from([1, 10, 60]))
COARSE = st.builds(Limit, st.integers(101, 160), st.sampled_from([1, 10]))
ASK = st.tuples(
    st.one_of(st.floats(0.0, 0.3), st.floats(0.0, 4.0)),
    st.integers(1, 16),
    st.sampled_from([0.0, 0.2, 0.5, 2.0]),
)


@settings(
    max_examples=40,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # to make a run smaller takes minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    limits=st.lists(st.one_of(LIMIT, LIMIT, COARSE), min_size=1, max_size=3),
    asks=st.lists(ASK, min_size=30, max_size=60),
    seed=st.integers(0, 2**32),
)
def test_no_limit_is_ever_exceeded_as_the_service_counts(
    conn: psycopg.Connection,
    clock: Any,
    a_key: A,
    limits: list[Limit],
    asks: list[Ask],
    seed: int,
) -> None:
    service = f"service {next(_number)}"
    for _ in range(2):
        a_key(conn, *map(str, limits), service=service, account="shared")
    sent = sends(conn, clock, service, limits, asks, seed)
    assert [over_limit(sent, limit) for limit in limits] == [0] * len(limits)


CONSTANT: list[Ask] = [(0.03, 16, 0.2)] * 120


@pytest.mark.parametrize("texts", ["5/s", "40/2s", "120/s", "150/2s", "7/s 15/3s"])
def test_no_limit_is_exceeded_under_constant_demand(
    conn: psycopg.Connection, clock: Any, a_key: A, texts: str
) -> None:
    limits = [parse(text) for text in texts.split()]
    a_key(conn, *texts.split())
    for seed in range(2):
        sent = sends(conn, clock, "registry", limits, CONSTANT, seed)
        assert [over_limit(sent, limit) for limit in limits] == [0] * len(limits)
        clock.advance(10.0)


def test_without_the_guard_limits_are_exceeded(conn: psycopg.Connection, clock: Any, a_key: A) -> None:
    """Shows that the tests above would see it."""
    limit = Limit(5, 1)
    a_key(conn, str(limit))
    conn.execute("UPDATE allowance SET guard_seconds = 0")
    assert over_limit(sends(conn, clock, "registry", [limit], CONSTANT, 1), limit) > 0


@pytest.mark.parametrize("text", ["5/s", "20/10s", "60/m", "300/m"])
def test_a_limit_is_used_to_its_ceiling(conn: psycopg.Connection, clock: Any, a_key: A, text: str) -> None:
    """The guard and the grain cost no more than they must: amount per (window + guard + grain)."""
    a_key(conn, text)
    (limit,) = keys.see(conn)[0].limits
    granted = 0
    for _ in range(500):
        granted += len(reserve(conn, 16, ahead=0.2).in_seconds)
        clock.advance(0.1)
    windows = 50.0 / (limit.per_seconds + limit.guard_seconds + limit.grain_seconds + 0.2)
    assert granted >= limit.amount * windows * 0.97


def test_permits_come_at_once_up_to_the_limit_and_then_when_the_window_has_passed(
    conn: psycopg.Connection, clock: Any, a_key: A
) -> None:
    a_key(conn, "3/10s")
    guard = Limit(3, 10).guard_seconds
    assert reserve(conn, 5).in_seconds == pytest.approx((0.0, 0.0, 0.0))
    none = reserve(conn)
    assert none.in_seconds == ()
    assert none.wait_seconds == pytest.approx(10.0 + guard, abs=1e-5)
    clock.advance(10.0)
    assert reserve(conn).in_seconds == ()
    ahead = reserve(conn, 2, ahead=0.5)
    assert ahead.in_seconds == pytest.approx((guard, guard), abs=1e-5)
    assert ahead.slack_seconds == pytest.approx(guard / 3)


def test_permits_reserved_and_not_used_are_lost(conn: psycopg.Connection, clock: Any, a_key: A) -> None:
    a_key(conn, "2/m")
    reserve(conn, 2)
    clock.advance(59.0)
    assert reserve(conn).in_seconds == ()


@pytest.mark.parametrize(("limits", "wait"), [(("5/s", "5/m"), 60.0), (("5/m", "5/s"), 60.0)])
def test_the_strictest_of_several_limits_decides(
    conn: psycopg.Connection, clock: Any, a_key: A, limits: tuple[str, str], wait: float
) -> None:
    a_key(conn, *limits)
    assert len(reserve(conn, 9).in_seconds) == 5
    assert reserve(conn).wait_seconds > wait


def test_keys_of_one_account_share_its_limits(conn: psycopg.Connection, clock: Any, a_key: A) -> None:
    both = {a_key(conn, "4/m", account="shared") for _ in range(2)}
    answers = [reserve(conn, 1) for _ in range(5)]
    assert [len(answer.in_seconds) for answer in answers] == [1, 1, 1, 1, 0]
    assert {answer.key_id for answer in answers} == both


def test_the_least_used_account_goes_first(conn: psycopg.Connection, clock: Any, a_key: A) -> None:
    three = [a_key(conn, "60/m") for _ in range(3)]
    used = Counter[int]()
    for _ in range(12):
        answer = reserve(conn, 2)
        used[answer.key_id] += len(answer.in_seconds)
        clock.advance(0.01)
    assert used == dict.fromkeys(three, 8)


def test_a_larger_account_takes_the_larger_part(conn: psycopg.Connection, clock: Any, a_key: A) -> None:
    small, large = a_key(conn, "10/m"), a_key(conn, "90/m")
    used = Counter(reserve(conn).key_id for _ in range(50))
    assert used[large] >= 44
    assert used[small] >= 4


@pytest.mark.parametrize("leave", ["reject", "exhaust", "disable"])
def test_a_key_out_of_use_is_never_chosen(conn: psycopg.Connection, a_key: A, leave: str) -> None:
    spent, good = a_key(conn), a_key(conn)
    change: Callable[..., bool] = getattr(keys, leave)
    message = () if leave == "disable" else ("said so",)
    assert change(conn, spent, *message)
    assert {reserve(conn).key_id for _ in range(4)} == {good}
    assert change(conn, good, *message)
    assert ledger.reserve(conn, "registry", None, 1, 0.0) == NoKey()


def test_a_worker_with_a_key_set_uses_the_keys_of_the_set_and_no_others(
    conn: psycopg.Connection, a_key: A
) -> None:
    ours = {a_key(conn, key_set="a"), a_key(conn, key_set="a")}
    others = {a_key(conn, key_set="b"), a_key(conn)}
    assert {reserve(conn, key_set="a").key_id for _ in range(6)} == ours
    assert {reserve(conn).key_id for _ in range(12)} == ours | others
    assert ledger.reserve(conn, "registry", "c", 1, 0.0) == NoKey()


def test_a_key_of_another_service_is_never_chosen(conn: psycopg.Connection, a_key: A) -> None:
    a_key(conn, service="other")
    assert ledger.reserve(conn, "registry", None, 1, 0.0) == NoKey()


def test_a_resting_account_gives_nothing_until_its_rest_is_over(
    conn: psycopg.Connection, clock: Any, a_key: A
) -> None:
    a_key(conn, "10/s")
    account = reserve(conn).account_id
    clock.advance(5.0)
    assert steering.rest_account(conn, account, 30.0, "rate_limited")
    answer = reserve(conn)
    assert answer.in_seconds == ()
    assert answer.wait_seconds == pytest.approx(30.0, abs=1e-5)
    clock.advance(29.9)
    assert reserve(conn, ahead=0.2).in_seconds == pytest.approx((0.1,), abs=1e-5)


def test_an_account_that_does_not_rest_goes_first(conn: psycopg.Connection, clock: Any, a_key: A) -> None:
    for _ in range(2):
        a_key(conn, "10/s")
    resting = reserve(conn)
    steering.rest_account(conn, resting.account_id, 30.0, "rate_limited")
    others = [reserve(conn) for _ in range(4)]
    assert resting.account_id not in {answer.account_id for answer in others}
    assert sum(len(answer.in_seconds) for answer in others) == 4


def test_an_answer_never_shortens_a_rest(conn: psycopg.Connection, clock: Any, a_key: A) -> None:
    a_key(conn)
    account = reserve(conn).account_id
    assert steering.rest_account(conn, account, 60.0, "long")
    assert not steering.rest_account(conn, account, 10.0, "short")
    assert steering.rest_service(conn, "registry", 60.0, "long")
    assert not steering.rest_service(conn, "registry", 10.0, "short")
    rests = "SELECT a.rest_until::int, a.rest_cause, extract(epoch FROM s.rest_until)::int, s.rest_cause"
    until = round(clock.at + 60.0)
    found = conn.execute(f"{rests} FROM account a, service s").fetchall()
    assert found == [(pytest.approx(until, abs=1), "long", pytest.approx(until, abs=1), "long")]
    assert steering.rest_account(conn, account, 61.0, "longer")
    assert steering.rest_service(conn, "registry", 61.0, "longer")


@pytest.mark.parametrize("seconds", [1e30, float("inf"), float("nan")])
def test_a_rest_without_end_is_a_long_one(
    conn: psycopg.Connection, clock: Any, a_key: A, seconds: float
) -> None:
    a_key(conn)
    assert steering.rest_account(conn, reserve(conn).account_id, seconds, "retry-after")
    assert reserve(conn).wait_seconds == pytest.approx(366 * 86400.0)
    assert steering.rest_service(conn, "registry", seconds, "retry-after")
    answer = ledger.reserve(conn, "registry", None, 1, 0.0)
    assert isinstance(answer, Resting)
    assert answer.seconds == pytest.approx(366 * 86400.0)
    assert answer.cause == "retry-after"


CHARGED = """
SELECT until, used, holder FROM allowance UNION ALL SELECT ARRAY[load_until, seen], NULL, NULL FROM account
"""


def test_while_the_service_rests_nobody_reserves_and_nothing_is_charged(
    dsn: str, connect: Callable[[], psycopg.Connection], a_key: A
) -> None:
    """A worker that has heard nothing yet asks; another one was told a moment ago."""
    told, asker = connect(), connect()
    for _ in range(2):
        a_key(told, "10/s", "3 at once")
    assert len(reserve(asker).in_seconds) == 1
    before = asker.execute(CHARGED).fetchall()
    assert steering.rest_service(told, "registry", 30.0, "rate page")
    answer = ledger.reserve(asker, "registry", None, 1, 0.2)
    assert isinstance(answer, Resting)
    assert (20.0 < answer.seconds <= 30.0, answer.cause) == (True, "rate page")
    assert asker.execute(CHARGED).fetchall() == before
    assert ledger.reserve(asker, "registry", "another", 1, 0.2) == NoKey()
    assert circuits.end_rest(told, "registry")
    assert len(reserve(asker).in_seconds) == 1


def test_while_the_service_does_not_answer_only_a_probe_reserves(
    conn: psycopg.Connection, clock: Any, a_key: A
) -> None:
    a_key(conn, "10/s")
    conn.execute(
        "UPDATE service SET opened_at = now(), rest_cause = '503', rest_until = now() + interval '1 s'"
    )
    answer = ledger.reserve(conn, "registry", None, 1, 0.0)
    assert isinstance(answer, Resting)
    assert answer.seconds == pytest.approx(1.0)
    clock.advance(1.5)
    assert ledger.reserve(conn, "registry", None, 1, 0.0) == Resting(math.inf, "503")
    probe = ledger.reserve(conn, "registry", None, 1, 0.0, probes=True)
    assert isinstance(probe, Reservation)
    assert len(probe.in_seconds) == 1
    assert steering.rest_service(conn, "registry", 30.0, "rate page")
    assert isinstance(ledger.reserve(conn, "registry", None, 1, 0.0, probes=True), Resting)


def test_the_log_of_a_large_limit_stays_short(conn: psycopg.Connection, clock: Any, a_key: A) -> None:
    a_key(conn, "5000/m")
    for _ in range(500):
        assert len(reserve(conn, 16).in_seconds) in {0, 8, 16}
        clock.advance(0.15)
    row = conn.execute(
        "SELECT cardinality(until), (SELECT sum(u) FROM unnest(used) u) FROM allowance"
    ).fetchone()
    assert row
    assert row[0] <= 102
    assert 4900 <= row[1] <= 5000


def test_somebody_at_the_account_is_busy_and_not_without_a_key(
    dsn: str, connect: Callable[[], psycopg.Connection], a_key: A
) -> None:
    one, other = connect(), connect()
    other.execute("SET lock_timeout = '2s'")
    for _ in range(2):
        a_key(one, "10/s", account="shared")
    with one.transaction():
        reserve(one)
        assert ledger.reserve(other, "registry", None, 1, 0.0) == Busy()
    assert len(reserve(other).in_seconds) == 1
