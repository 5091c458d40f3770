"""One call of a job: which key it uses, what its answer does to key and service, what is kept and logged."""

from __future__ import annotations

import base64
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from services.extraction import Answer, CallFailed, Get
from services.service import Service
from services.verdicts import KeyInvalid
from store import answers, claims, keys, steering, workers
from store.answers import KeptAnswer
from store.vault import Vault
from store.workers import Identity
from worker import http
from worker.calling import Caller
from worker.connections import Connections
from worker.http import Http
from worker.permits import Permits
from worker.reading import Files
from worker.work import ClaimLost, OutOfTime, PutBack, Work
from worker.writer import Writer

CALL = Get("/company/7", (("q", "1"),))
Ask = Callable[..., Answer]


class Register:
    """The far side: answers by key; `said` maps a secret to (status, words, headers)."""

    def __init__(self, send: Callable[..., None]) -> None:
        self.said: dict[str, tuple[int, str, dict[str, str]]] = {}
        self.asked_by: list[str] = []
        self._send = send

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        shown = handler.headers["Authorization"].removeprefix("Basic ")
        secret = base64.b64decode(shown).decode()
        self.asked_by.append(secret)
        status, words, headers = self.said.get(secret, (200, "Seven Ltd", {}))
        self._send(handler, status, words.encode("utf-8", "surrogateescape"), **headers)


@pytest.fixture
def register(send: Callable[..., None]) -> Register:
    return Register(send)


@pytest.fixture
def work(db: psycopg.Connection, a_list: Callable[..., int]) -> Work:
    """A job that this test holds."""
    a_list(db, 1)
    who = Identity(uuid4(), "test", "test", 1, "0", None, ["registry"], 1)
    workers.register(db, who, 30.0)
    return Work.begin(_claimed(db, who), {}, lambda: True, threading.Event())


def _claimed(db: psycopg.Connection, who: Identity) -> claims.Claim:
    db.execute("INSERT INTO service (name) VALUES ('registry') ON CONFLICT DO NOTHING")
    row = db.execute(
        """UPDATE job SET status = 'in_progress', worker = %s, claim_no = 1, claimed_at = now(),
           run_until = now() + interval '1 hour' RETURNING id, list_id""",
        (who.id,),
    ).fetchone()
    assert row is not None
    return claims.Claim(
        row[0], who.id, 1, row[1], "7", None, {}, 0, 0, 0, "registry", {}, ["name"], [], 5, 20, 20
    )


@pytest.fixture
def caller(
    dsn: str,
    vault: Vault,
    register: Register,
    serve: Callable[..., str],
    a_service: Callable[..., Service],
    borrow: Callable[[str], Connections],
    alongside: Callable[..., AbstractContextManager[threading.Thread]],
) -> Iterator[Caller]:
    borrowed = borrow(dsn)
    writer, permits = Writer(borrowed), Permits("registry", None, borrowed, vault)
    with ExitStack() as running:
        running.enter_context(alongside(lambda: writer.run(lambda _settlement, _won: None), writer.stop))
        running.enter_context(alongside(permits.run, permits.stop))
        yield Caller(a_service(), serve(register.answer), Http(4), permits, writer, borrowed, Files(None))


@pytest.fixture
def ask(caller: Caller, work: Work) -> Ask:
    """`ask()`: the answer, when it is stored."""

    def call(what: Get = CALL, occurrence: int = 1) -> Answer:
        kept: list[threading.Event] = []
        answer = caller.ask(work, what, occurrence, kept.append)
        assert all(event.wait(5) for event in kept)
        return answer

    return call


def _states(db: psycopg.Connection) -> dict[str, str]:
    return {key.label: key.state for key in keys.see(db)}


def _log(db: psycopg.Connection, until: Callable[..., None], size: int) -> list[tuple[Any, ...]]:
    def rows() -> list[tuple[Any, ...]]:
        return db.execute("SELECT verdict, status, message, key_id FROM call ORDER BY id").fetchall()

    until(lambda: len(rows()) == size)
    return rows()


def test_an_answer_is_handed_on_kept_and_logged(
    db: psycopg.Connection, a_key: Callable[..., int], ask: Ask, work: Work, until: Callable[..., None]
) -> None:
    key = a_key(db)
    answer = ask()
    assert (answer.status, answer.body) == (200, b"Seven Ltd")
    assert "content-length" not in answer.headers
    assert db.execute("SELECT job_id, request, occurrence, status FROM answer").fetchall() == [
        (work.claim.id, "/company/7?q=1", 1, 200)
    ]
    assert _log(db, until, 1) == [("usable", 200, None, key)]


@pytest.mark.parametrize(("says", "counted"), [("250", 250), ("1400", 1400), ("", 600), ("600", 600)])
def test_tokens_are_counted_as_the_answer_says_where_it_does(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    caller: Caller,
    work: Work,
    register: Register,
    says: str,
    counted: int,
) -> None:
    """A made-up service whose answer is the number of tokens that it has cost."""
    a_key(db, "1000 tokens/m", secret="s")
    register.said["s"] = (200, says, {})
    service = replace(caller.service, tokens_of=lambda answer: int(answer.body) if answer.body else None)
    replace(caller, service=service).ask(work, replace(CALL, tokens=600), 1, _stored)
    assert keys.see(db)[0].used == [counted]


def test_an_answer_that_is_misread_for_its_tokens_is_kept_all_the_same(
    db: psycopg.Connection, a_key: Callable[..., int], caller: Caller, work: Work
) -> None:
    a_key(db, "1000 tokens/m")
    service = replace(caller.service, tokens_of=lambda answer: int(answer.body))
    answer = replace(caller, service=service).ask(work, replace(CALL, tokens=600), 1, _stored)
    assert answer.body == b"Seven Ltd"
    assert keys.see(db)[0].used == [600]


def test_a_call_that_has_ended_takes_no_slot_whatever_came(
    db: psycopg.Connection, a_key: Callable[..., int], caller: Caller, work: Work, register: Register
) -> None:
    a_key(db, "1 at once", secret="s")
    for status in (200, 500, 200):
        register.said["s"] = (status, "x", {})
        with suppress(CallFailed):
            caller.ask(work, CALL, 1, _stored)
    assert register.asked_by == ["s"] * 3


def test_a_kept_answer_costs_no_call_and_no_permit(work: Work, caller: Caller, register: Register) -> None:
    """There is not even a key."""
    work.stored[CALL.fingerprint, 1] = (404, {"etag": "x"}, b"kept")
    answer = caller.ask(work, CALL, 1, _no_event)
    assert (answer, register.asked_by) == (Answer(404, b"kept", {"etag": "x"}), [])
    with pytest.raises(PutBack, match="no_key"):
        caller.ask(work, CALL, 2, _no_event)


def test_an_answer_that_a_lost_holder_stores_late_is_not_paid_again(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    caller: Caller,
    work: Work,
    register: Register,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It comes after the claim has looked, while this holder waits for its permit; a look may also fail.

    Whoever held the job in between has put it back, so that it no longer counts as lost.
    """
    a_key(db)
    late = KeptAnswer(work.claim.id, CALL.fingerprint, 1, "registry", "/company/7", 200, {}, b"late")
    claims.settle(db, [], answers=[late])
    real, tries = answers.of_request, []

    def of_request(*arguments: Any) -> Any:
        tries.append(arguments)
        if len(tries) == 1:
            raise psycopg.OperationalError("gone")
        return real(*arguments)

    monkeypatch.setattr(answers, "of_request", of_request)
    work.claim = replace(work.claim, claim_no=3, losses=0)
    assert caller.ask(work, CALL, 1, _no_event).body == b"late"
    assert (len(tries), register.asked_by) == (2, [])


def _stored(event: threading.Event) -> None:
    assert event.wait(5)


def _no_event(event: threading.Event) -> None:
    raise AssertionError("nothing was to be stored")


def test_a_rate_limit_rests_the_key_and_the_call_goes_on_with_another(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    ask: Ask,
    register: Register,
    until: Callable[..., None],
) -> None:
    a_key(db, label="one", secret="first-secret")
    a_key(db, label="two", secret="second-secret")
    register.said["first-secret"] = (429, "slow down", {"Retry_After": "50"})
    register.said["second-secret"] = (429, "slow down", {"Retry_After": "40"})
    with pytest.raises(PutBack, match="rate_limited"):
        ask()
    assert _states(db) == {"one": "resting", "two": "resting"}
    rests = {key.label: key.rest_seconds for key in keys.see(db)}
    assert 48 < rests["one"] <= 55  # a floor, with a tenth of jitter on top
    assert 38 < rests["two"] <= 44
    a_key(db, label="three", secret="third-secret")
    assert ask().body == b"Seven Ltd"
    assert [row[0] for row in _log(db, until, 3)] == ["key_rests", "key_rests", "usable"]
    assert sorted(register.asked_by[:2]) == ["first-secret", "second-secret"]


def test_a_service_that_asks_for_no_time_at_all_gets_some(
    db: psycopg.Connection, a_key: Callable[..., int], ask: Ask, register: Register
) -> None:
    a_key(db, label="one", secret="first-secret")
    register.said["first-secret"] = (429, "", {"Retry_After": "0"})
    work_is_over = threading.Timer(0.5, register.said.clear)
    work_is_over.start()
    assert ask().body == b"Seven Ltd"
    assert len(register.asked_by) == 2


@pytest.mark.parametrize(
    ("status", "state", "verdict"), [(401, "invalid", "key_invalid"), (402, "exhausted", "key_exhausted")]
)
def test_a_key_that_is_refused_is_out_of_use_for_all_and_the_others_go_on(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    ask: Ask,
    register: Register,
    until: Callable[..., None],
    status: int,
    state: str,
    verdict: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad = a_key(db, label="bad", secret="bad-secret", account="shared")
    a_key(db, label="good", secret="good-secret")
    db.execute("UPDATE account SET load_until = 1e12 WHERE name <> 'shared'")  # the bad one is first in turn
    register.said["bad-secret"] = (status, "no such key: bad-secret", {})
    assert ask().body == b"Seven Ltd"
    assert _states(db) == {"bad": state, "good": "active"}
    assert db.execute("SELECT last_error FROM key WHERE id = %s", (bad,)).fetchone() == (
        "no such key: [key]",
    )
    assert [row[:3] for row in _log(db, until, 2)] == [
        (verdict, status, "no such key: [key]"),
        ("usable", 200, None),
    ]
    assert "bad-secret" not in caplog.text


def test_without_a_usable_key_the_job_goes_back(
    db: psycopg.Connection, a_key: Callable[..., int], ask: Ask, register: Register
) -> None:
    a_key(db, secret="bad-secret")
    register.said["bad-secret"] = (401, "", {})
    with pytest.raises(PutBack) as reason:
        ask()
    assert (reason.value.cause, len(register.asked_by)) == ("no_key", 1)


def test_a_pause_for_all_rests_the_service_and_not_the_key(
    db: psycopg.Connection, a_key: Callable[..., int], ask: Ask, register: Register
) -> None:
    a_key(db, label="one", secret="first-secret")
    register.said["first-secret"] = (403, "all of you with first-secret", {})
    with pytest.raises(PutBack) as reason:
        ask()
    assert (reason.value.cause, reason.value.message) == ("service_resting", "all of you with [key]")
    row = db.execute(
        "SELECT rest_until > now() + interval '29 seconds', rest_cause FROM service WHERE name = 'registry'"
    ).fetchone()
    assert row == (True, "all of you with [key]")
    assert _states(db) == {"one": "active"}


def test_a_worker_that_has_heard_nothing_of_a_pause_for_all_sends_nothing(
    db: psycopg.Connection, a_key: Callable[..., int], ask: Ask, register: Register
) -> None:
    """Another worker was told; this one does not wait for its next beat to know."""
    a_key(db)
    assert steering.rest_service(db, "registry", 30.0, "all of you")
    with pytest.raises(PutBack) as reason:
        ask()
    assert reason.value.cause == "service_resting"
    assert re.fullmatch("registry rests for (30|29) s: all of you", reason.value.message)
    assert register.asked_by == []


@pytest.mark.parametrize(
    ("status", "cause", "verdict"),
    [(500, "service_error", "service_failed"), (400, "bad_request", "refused")],
)
def test_a_failure_is_the_extractors_to_deal_with_and_harms_no_key(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    ask: Ask,
    register: Register,
    until: Callable[..., None],
    status: int,
    cause: str,
    verdict: str,
) -> None:
    a_key(db, label="one", secret="first-secret")
    register.said["first-secret"] = (status, "no: first-secret", {})
    with pytest.raises(CallFailed) as failure:
        ask()
    assert (failure.value.cause, failure.value.message) == (cause, "no: [key]")
    assert _log(db, until, 1)[0][:3] == (verdict, status, "no: [key]")
    assert _states(db) == {"one": "active"}
    assert db.execute("SELECT count(*) FROM answer").fetchone() == (0,)


def test_no_answer_at_all_is_the_services_fault(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    caller: Caller,
    work: Work,
) -> None:
    a_key(db)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        with pytest.raises(CallFailed) as failure:
            replace(caller, services_url=url).ask(work, CALL, 1, _no_event)
    assert failure.value.cause == "service_unreachable"
    used = db.execute("SELECT count(*) FROM allowance WHERE cardinality(until) > 0").fetchone()
    assert used == (0,)  # nothing was sent, so nothing is paid


def test_an_answer_that_is_too_large_is_the_companys(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    ask: Ask,
    register: Register,
    until: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http, "MAX_BODY_BYTES", 1000)
    a_key(db, secret="first-secret")
    register.said["first-secret"] = (200, "x" * 2000, {})
    with pytest.raises(CallFailed) as failure:
        ask()
    assert failure.value.cause == "too_large"
    assert _log(db, until, 1)[0][:2] == ("refused", None)


@pytest.mark.parametrize("words", ["\ud800\x00 odd", "x" * 5000])
def test_no_words_of_a_service_break_the_log(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    ask: Ask,
    a_service: Callable[..., Service],
    until: Callable[..., None],
    caller: Caller,
    work: Work,
    register: Register,
    words: str,
) -> None:
    a_key(db, secret="first-secret")
    odd = replace(caller.service, judge=lambda *_answer: KeyInvalid(words))
    with pytest.raises(PutBack):
        replace(caller, service=odd).ask(work, CALL, 1, _no_event)
    (row,) = _log(db, until, 1)
    assert row[0] == "key_invalid"
    assert 0 < len(row[2]) <= 300


@pytest.mark.parametrize("echo", ["whole", "as sent", "cut"])
def test_an_echoed_key_is_redacted_however_it_is_shown(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    ask: Ask,
    register: Register,
    until: Callable[..., None],
    echo: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    secret = "11111111-aaaa-4111-8111-222222222222"
    sent = base64.b64encode(secret.encode()).decode()
    a_key(db, label="one", secret=secret)
    words = {
        "whole": f"bad key {secret}!",
        "as sent": f"bad header Basic {sent}!",
        "cut": f"bad {secret[:20]}",
    }
    register.said[secret] = (429, words[echo], {"Retry_After": "60"})
    with pytest.raises(PutBack):
        ask()
    everything = str(_log(db, until, 1)) + str(db.execute("SELECT * FROM account").fetchall()) + caplog.text
    for shown in (secret, sent, secret[:20]):
        assert shown not in everything
    assert "[key]" in everything


def test_a_database_that_is_away_loses_what_was_said_of_a_key_and_nothing_else(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    caller: Caller,
    work: Work,
    register: Register,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    a_key(db, label="bad", secret="bad-secret")
    register.said["bad-secret"] = (401, "", {})
    real, tries = keys.reject, []

    def reject(conn: psycopg.Connection, key_id: int, message: str, mark: str) -> bool:
        tries.append(key_id)
        if len(tries) == 1:
            raise psycopg.OperationalError("gone")
        return real(conn, key_id, message, mark)

    monkeypatch.setattr(keys, "reject", reject)
    with pytest.raises(PutBack, match="no_key"):
        caller.ask(work, CALL, 1, _no_event)
    assert len(register.asked_by) == len(tries) == 2
    assert _states(db) == {"bad": "invalid"}


@pytest.mark.parametrize("why", ["lost", "halt", "late"])
def test_a_job_that_must_not_go_on_makes_no_call(
    db: psycopg.Connection, a_key: Callable[..., int], ask: Ask, work: Work, register: Register, why: str
) -> None:
    a_key(db)
    match why:
        case "late":
            work.deadline = 0.0
        case "lost":
            work.is_lost = True
        case _:
            work.halt.set()
    with pytest.raises((ClaimLost, PutBack, OutOfTime)):
        ask()
    assert register.asked_by == []
    assert db.execute("SELECT cardinality(used) FROM allowance").fetchone() == (0,)  # nor a permit


def test_an_answer_for_all_companies_costs_a_worker_one_call_and_is_kept_once(
    caller: Caller,
    ask: Ask,
    work: Work,
    db: psycopg.Connection,
    a_key: Callable[..., int],
    register: Register,
) -> None:
    a_key(db)
    tickers = Get("/tickers", shared_seconds=60.0)
    assert ask(tickers).body == b"Seven Ltd"
    other = replace(work, claim=replace(work.claim, id=work.claim.id + 1), stored={})
    assert (
        caller.ask(other, tickers, 1, lambda _kept: pytest.fail("nothing new is kept")).body == b"Seven Ltd"
    )
    assert len(register.asked_by) == 1
    assert len(answers.see(db, work.claim.id)) == 1
    assert answers.see(db, other.claim.id) == []


def test_a_test_of_a_key_calls_even_for_what_is_shared(
    caller: Caller,
    ask: Ask,
    work: Work,
    db: psycopg.Connection,
    a_key: Callable[..., int],
    register: Register,
) -> None:
    key = a_key(db)
    tickers = Get("/tickers", shared_seconds=60.0)
    ask(tickers)
    tested = replace(work, claim=replace(work.claim, key_id=key), stored={})
    caller.ask(tested, tickers, 1, lambda _kept: None)
    assert len(register.asked_by) == 2


def _of_another_list(db: psycopg.Connection, a_list: Callable[..., int], body: bytes = b"reused") -> int:
    """A job of another list that was answered a moment ago; returns its id."""
    a_list(db, 1)
    ((job,),) = db.execute("SELECT max(id) FROM job").fetchall()
    kept = KeptAnswer(job, CALL.fingerprint, 1, "registry", "/company/7", 200, {}, body)
    claims.settle(db, [], answers=[kept])
    return int(job)


def test_an_answer_of_another_list_costs_no_call_and_no_permit_and_is_told(
    db: psycopg.Connection,
    a_list: Callable[..., int],
    caller: Caller,
    work: Work,
    register: Register,
    until: Callable[..., None],
) -> None:
    """There is not even a key."""
    job = _of_another_list(db, a_list)
    db.execute("UPDATE list SET reuse_seconds = 3600 WHERE id = %s", (work.claim.list_id,))
    work.claim = replace(work.claim, reuses=True)
    assert caller.ask(work, CALL, 1, _no_event) == Answer(200, b"reused", {})
    assert register.asked_by == []
    assert _log(db, until, 1) == [("reused", 200, f"the answer that job {job} got 0.0 h before", None)]
    assert work.claim.id in answers.of_jobs(db, [work.claim.id])


def test_an_answer_that_cannot_be_looked_for_is_asked_for(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    a_list: Callable[..., int],
    ask: Ask,
    work: Work,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def gone(*_arguments: Any) -> Any:
        raise psycopg.OperationalError("gone")

    a_key(db)
    monkeypatch.setattr(answers, "reuse", gone)
    work.claim = replace(work.claim, reuses=True)
    assert ask().body == b"Seven Ltd"


def test_an_answer_that_is_too_large_to_be_kept_is_handed_on_and_its_call_says_so(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    caller: Caller,
    work: Work,
    register: Register,
    until: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answers, "MAX_KEPT_BYTES", 1_000)
    a_key(db, secret="first-secret")
    register.said["first-secret"] = (200, "x" * 1001, {})
    assert len(caller.ask(work, CALL, 1, _no_event).body) == 1001
    assert _log(db, until, 1)[0][:3] == ("usable", 200, "not kept: larger than 0.001 MB")
    assert db.execute("SELECT count(*) FROM answer").fetchone() == (0,)


def test_a_good_answer_that_nothing_is_left_rests_the_account_before_a_429(
    db: psycopg.Connection, a_key: Callable[..., int], ask: Ask, register: Register
) -> None:
    a_key(db, "600/5m", label="one", secret="first-secret")
    register.said["first-secret"] = (200, "Seven Ltd", {"X_Ratelimit_Remain": "0", "X_Ratelimit_Reset": "90"})
    assert ask().body == b"Seven Ltd"
    (key,) = keys.see(db)
    assert key.state == "resting"
    assert 88 < key.rest_seconds <= 99
    assert key.last_error == "the service says that no calls are left"


def test_a_good_answer_that_less_is_left_than_we_think_lowers_what_we_use(
    db: psycopg.Connection, a_key: Callable[..., int], ask: Ask, register: Register
) -> None:
    """Somebody else uses the same key."""
    a_key(db, "600/5m", label="one", secret="first-secret")
    register.said["first-secret"] = (200, "", {"X_Ratelimit_Remain": "50", "X_Ratelimit_Reset": "200"})
    ask()
    assert keys.see(db)[0].used == [550]
    ask(occurrence=2)
    assert keys.see(db)[0].used == [551]  # the same again is no news


def test_calls_that_fail_open_the_circuit_and_a_job_in_hand_makes_no_more(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    ask: Ask,
    register: Register,
    until: Callable[..., None],
) -> None:
    a_key(db, secret="first-secret")
    register.said["first-secret"] = (500, "down", {})

    def is_stopped() -> bool:
        try:
            ask()
        except CallFailed:
            return False
        except PutBack as reason:
            return reason.cause == "service_resting"
        raise AssertionError("there was an answer")

    until(is_stopped, 5.0)
    row = db.execute("SELECT opened_at IS NOT NULL, rest_cause FROM service").fetchone()
    assert row == (True, "down")
    calls = len(register.asked_by)
    assert is_stopped()
    assert len(register.asked_by) == calls


@pytest.mark.parametrize(("status", "is_open"), [(200, False), (500, True), (429, False)])
def test_the_first_answer_to_a_job_that_tries_closes_the_circuit_or_doubles_its_pause(
    db: psycopg.Connection,
    a_key: Callable[..., int],
    caller: Caller,
    work: Work,
    register: Register,
    status: int,
    is_open: bool,
) -> None:
    a_key(db, secret="first-secret")
    db.execute(
        "UPDATE service SET opened_at = now(), pause_seconds = 2, probe_job = %s, probe_claim_no = 1",
        (work.claim.id,),
    )
    register.said["first-secret"] = (status, "", {})
    probe = Work.begin(replace(work.claim, is_probe=True), {}, lambda: True)
    with suppress(CallFailed, PutBack):
        caller.ask(probe, CALL, 1, lambda _event: None)
    row = db.execute("SELECT opened_at IS NOT NULL, pause_seconds FROM service").fetchone()
    assert row == (is_open, 4.0 if is_open else 0.0)
