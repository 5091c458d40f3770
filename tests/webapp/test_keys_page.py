"""Keys' pages: a secret goes in and is seen nowhere again; an act has a guard, and says when it did not."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from flask import Flask
from flask.testing import FlaskClient
from psycopg import sql

from store import claims, key_tests, keys, ledger
from store.calls import Call
from store.claims import Settlement
from store.keys import KeySeen
from store.states import Outcome, Status

A = Callable[..., int]
Post = Callable[..., Any]
Notices = Callable[[FlaskClient, Any], str]
IsText = Callable[[str], bool]

SECRET = "5d2c8a41-not-to-be-seen-9f03"
NEW = {"service": "companies_house", "label": "CH main", "secret": SECRET}


def key_of(web: psycopg.Connection) -> KeySeen:
    (key,) = keys.see(web)
    return key


def test_a_key_is_added_with_the_usual_limits_and_its_secret_is_seen_nowhere_again(
    web: psycopg.Connection,
    web_app: Flask,
    operator: FlaskClient,
    post: Post,
    notices: Notices,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    answer = post(operator, "/keys/new", **NEW)
    said = notices(operator, answer)
    key = key_of(web)
    assert said.startswith("Saved. This was the last time the secret could be seen.")
    assert f"…{key.fingerprint[-4:]}" in said
    assert (key.label, key.account, [str(limit) for limit in key.limits]) == (
        "CH main",
        "CH main",
        ["600/5m"],
    )
    paths = ("/", "/keys", "/keys/new", f"/keys/{key.id}", f"/keys/{key.id}?calls=errors", "/workers")
    seen = [answer.text, str(answer.headers), said, *(operator.get(path).text for path in paths)]
    for bad in ({"limits": "many"}, {"label": ""}, {"service": "none"}, {"label": "CH main"}):
        refused = post(operator, "/keys/new", **(NEW | bad))
        assert refused.status_code == 422
        seen.append(refused.text)
    seen.append(operator.post("/keys/new", data=NEW).text)
    texts = caplog.text + " ".join(_texts(web))
    assert not any(SECRET in text for text in (*seen, texts))
    assert SECRET[:8] not in texts


def _texts(web: psycopg.Connection) -> list[str]:
    """Every row of every table, as text."""
    tables = web.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )
    found = []
    for (table,) in tables.fetchall():
        found += [
            str(row) for row in web.execute(sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(table)))
        ]
    return found


def test_the_secrets_field_is_never_filled_in(operator: FlaskClient, post: Post) -> None:
    for page in (
        operator.get(f"/keys/new?secret={SECRET}").text,
        post(operator, "/keys/new", **NEW | {"limits": "x"}).text,
    ):
        (tag,) = re.findall(r"<input[^>]*name=\"secret\"[^>]*>", page)
        assert 'type="password"' in tag
        assert 'autocomplete="off"' in tag
        assert 'value=""' in tag or "value" not in tag
        assert SECRET not in page


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"label": " "}, "Give the key a label."),
        ({"label": "x" * 201}, "At most 200 characters."),
        ({"label": "a\x1bb"}, "characters that cannot be printed"),
        ({"secret": ""}, "The secret is empty."),
        ({"secret": "x" * 10_001}, "longer than 10,000"),
        ({"limits": "600 per day"}, "is not a limit"),
        ({"service": "sec_edgar"}, "The SEC wants an email address"),
        ({"service": "nobody"}, "Not a valid choice"),
    ],
)
def test_a_key_that_cannot_be_is_refused_with_the_form(
    web: psycopg.Connection, operator: FlaskClient, post: Post, change: dict[str, str], words: str
) -> None:
    answer = post(operator, "/keys/new", **(NEW | change))
    assert answer.status_code == 422
    assert words in answer.text
    assert keys.see(web) == []


def test_a_label_that_is_taken_and_limits_that_differ_are_refused(
    web: psycopg.Connection, operator: FlaskClient, post: Post
) -> None:
    assert post(operator, "/keys/new", **NEW, account="Hale Ltd").status_code == 303
    again = post(operator, "/keys/new", **NEW | {"secret": "another-secret"})
    assert "This label is taken" in again.text
    same = post(operator, "/keys/new", **NEW | {"label": "other"})
    assert "This secret is there already" in same.text
    more = {"label": "other", "secret": "another-secret", "account": "Hale Ltd"}
    differs = post(operator, "/keys/new", **NEW | more, limits="10/s")
    assert (again.status_code, same.status_code, differs.status_code) == (422, 422, 422)
    assert "its keys share them" in differs.text
    shares = post(operator, "/keys/new", **NEW | more, key_set="night")
    assert shares.status_code == 303
    assert [(key.account, key.key_set) for key in keys.see(web)] == [
        ("Hale Ltd", None),
        ("Hale Ltd", "night"),
    ]


def test_where_limits_hold_for_all_keys_a_new_one_shares_them(
    web: psycopg.Connection, operator: FlaskClient, post: Post
) -> None:
    for n in (1, 2):
        form = {"service": "sec_edgar", "label": f"SEC {n}", "secret": f"Hale Ltd data{n}@example.com"}
        assert post(operator, "/keys/new", **form).status_code == 303
    assert {key.account for key in keys.see(web)} == {"all keys"}


def test_a_key_is_disabled_and_enabled_and_what_did_not_happen_is_said(
    web: psycopg.Connection, operator: FlaskClient, a_key: A, post: Post, notices: Notices
) -> None:
    path = f"/keys/{a_key('CH main')}"
    assert "is in use again" not in notices(operator, post(operator, f"{path}/enable"))
    assert notices(operator, post(operator, f"{path}/disable")).startswith("Disabled.")
    assert key_of(web).state == "disabled"
    assert notices(operator, post(operator, f"{path}/disable")) == (
        "Nothing was changed: “CH main” is disabled."
    )
    assert notices(operator, post(operator, f"{path}/enable")) == "“CH main” is in use again."
    assert key_of(web).state == "active"


def test_an_operator_lets_a_key_rest_shortens_that_and_ends_it(
    web: psycopg.Connection, operator: FlaskClient, a_key: A, post: Post, notices: Notices
) -> None:
    path = f"/keys/{a_key('CH main')}"
    assert "rests for 1 h 00 m" in notices(operator, post(operator, f"{path}/rest", minutes="60"))
    assert 3590 < key_of(web).rest_seconds <= 3600
    assert "rested by operator@example.com" in operator.get(path).text
    post(operator, f"{path}/rest", minutes="5")
    assert 290 < key_of(web).rest_seconds <= 300
    until = (datetime.now(UTC) + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M")
    post(operator, f"{path}/rest", until=until, minutes="")
    assert 7100 < key_of(web).rest_seconds <= 7200
    assert "rests no more" in notices(operator, post(operator, f"{path}/end-rest"))
    assert key_of(web).state == "active"
    assert (
        notices(operator, post(operator, f"{path}/end-rest")) == "Nothing was changed: “CH main” is active."
    )


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"minutes": "0"},
        {"minutes": "many"},
        {"minutes": "999999999"},
        {"minutes": "5", "until": "2999-01-01T00:00"},
        {"until": "2020-01-01T00:00"},
        {"until": "soon"},
    ],
)
def test_a_rest_without_a_time_is_refused_with_the_form(
    web: psycopg.Connection, operator: FlaskClient, a_key: A, post: Post, form: dict[str, str]
) -> None:
    answer = post(operator, f"/keys/{a_key('CH main')}/rest", **form)
    assert answer.status_code == 422
    assert 'class="c-failed"' in answer.text[answer.text.index("<h2>Rest</h2>") :]
    assert key_of(web).state == "active"


def test_a_key_that_is_out_of_use_does_not_rest(
    web: psycopg.Connection, operator: FlaskClient, a_key: A, post: Post, notices: Notices
) -> None:
    key_id = a_key("CH main", state="invalid", last_error="no such key")
    said = notices(operator, post(operator, f"/keys/{key_id}/rest", minutes="5"))
    assert said == "Nothing was changed: “CH main” is rejected."


def test_a_test_is_a_job_that_a_worker_runs_and_the_page_says_what_came_of_it(
    web: psycopg.Connection,
    operator: FlaskClient,
    a_key: A,
    a_worker: Callable[..., UUID],
    post: Post,
    notices: Notices,
    expire: Callable[[], None],
) -> None:
    key_id = a_key("CH main", state="invalid", last_error="no such key")
    path = f"/keys/{key_id}"
    assert "A worker will test" in notices(operator, post(operator, f"{path}/test"))
    page = operator.get(path).text
    assert "A test waits for a worker" in page
    assert "Test now" not in page
    assert "is under way" in notices(operator, post(operator, f"{path}/test"))

    def ends(**how: Any) -> str:
        worker = a_worker()
        (claim,) = claims.claim(web, worker, "companies_house", None, n=9, soon_seconds=2.0).claims
        assert (claim.key_id, claim.company) == (key_id, "00000006")
        claims.settle(web, [Settlement(claim.id, claim.worker, claim.claim_no, **how)])
        expire()
        return re.sub(r"<[^>]+>", "", operator.get(path).text)

    page = ends(status=Status.FAILED, cause="key_invalid", message="Invalid <b>Authorization</b>")
    assert re.search(r"Tested [\d:\- UTC]+, rejected: Invalid &lt;b&gt;", page)
    assert "A worker will test" in notices(operator, post(operator, f"{path}/test"))
    page = ends(status=Status.DONE, outcome=Outcome.COMPLETE, result='{"values": {}}')
    assert re.search(r"Tested [\d:\- UTC]+, ok", page)


def test_a_disabled_key_is_not_tested(
    web: psycopg.Connection, operator: FlaskClient, a_key: A, post: Post, notices: Notices
) -> None:
    key_id = a_key("CH main", state="disabled")
    assert "Test now" not in operator.get(f"/keys/{key_id}").text
    assert "Enable it first." in notices(operator, post(operator, f"/keys/{key_id}/test"))
    assert key_tests.last(web) == {}


def test_no_page_opens_a_secret(
    web: psycopg.Connection, operator: FlaskClient, a_key: A, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> str:
        raise AssertionError("the web opened a secret")

    monkeypatch.setattr("store.vault.Vault.open", refuse)
    key_id = a_key("CH main")
    for act in ("test", "disable", "enable", "end-rest"):
        assert post(operator, f"/keys/{key_id}/{act}").status_code == 303
    assert post(operator, "/keys/new", **NEW | {"label": "two"}).status_code == 303
    assert operator.get("/keys").status_code == 200


def test_limits_and_last_calls_are_shown_and_errors_alone_on_demand(
    web: psycopg.Connection, viewer: FlaskClient, a_key: A
) -> None:
    key_id = a_key("CH main", "10/h")
    ledger.reserve(web, "companies_house", None, 4, 0.1)
    made = [("/good", "usable", 200, None), ("/bad", "key_rests", 429, "Too many requests")]
    log(web, key_id, made)
    page = viewer.get(f"/keys/{key_id}").text
    for words in ("4 of 10 / h", "/good", "/bad", "Too many requests", "key rests"):
        assert words in page
    errors = viewer.get(f"/panels/key_calls?key={key_id}&calls=errors").text
    assert "/bad" in errors
    assert "/good" not in errors


def log(web: psycopg.Connection, key_id: int, made: list[tuple[str, str, int, str | None]]) -> None:
    now = time.monotonic()
    calls = [
        Call(7, 1, uuid4(), key_id, request, verdict, status, message, 1, 2, False, 3, now - 1)
        for request, verdict, status, message in made
    ]
    claims.settle(web, [], calls=calls, now=now)


def test_a_viewer_sees_no_button_and_may_not_act(
    web: psycopg.Connection, viewer: FlaskClient, operator: FlaskClient, a_key: A, post: Post
) -> None:
    path = f"/keys/{a_key('CH main')}"
    assert "Test now" in operator.get(path).text
    for page in (viewer.get(path).text, viewer.get("/keys").text):
        assert "hx-post" not in page
        assert 'method="post"' not in page
        assert "/keys/new" not in page
    assert viewer.get("/keys/new").status_code == 403
    for act in ("test", "disable", "enable", "rest", "end-rest"):
        assert post(viewer, f"{path}/{act}", minutes="5").status_code == 403
        assert operator.post(f"{path}/{act}", data={"minutes": "5"}).status_code == 400
    assert post(viewer, "/keys/new", **NEW).status_code == 403
    assert (key_of(web).state, key_tests.last(web)) == ("active", {})


def test_hostile_text_is_text(
    web: psycopg.Connection, operator: FlaskClient, a_key: A, hostile: str, is_text: IsText
) -> None:
    key_id = a_key(hostile, state="invalid", last_error=hostile, key_set=hostile)
    log(web, key_id, [(hostile, "refused", 400, hostile)])
    for path in ("/keys", f"/keys/{key_id}", "/", "/workers"):
        page = operator.get(path).text
        assert "<script>alert" not in page
    assert is_text(operator.get("/keys").text)
    assert is_text(operator.get(f"/keys/{key_id}").text)


def test_all_keys_ask_as_many_questions_as_one(
    web: psycopg.Connection, viewer: FlaskClient, a_key: A, expire: Callable[[], None], statements: list[str]
) -> None:
    def asked(path: str) -> int:
        expire()
        statements.clear()
        assert viewer.get(path).status_code == 200
        return len(statements)

    key_id = a_key("one")
    asked("/keys")  # what is asked every quarter of a minute at most is known after it
    few = [asked("/keys"), asked(f"/keys/{key_id}")]
    for n in range(20):
        more = a_key(f"key {n}")
        key_tests.order(web, more, "00000006")
    log(web, key_id, [(f"/{n}", "usable", 200, None) for n in range(50)])
    assert [asked("/keys"), asked(f"/keys/{key_id}")] == few


@pytest.mark.parametrize("path", ["/keys/1", f"/keys/{2**31 - 1}", f"/keys/{2**40}", "/keys/x"])
def test_a_key_that_is_not_there_is_not_found(
    web: psycopg.Connection, viewer: FlaskClient, path: str
) -> None:
    assert viewer.get(path).status_code == 404
    for name in ("key", "key_calls"):
        assert "not there any more" in viewer.get(f"/panels/{name}?key=1").text


def _held_back(web: psycopg.Connection, is_open: bool) -> None:
    web.execute(
        "UPDATE service SET rest_until = now() + interval '9 minutes', rest_cause = 'answered <503>',"
        " opened_at = CASE WHEN %s THEN now() END WHERE name = 'companies_house'",
        (is_open,),
    )


@pytest.mark.parametrize("is_open", [True, False])
def test_a_service_that_is_not_called_is_shown_with_its_next_try_where_people_look(
    web: psycopg.Connection,
    viewer: FlaskClient,
    operator: FlaskClient,
    a_key: A,
    a_list: A,
    expire: Callable[[], None],
    is_open: bool,
) -> None:
    a_key("one")
    a_list(3)
    assert "next try" not in viewer.get("/keys").text
    _held_back(web, is_open)
    expire()
    what = "Companies House " + ("does not answer" if is_open else "asked everybody to pause")
    for path in ("/keys", "/", "/panels/needs"):
        page = viewer.get(path).text
        assert what in page
        assert re.search("next try <time", page)
        assert "answered &lt;503&gt;" in page
        assert "/companies_house/try" not in page
    assert "/companies_house/try" in operator.get("/keys").text


def test_an_operator_shortens_the_rest_of_a_service_and_nobody_else_may(
    web: psycopg.Connection,
    viewer: FlaskClient,
    operator: FlaskClient,
    a_key: A,
    post: Post,
    notices: Notices,
) -> None:
    a_key("one")
    _held_back(web, is_open=True)
    path = "/keys/services/companies_house/try"
    assert post(viewer, path).status_code == 403
    assert web.execute("SELECT rest_until > now() FROM service").fetchone() == (True,)
    assert notices(operator, post(operator, path)) == "Companies House is tried now, before its rest is over."
    found = web.execute("SELECT rest_until <= now(), opened_at IS NOT NULL FROM service").fetchone()
    assert found == (True, True)  # one job tries first
    assert "Nothing was changed" in notices(operator, post(operator, path))
    assert post(operator, "/keys/services/none/try").status_code == 404


def test_no_form_offers_a_service_that_is_read_without_a_key(sign_in: Callable[[str], FlaskClient]) -> None:
    administrator = sign_in("administrator")
    for path in ("/keys/new", "/keys/several"):
        page = administrator.get(path).text
        assert "Companies House" in page
        assert "Filings on disk" not in page
