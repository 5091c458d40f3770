from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.limits import Account, Limit, Ruling, Window, parse_limit


@pytest.mark.parametrize(
    ("text", "amount", "window", "window_seconds"),
    [
        ("10/s", 10, "s", 1),
        ("5/10s", 5, "10s", 10),
        ("60/m", 60, "m", 60),
        ("600/5m", 600, "5m", 300),
        ("100 / h", 100, "h", 3600),
        ("2000/day", 2000, "day", 86400),
        ("2000/d", 2000, "d", 86400),
    ],
)
def test_a_limit_is_read_as_people_write_it(text: str, amount: int, window: str, window_seconds: int) -> None:
    assert parse_limit(text) == Limit(amount, window, window_seconds)


@pytest.mark.parametrize("text", ["", "10", "0/s", "10/0s", "ten/s", "10/week", "-1/s"])
def test_what_is_no_limit_is_refused_with_examples(text: str) -> None:
    with pytest.raises(ValueError, match="600/5m"):
        parse_limit(text)


_TIMES = st.lists(st.floats(0, 30, allow_nan=False).map(lambda at: round(at, 2)), max_size=80).map(sorted)
_LIMITS = st.lists(
    st.builds(lambda n, s: parse_limit(f"{n}/{s}s"), st.integers(1, 6), st.integers(1, 9)),
    min_size=1,
    max_size=3,
)


def _naive(times: list[float], limits: list[Limit]) -> list[Ruling]:
    """By the book: every window that ends at the arrival is counted from the start."""
    counted: list[float] = []
    rulings = []
    for at in times:
        full = any(
            sum(at - limit.window_seconds < earlier <= at for earlier in counted) >= limit.amount
            for limit in limits
        )
        rulings.append(Ruling.OVER_LIMIT if full else Ruling.WITHIN)
        if not full:
            counted.append(at)
    return rulings


@given(_TIMES, _LIMITS)
def test_rulings_equal_a_naive_count(times: list[float], limits: list[Limit]) -> None:
    account = Account("a", tuple(limits))
    assert [account.arrive(at) for at in times] == _naive(times, limits)


@given(_TIMES, _LIMITS)
def test_the_busiest_window_counts_every_arrival(times: list[float], limits: list[Limit]) -> None:
    account = Account("a", tuple(limits))
    for at in times:
        account.arrive(at)
    for window in account.windows:
        span = window.limit.window_seconds
        most = max((sum(at - span < t <= at for t in times) for at in times), default=0)
        assert window.busiest == most


@given(_TIMES.flatmap(st.permutations))
def test_arrivals_that_reach_the_lock_out_of_order_are_kept_in_order(times: list[float]) -> None:
    window = Window(parse_limit("1000/h"))
    for at in times:
        window.count(at)
    assert list(window.counted) == sorted(times)


def test_a_window_is_half_open() -> None:
    account = Account("a", (parse_limit("1/10s"),))
    assert [account.arrive(at) for at in (0.0, 9.999, 10.0)] == [
        Ruling.WITHIN,
        Ruling.OVER_LIMIT,
        Ruling.WITHIN,
    ]


def test_over_limit_arrivals_do_not_extend_the_window() -> None:
    account = Account("a", (parse_limit("1/10s"),))
    account.arrive(0.0)
    assert all(account.arrive(at) is Ruling.OVER_LIMIT for at in (1.0, 5.0, 9.0))
    assert account.arrive(10.5) is Ruling.WITHIN


def test_a_block_holds_for_its_time_and_is_counted_apart() -> None:
    account = Account("a", (parse_limit("1/s"),), block_seconds=60)
    rulings = [account.arrive(at) for at in (0.0, 0.5, 2.0, 60.4, 60.5)]
    assert rulings == [
        Ruling.WITHIN,
        Ruling.OVER_LIMIT,
        Ruling.WHILE_BLOCKED,
        Ruling.WHILE_BLOCKED,
        Ruling.WITHIN,
    ]


def test_the_tightest_window_is_told() -> None:
    account = Account("a", (parse_limit("5/s"), parse_limit("3/m")))
    account.arrive(100.0)
    assert str(account.tightest.limit) == "3/m"
    assert account.tightest.remaining == 2
    assert account.tightest.frees_at == 160.0
