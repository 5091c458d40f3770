"""Another secret for a key, and several keys at once: what goes in is seen nowhere again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from flask.testing import FlaskClient

from store import key_tests, keys
from store.keys import KeySeen
from store.vault import fingerprint

A = Callable[..., int]
Post = Callable[..., Any]
Notices = Callable[[FlaskClient, Any], str]

SECRET = "5d2c8a41-not-to-be-seen-9f03"
OTHER = "77aa02be-not-to-be-seen-1c4d"


def key_of(web: psycopg.Connection) -> KeySeen:
    (key,) = keys.see(web)
    return key


@pytest.mark.parametrize("state", ["active", "invalid", "exhausted", "disabled"])
def test_a_new_secret_takes_the_key_into_use_and_is_tested(
    web: psycopg.Connection, operator: FlaskClient, a_key: A, post: Post, notices: Notices, state: str
) -> None:
    key_id = a_key("CH main", state=state, last_error=None if state == "active" else "no")
    said = notices(operator, post(operator, f"/keys/{key_id}/rotate", secret=f" {SECRET} "))
    key = key_of(web)
    assert (key.state, key.last_error, key.fingerprint) == ("active", None, fingerprint(SECRET))
    assert f"Fingerprint …{key.fingerprint[-4:]}" in said
    assert key_tests.last(web)[key_id].status == "pending"


def test_a_secret_that_is_replaced_is_seen_nowhere_and_opened_by_nobody(
    web: psycopg.Connection,
    operator: FlaskClient,
    a_key: A,
    post: Post,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(*_: object) -> str:
        raise AssertionError("the web opened a secret")

    monkeypatch.setattr("store.vault.Vault.open", refuse)
    caplog.set_level(logging.DEBUG)
    path = f"/keys/{a_key('CH main')}/rotate"
    a_key("CH-other")
    assert post(operator, path, secret=SECRET).status_code == 303
    refusals = {SECRET: "has this secret already", "CH-other": "of the same service has", "": "is empty"}
    for secret, words in refusals.items():
        refused = post(operator, path, secret=secret)
        assert refused.status_code == 422
        assert words in refused.text
        assert SECRET not in refused.text
    assert post(operator, "/keys/99/rotate", secret=SECRET).status_code == 404
    seen = [operator.get(one).text for one in (path, "/keys", "/keys/1")]
    rows = web.execute("SELECT k::text FROM key k").fetchall()
    assert not any(SECRET in text for text in (*seen, caplog.text, str(rows)))


def test_several_keys_are_pasted_and_each_is_tested(
    web: psycopg.Connection, operator: FlaskClient, post: Post, notices: Notices
) -> None:
    form = {"service": "companies_house", "lines": f"CH 1, {SECRET}\n\nCH 2\t{OTHER}\n", "limits": "10/s"}
    said = notices(operator, post(operator, "/keys/several", **form, key_set="night"))
    assert said.startswith("Saved 2 keys; a worker will test each.")
    found = keys.see(web)
    assert [(one.label, one.account, one.key_set, str(one.limits[0])) for one in found] == [
        ("CH 1", "CH 1", "night", "10/s"),
        ("CH 2", "CH 2", "night", "10/s"),
    ]
    assert {one.fingerprint for one in found} == {fingerprint(SECRET), fingerprint(OTHER)}
    assert set(key_tests.last(web)) == {one.id for one in found}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lines": f"CH 1, {SECRET}\n{OTHER}"}, "Line 2 has no comma or tab"),
        ({"lines": f"CH 1, {SECRET}\nCH main, {OTHER}"}, "This label is taken"),
        ({"lines": f"CH 1, {SECRET}", "limits": "many"}, "is not a limit"),
        ({"lines": f"CH 1, {SECRET}", "account": "CH main"}, "its keys share them"),
        ({"lines": f"CH 1, {SECRET}", "service": "nobody"}, "Not a valid choice"),
        ({"lines": ""}, "Give a key per line"),
    ],
)
def test_of_several_keys_all_are_added_or_none_and_no_secret_comes_back(
    web: psycopg.Connection, operator: FlaskClient, a_key: A, post: Post, change: dict[str, str], words: str
) -> None:
    a_key("CH main")
    form = {"service": "companies_house", "limits": "10/s", **change}
    refused = post(operator, "/keys/several", **form)
    assert refused.status_code == 422
    assert words in refused.text
    assert SECRET not in refused.text
    assert OTHER not in refused.text
    assert [one.label for one in keys.see(web)] == ["CH main"]


def test_where_limits_hold_for_all_keys_several_new_ones_share_them(
    web: psycopg.Connection, operator: FlaskClient, post: Post
) -> None:
    lines = "\n".join(f"us {n}, Hale Ltd data{n}@example.com" for n in (1, 2))
    assert post(operator, "/keys/several", service="sec_edgar", lines=lines).status_code == 303
    assert {one.account for one in keys.see(web)} == {"all keys"}


def test_a_viewer_may_not(web: psycopg.Connection, viewer: FlaskClient, a_key: A, post: Post) -> None:
    path = f"/keys/{a_key('CH main')}"
    assert "/rotate" not in viewer.get(path).text
    for one in (f"{path}/rotate", "/keys/several"):
        assert viewer.get(one).status_code == 403
        assert post(viewer, one, secret=SECRET, lines=f"a, {SECRET}").status_code == 403
    assert key_of(web).fingerprint != fingerprint(SECRET)
