"""One call of a job: which key it uses, what its answer does to key and service, what is kept and logged."""

from __future__ import annotations

import base64
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any
from uuid import uuid4

import psycopg
import pytest

from services.extraction import Answer, CallFailed, Get
from services.service import Service
from services.verdicts import KeyInvalid
from store import answers, claims, keys, workers
from store.answers import KeptAnswer
from store.vault import Vault
from store.workers import Identity
from worker import http
from worker.calling import Caller
from worker.connections import Connections
from worker.http import Http
from worker.permits import Permits
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
        yield Caller(a_service(), serve(register.answer), Http(4), permits, writer, borrowed)


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
    """It comes after the claim has looked, while this holder waits for its permit; a look may also fail."""
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
    work.claim = replace(work.claim, claim_no=2, losses=1)
    assert caller.ask(work, CALL, 1, _no_event).body == b"late"
    assert (len(tries), register.asked_by) == (2, [])


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
    used = db.execute("SELECT count(*) FROM allowance WHERE cardinality(at) > 0").fetchone()
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

    def reject(conn: psycopg.Connection, key_id: int, message: str) -> bool:
        tries.append(key_id)
        if len(tries) == 1:
            raise psycopg.OperationalError("gone")
        return real(conn, key_id, message)

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
        case _:
            getattr(work, why).set()
    with pytest.raises((ClaimLost, PutBack, OutOfTime)):
        ask()
    assert register.asked_by == []
    assert db.execute("SELECT cardinality(used) FROM allowance").fetchone() == (0,)  # nor a permit
