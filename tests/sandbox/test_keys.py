from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from sandbox.keys import BadKeys, Keyring, Unauthorised, fingerprint, parse_key, read_keys


def _basic(user: str) -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:".encode()).decode()}


def test_a_flag_names_service_secret_account_and_limits() -> None:
    key = parse_key("companies_house:secret-1234@acme:600/5m,10/s", 1)
    assert (key.service, key.secret, key.account) == ("companies_house", "secret-1234", "acme")
    assert [str(limit) for limit in key.limits] == ["600/5m", "10/s"]


def test_the_at_sign_of_an_sec_identity_stays_in_it() -> None:
    key = parse_key("sec_edgar:Acme Data ops@acme.example:10/s", 1)
    assert Keyring([key]).find("sec_edgar", {"user-agent": "Acme Data ops@acme.example"}) == key


@pytest.mark.parametrize(
    "text", ["", "x:y:1/s", "companies_house::1/s", "companies_house:s", "sec_edgar:s:often"]
)
def test_a_flag_that_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(BadKeys, match="key 3"):
        parse_key(text, 3)


def test_a_broken_keys_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_text(json.dumps([{"service": "companies_house"}]), encoding="utf-8")
    with pytest.raises(BadKeys, match=r"keys\.json.*secret"):
        read_keys(path)


def test_keys_of_one_account_must_agree_on_its_limits() -> None:
    keys = [parse_key(f"companies_house:secret-{n}@acme:{n}/s", n) for n in (1, 2)]
    with pytest.raises(BadKeys, match="acme"):
        Keyring(keys)


def test_a_missing_key_is_told_from_a_wrong_one() -> None:
    ring = Keyring([parse_key("companies_house:secret-1234:1/s", 1)])
    assert ring.find("companies_house", _basic("secret-1234")).secret == "secret-1234"
    for headers, is_missing in (
        ({}, True),
        (_basic("nobody"), False),
        ({"authorization": "Basic %%"}, False),
    ):
        with pytest.raises(Unauthorised) as refused:
            ring.find("companies_house", headers)
        assert refused.value.is_missing is is_missing


def test_anybody_with_an_address_may_ask_the_sec() -> None:
    ring = Keyring([])
    key = ring.find("sec_edgar", {"user-agent": "Somebody somebody@example.org"})
    assert (key.account, [str(limit) for limit in key.limits]) == ("ip", ["10/s"])
    for agent in ("", "python-requests/2.32", "Mozilla/5.0"):
        with pytest.raises(Unauthorised):
            ring.find("sec_edgar", {"user-agent": agent})


def test_a_fingerprint_shows_at_most_four_characters() -> None:
    assert fingerprint("abcdefgh1234") == "…1234"
    assert fingerprint("abc1234") == "…"
