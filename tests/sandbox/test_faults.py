from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from sandbox.faults import BadFault, Faults

WIDE = ("wide-open-key-1", "")
SEC = {"User-Agent": "Wide Firm ops@wide.example"}
PROFILE = "/company/99000001"


def _set(http: requests.Session, url: str, *rules: dict[str, Any]) -> None:
    assert http.post(f"{url}/sandbox/faults", json=list(rules)).status_code == 200


def test_a_status_fault_goes_away_after_its_count(url: str, http: requests.Session) -> None:
    _set(http, url, {"match": "^/company/", "kind": "status", "status": 502, "seconds": 3, "count": 2})
    first = http.get(url + PROFILE, auth=WIDE)
    assert (first.status_code, first.headers["Retry-After"]) == (502, "3")
    assert http.get(f"{url}/sandbox/faults").json()[0]["count"] == 1
    assert [http.get(url + PROFILE, auth=WIDE).status_code for _ in range(2)] == [502, 200]
    assert http.get(f"{url}/sandbox/faults").json() == []


def test_a_cut_ends_half_way(url: str, http: requests.Session) -> None:
    _set(http, url, {"match": PROFILE, "kind": "cut", "count": 1})
    with pytest.raises(requests.exceptions.ChunkedEncodingError, match="IncompleteRead"):
        http.get(url + PROFILE, auth=WIDE)
    assert http.get(url + PROFILE, auth=WIDE).status_code == 200
    assert http.get(f"{url}/sandbox/stats").json()["repeated"] == 0


def test_garbage_looks_like_success(url: str, http: requests.Session) -> None:
    _set(http, url, {"match": PROFILE, "kind": "garbage", "count": 1})
    answer = http.get(url + PROFILE, auth=WIDE)
    assert answer.status_code == 200
    with pytest.raises(json.JSONDecodeError):
        json.loads(answer.content)
    http.get(url + PROFILE, auth=WIDE)
    assert http.get(f"{url}/sandbox/stats").json()["repeated"] == 0


def test_a_garbled_document_is_none_at_all(url: str, http: requests.Session) -> None:
    history = http.get(f"{url}{PROFILE}/filing-history", auth=WIDE).json()
    link = next(item["links"] for item in history["items"] if "document_metadata" in item.get("links", {}))
    content = urlsplit(link["document_metadata"]).path + "/content"
    _set(http, url, {"match": "^/storage/", "kind": "garbage", "count": 8})
    seen = set()
    for _ in range(8):
        answer = http.get(url + content, auth=WIDE, headers={"Accept": "application/xhtml+xml"})
        assert (answer.status_code, answer.headers["content-type"]) == (200, "application/xhtml+xml")
        assert not answer.content.lstrip().startswith(b"<")
        seen.add(bool(answer.content))
    assert seen == {True, False}


def test_a_slow_answer_arrives_whole_and_counts_as_an_answer(url: str, http: requests.Session) -> None:
    whole = http.get(url + PROFILE, auth=WIDE, headers={"Accept": "a/b"}).content
    _set(http, url, {"match": PROFILE, "kind": "slow", "seconds": 0.3, "count": 1})
    answer = http.get(url + PROFILE, auth=WIDE, stream=True)
    assert answer.elapsed.total_seconds() < 0.25
    assert answer.content == whole
    http.get(url + PROFILE, auth=WIDE)
    assert http.get(f"{url}/sandbox/stats").json()["repeated"] == 1


def test_a_rate_storm_is_not_the_caller_s_fault(url: str, http: requests.Session) -> None:
    _set(http, url, {"match": ".", "kind": "rate_storm"})
    uk = http.get(url + PROFILE, auth=WIDE)
    us = http.get(f"{url}/submissions/CIK0000320193.json", headers=SEC)
    assert (uk.status_code, us.status_code) == (429, 429)
    assert "X-Ratelimit-Reset" in uk.headers
    assert "Request Rate Threshold Exceeded" in us.text
    stats = http.get(f"{url}/sandbox/stats").json()
    assert (stats["over_limit"], stats["keys"]["wide"]["rate_limited"]) == (0, 1)


def test_one_key_can_be_made_invalid_or_exhausted(url: str, http: requests.Session) -> None:
    _set(http, url, {"match": ".", "kind": "key_invalid", "key": "wide", "count": 1})
    _set(http, url, {"match": ".", "kind": "key_exhausted", "key": "wide", "count": 1})
    assert http.get(url + PROFILE, auth=("narrow-key-aaaa", "")).status_code == 200
    assert http.get(url + PROFILE, auth=WIDE).headers["Ch-Authentication-Error"] == "Invalid Authorization"
    exhausted = http.get(url + PROFILE, auth=WIDE)
    assert (exhausted.status_code, exhausted.json()["error"]["code"]) == (429, "insufficient_quota")
    assert http.get(url + PROFILE, auth=WIDE).status_code == 200


def test_the_file_store_can_fail_too(url: str, http: requests.Session) -> None:
    _set(http, url, {"match": ".", "service": "storage", "kind": "status", "status": 500})
    assert http.get(url + PROFILE, auth=WIDE).status_code == 200
    assert http.get(f"{url}/storage/any").status_code == 500
    http.delete(f"{url}/sandbox/faults")
    assert http.get(f"{url}/storage/any").status_code == 403


def test_a_share_is_the_same_for_the_same_seed() -> None:
    def met(seed: int) -> list[bool]:
        faults = Faults(seed)
        faults.add({"match": ".", "kind": "status", "share": 0.3})
        return [faults.pick("sec_edgar", "/x", None) is not None for _ in range(200)]

    assert met(1) == met(1) != met(2)
    assert 30 < sum(met(1)) < 90


@pytest.mark.parametrize(
    "rule",
    [
        {},
        {"match": ".", "kind": "explode"},
        {"match": "(", "kind": "slow"},
        {"match": ".", "kind": "slow", "seconds": "2"},
        {"match": ".", "kind": "status", "status": 200},
        {"match": ".", "kind": "slow", "service": "moon"},
        {"match": ".", "kind": "slow", "when": "now"},
        7,
    ],
)
def test_a_rule_that_says_nothing_clear_is_refused_whole(rule: object) -> None:
    faults = Faults(1)
    with pytest.raises(BadFault):
        faults.add([{"match": ".", "kind": "slow"}, rule])
    assert faults.shown() == []


def test_a_bad_rule_is_told_over_http(url: str, http: requests.Session) -> None:
    for body in (b"{", b'{"match": ".", "kind": "explode"}'):
        answer = http.post(f"{url}/sandbox/faults", data=body)
        assert (answer.status_code, "error" in answer.json()) == (422, True)
