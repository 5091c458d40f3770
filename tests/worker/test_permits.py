"""The line for permits: who is served when, which permits are used, and who is sent away."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from cryptography.fernet import Fernet

from store import ledger, slots
from store.ledger import Busy, NoKey, Reservation, Resting
from store.vault import Vault
from worker import permits as module
from worker.line import Permit
from worker.permits import Permits
from worker.work import ClaimLost, OutOfTime, PutBack, Work

SLACK = 5.0
A_Work = Callable[..., Work]


class Ledger:
    """Stands where `store.ledger.reserve` is: answers by the function `answer(want)` and remembers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, vault: Vault) -> None:
        self.asked: list[int] = []
        self.answer: Callable[[int], Any] = self.grant
        self.without: frozenset[bytes] = frozenset()
        self.secret = vault.seal("secret")
        monkeypatch.setattr(ledger, "reserve", self._reserve)

    def grant(self, want: int, in_seconds: float = 0.0, slack: float = SLACK) -> Reservation:
        return self.reservation((in_seconds,) * want, slack)

    def reservation(
        self, in_seconds: tuple[float, ...], slack: float = SLACK, wait: float = 0.0
    ) -> Reservation:
        return Reservation(3, 4, "one", self.secret, "f", in_seconds, slack, wait, in_seconds)

    def _reserve(
        self,
        _conn: Any,
        _service: str,
        _key_set: Any,
        want: int,
        _ahead: float,
        without: frozenset[bytes],
        _key: int | None,
        **how: Any,
    ) -> Any:
        self.asked.append(want)
        self.without = without
        self.how = how
        answer = self.answer(want)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def book(monkeypatch: pytest.MonkeyPatch, vault: Vault) -> Ledger:
    return Ledger(monkeypatch, vault)


@pytest.fixture
def line(book: Ledger, vault: Vault) -> Permits:
    """A line whose asker does not run by itself: tests call `serve`."""
    nothing: Any = nullcontext()
    return Permits("registry", None, lambda: nothing, vault)


@contextmanager
def _asking(line: Permits) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=line.run)
    thread.start()
    try:
        yield thread
    finally:
        line.stop()
        thread.join(5)
        assert not thread.is_alive()


class Slot(threading.Thread):
    """A slot that takes one permit; `got` is it, or the reason why there is none."""

    def __init__(self, line: Permits, work: Work, tokens: int = 0) -> None:
        super().__init__(daemon=True)
        self.line, self.work, self.tokens, self.got = line, work, tokens, None
        self.start()

    got: Permit | BaseException | None

    def run(self) -> None:
        try:
            self.got = self.line.take(self.work, self.tokens)
        except BaseException as error:  # noqa: BLE001 - for the test to see
            self.got = error


def _standing(line: Permits) -> int:
    return len(line._line)


def test_permits_are_handed_out_in_the_order_of_the_line(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None]
) -> None:
    slots = []
    for number in range(3):
        slots.append(Slot(line, a_work()))
        until(lambda number=number: _standing(line) == number + 1)
    book.answer = lambda _want: book.reservation((0.0, 0.001))
    line.serve()
    until(lambda: slots[0].got and slots[1].got)
    assert (slots[2].got, _standing(line)) == (None, 1)
    line.serve()
    until(lambda: slots[2].got)
    assert all(isinstance(slot.got, Permit) for slot in slots)
    assert book.asked == [3, 1]
    assert line.keys_in_use == {3}


def test_the_ledger_is_asked_only_for_those_in_line(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None]
) -> None:
    line.serve()
    assert book.asked == []
    with _asking(line):
        for _ in range(3):
            assert isinstance(line.take(a_work()), Permit)
    assert book.asked == [1, 1, 1]


def test_a_large_line_is_served_in_blocks(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None]
) -> None:
    slots = [Slot(line, a_work()) for _ in range(20)]
    until(lambda: _standing(line) == 20)
    line.serve()
    line.serve()
    until(lambda: all(slot.got for slot in slots))
    assert book.asked == [16, 4]


def test_a_line_that_empties_while_the_asker_comes_is_no_accident(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None]
) -> None:
    """All slots are halted at the moment the ledger is asked: nobody takes what it hands out."""
    work = a_work()

    def leave(want: int) -> Reservation:
        work.halt.set()
        until(lambda: _standing(line) == 0)
        return book.grant(want)

    book.answer = leave
    slot = Slot(line, work)
    until(lambda: _standing(line) == 1)
    line.serve()
    until(lambda: slot.got)
    assert isinstance(slot.got, PutBack)
    line.serve()
    assert book.asked == [1]
    book.answer = book.grant
    with _asking(line):
        assert isinstance(line.take(a_work()), Permit)


def test_a_permit_is_used_from_its_moment_on(book: Ledger, line: Permits, a_work: A_Work) -> None:
    book.answer = lambda want: book.grant(want, in_seconds=0.15)
    with _asking(line):
        asked_at = time.monotonic()
        permit = line.take(a_work())
        assert time.monotonic() >= permit.not_before >= asked_at + 0.15


def test_a_permit_past_its_time_is_dropped_and_another_taken(
    book: Ledger, line: Permits, a_work: A_Work
) -> None:
    answers = [book.grant(1, slack=-1.0), book.grant(1, slack=-1.0), book.grant(1)]
    book.answer = lambda _want: answers.pop(0)
    with _asking(line):
        permit = line.take(a_work())
    assert time.monotonic() <= permit.use_by
    assert len(book.asked) == 3


def test_both_bounds_of_a_permit_take_the_safe_side_of_the_round_trip(
    book: Ledger, line: Permits, a_work: A_Work
) -> None:
    """The database's clock was read somewhere between asking and answering."""
    moments = []

    def slow(want: int) -> Reservation:
        moments.append(time.monotonic())
        time.sleep(0.1)
        moments.append(time.monotonic())
        return book.grant(want, in_seconds=0.05)

    book.answer = slow
    with _asking(line):
        permit = line.take(a_work())
    sent, answered = moments
    assert permit.not_before >= answered + 0.05
    assert permit.use_by <= sent + 0.05 + SLACK


@pytest.mark.parametrize(
    ("answer", "cause"),
    [
        (NoKey(), "no_key"),
        (Resting(30.0, "rate page of registry"), "service_resting"),
        (Resting(math.inf, "503"), "service_resting"),
        (Reservation(3, 4, "one", b"", "f", (), SLACK, 30.0), "rate_limited"),
    ],
)
def test_who_would_wait_long_is_put_back_with_the_reason(
    book: Ledger,
    vault: Vault,
    line: Permits,
    a_work: A_Work,
    until: Callable[..., None],
    answer: Any,
    cause: str,
) -> None:
    if isinstance(answer, Reservation):
        answer = book.reservation((), wait=30.0)
    book.answer = lambda _want: answer
    slots = [Slot(line, a_work()) for _ in range(3)]
    with _asking(line):
        until(lambda: all(slot.got for slot in slots))
    for slot in slots:
        assert isinstance(slot.got, PutBack)
        assert slot.got.cause == cause
        assert "registry" in slot.got.message or "30 s" in slot.got.message


def test_who_would_wait_a_little_waits_in_line(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None]
) -> None:
    answers: list[Any] = [book.reservation((), wait=0.25), Busy(), Busy(), book.grant(1)]
    book.answer = lambda _want: answers.pop(0)
    began = time.monotonic()
    with _asking(line):
        assert isinstance(line.take(a_work()), Permit)
    assert 0.14 < time.monotonic() - began < 1.0


def test_a_short_rest_of_the_service_is_waited_out_in_line(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None]
) -> None:
    answers: list[Any] = [Resting(0.2, "a probe"), book.grant(1)]
    book.answer = lambda _want: answers.pop(0)
    with _asking(line):
        assert isinstance(line.take(a_work()), Permit)
    assert len(book.asked) == 2


def test_a_probe_asks_before_all_others_and_its_permit_is_nobody_elses(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None]
) -> None:
    book.answer = lambda want: book.grant(want) if book.how["probes"] else Resting(1.0, "503")
    others = [Slot(line, a_work()) for _ in range(2)]
    until(lambda: _standing(line) == 2)
    probe = Slot(line, a_work(is_probe=True))
    until(lambda: _standing(line) == 3)
    line.serve()
    until(lambda: probe.got)
    assert isinstance(probe.got, Permit)
    assert (book.asked, _standing(line)) == ([1], 2)
    leaving = Slot(line, a_work(is_probe=True))
    until(lambda: _standing(line) == 3)

    def leave(want: int) -> Reservation:
        leaving.work.halt.set()
        until(lambda: _standing(line) == 2)
        return book.grant(want)

    book.answer = leave
    line.serve()
    assert (others[0].got, others[1].got, _standing(line)) == (None, None, 2)
    for slot in others:
        slot.work.halt.set()
        until(lambda slot=slot: slot.got)


def test_a_database_that_is_away_is_waited_out(
    book: Ledger, line: Permits, a_work: A_Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LONGEST_NAP_SECONDS", 0.02)
    answers: list[Any] = [psycopg.OperationalError("gone"), psycopg.OperationalError("gone"), book.grant(1)]
    book.answer = lambda _want: answers.pop(0)
    with _asking(line):
        assert isinstance(line.take(a_work()), Permit)
    assert len(book.asked) == 3


@pytest.mark.parametrize("why", ["lost", "halted", "late", "not believed"])
def test_a_slot_that_must_not_call_leaves_the_line(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None], why: str
) -> None:
    believed = True
    work = a_work(is_believed=lambda: believed)
    slot = Slot(line, work)
    until(lambda: _standing(line) == 1)
    match why:
        case "lost":
            work.is_lost = True
        case "halted":
            work.halt.set()
        case "late":
            work.deadline = 0.0
        case _:
            believed = False
    until(lambda: slot.got)
    assert type(slot.got) is {"halted": PutBack, "late": OutOfTime}.get(why, ClaimLost)
    assert _standing(line) == 0


def test_a_slot_that_lost_its_claim_does_not_use_the_permit_it_got(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None]
) -> None:
    book.answer = lambda want: book.grant(want, in_seconds=0.2)
    work = a_work()
    slot = Slot(line, work)
    until(lambda: _standing(line) == 1)
    line.serve()
    work.is_lost = True
    until(lambda: slot.got)
    assert isinstance(slot.got, ClaimLost)


def test_a_halted_slot_does_not_wait_for_the_moment_of_its_permit(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None]
) -> None:
    book.answer = lambda want: book.grant(want, in_seconds=60.0)
    work = a_work()
    slot = Slot(line, work)
    until(lambda: _standing(line) == 1)
    line.serve()
    work.halt.set()
    until(lambda: slot.got, 2.0)
    assert isinstance(slot.got, PutBack)


def test_a_key_that_this_worker_cannot_open_is_left_to_others_and_the_rest_go_on(
    book: Ledger, line: Permits, a_work: A_Work, caplog: pytest.LogCaptureFixture
) -> None:
    foreign = Vault([Fernet.generate_key().decode()]).seal("other secret")
    locked = Reservation(8, 9, "foreign", foreign, "f", (0.0,), SLACK, 0.0, (0.0,))
    answers = [locked, book.grant(1)]
    book.answer = lambda _want: answers.pop(0)
    with _asking(line):
        permit = line.take(a_work())
    assert (permit.key_id, permit.secret) == (3, "secret")
    assert book.without == {foreign}
    assert "key foreign" in caplog.text


def test_the_ledger_hears_what_calls_cost_and_a_permit_goes_to_whom_it_is_enough_for(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None]
) -> None:
    large, small = Slot(line, a_work(), tokens=900), None
    until(lambda: _standing(line) == 1)
    small = Slot(line, a_work(), tokens=20)
    until(lambda: _standing(line) == 2)

    def leave(want: int) -> Reservation:
        large.work.halt.set()
        until(lambda: _standing(line) == 1)
        return book.reservation((0.0,) * want)

    book.answer = leave
    line.serve()
    until(lambda: large.got and small.got)
    assert isinstance(small.got, Permit)
    assert small.got.tokens == 900  # the first one, which the other no longer wants
    assert book.how["tokens"] == [900, 20]
    assert line.usual_tokens > 0


def test_a_small_permit_is_never_used_for_a_large_call(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None]
) -> None:
    small = Slot(line, a_work(), tokens=20)
    until(lambda: _standing(line) == 1)
    others: list[Slot] = []

    def swap(want: int) -> Reservation:
        small.work.halt.set()
        until(lambda: _standing(line) == 0)
        others.append(Slot(line, a_work(), tokens=900))
        until(lambda: _standing(line) == 1)
        return book.reservation((0.0,) * want)

    book.answer = swap
    line.serve()
    assert _standing(line) == 1
    book.answer = book.grant
    line.serve()
    until(lambda: others[0].got)
    assert isinstance(others[0].got, Permit)


def test_the_ledger_hears_how_many_calls_are_under_way_until_they_are_done(
    book: Ledger, line: Permits, a_work: A_Work, monkeypatch: pytest.MonkeyPatch, until: Callable[..., None]
) -> None:
    kept: list[dict[int, int]] = []
    monkeypatch.setattr(
        slots, "keep_slots", lambda _conn, _service, _worker, calling: kept.append(dict(calling))
    )
    monkeypatch.setattr(module, "SLOTS_IDLE_SECONDS", 0.02)
    book.answer = lambda want: replace(book.grant(want), kinds=frozenset({"at_once"}))
    with _asking(line):
        first, second = line.take(a_work()), line.take(a_work())
        assert book.how["calling"] == {4: 1}
        line.done(first)
        until(lambda: kept)
        assert kept == [{4: 1}]
        line.done(second)
        until(lambda: len(kept) == 2)
        assert kept[1] == {}
        line.take(a_work())
        assert book.how["calling"] == {}


@pytest.mark.parametrize("why", ["late", "halted"])
def test_a_permit_that_is_not_used_takes_no_slot(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None], why: str
) -> None:
    slack = -1.0 if why == "late" else SLACK
    slots = replace(book.grant(1, in_seconds=0.3, slack=slack), kinds=frozenset({"at_once"}))
    book.answer = lambda _want: slots
    work = a_work()
    slot = Slot(line, work)
    until(lambda: _standing(line) == 1)
    line.serve()
    assert line._reserver.under_way.by_account() == {4: 1} or why == "late"
    if why == "halted":
        work.halt.set()
    until(lambda: line._reserver.under_way.by_account() == {})
    work.halt.set()
    until(lambda: slot.got)


def test_who_waits_for_a_slot_of_its_own_worker_is_served_when_a_call_has_ended(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None]
) -> None:
    slots = frozenset({"at_once"})
    book.answer = lambda want: replace(book.grant(want), kinds=slots)
    with _asking(line):
        under_way = line.take(a_work())
        book.answer = lambda _want: replace(book.reservation((), wait=math.inf), kinds=slots)
        slot = Slot(line, a_work())
        until(lambda: len(book.asked) == 2)
        book.answer = lambda want: replace(book.grant(want), kinds=slots)
        began = time.monotonic()
        line.done(under_way)
        until(lambda: slot.got)
    assert time.monotonic() - began < 0.5
    assert isinstance(slot.got, Permit)


def test_who_waits_for_a_slot_that_others_hold_is_put_back(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None]
) -> None:
    book.answer = lambda _want: book.reservation((), wait=math.inf)
    slot = Slot(line, a_work())
    with _asking(line):
        until(lambda: slot.got)
    assert isinstance(slot.got, PutBack)
    assert slot.got.message == "every usable key is at its limit"


def test_the_asker_ends_when_it_is_told_to_whatever_it_does(
    book: Ledger, line: Permits, a_work: A_Work, until: Callable[..., None]
) -> None:
    with ExitStack() as stack:
        book.answer = lambda _want: book.reservation((), wait=1.9)
        work = a_work()
        slot = Slot(line, work)
        stack.enter_context(_asking(line))
        until(lambda: book.asked)
        work.halt.set()
        until(lambda: slot.got)
        began = time.monotonic()
    assert time.monotonic() - began < 0.5
