"""Limits, counts and repeats as the sandbox itself reports them."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import requests

WIDE = ("wide-open-key-1", "")
SEC = {"User-Agent": "Wide Firm ops@wide.example"}
TINY = {"User-Agent": "Tiny Firm ops@tiny.example"}
TICKERS = "/submissions/CIK0000320193.json"


def _stats(http: requests.Session, url: str) -> Any:
    return http.get(f"{url}/sandbox/stats").json()


def test_keys_of_one_account_share_its_limit(url: str, http: requests.Session) -> None:
    secrets = ("narrow-key-aaaa", "narrow-key-bbbb", "narrow-key-aaaa", "narrow-key-bbbb")
    answers = [http.get(f"{url}/company/99000001", auth=(secret, "")) for secret in secrets]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert [answer.headers["X-Ratelimit-Remain"] for answer in answers] == ["2", "1", "0", "0"]
    over = answers[-1]
    assert (over.headers["X-Ratelimit-Limit"], over.headers["X-Ratelimit-Window"]) == ("3", "h")
    assert 3590 < int(over.headers["X-Ratelimit-Reset"]) - time.time() <= 3601
    stats = _stats(http, url)
    assert (stats["calls"], stats["over_limit"]) == (4, 1)
    ((at, window_seconds),) = stats["keys"]["b"].pop("over_limit_at")
    assert time.time() - 60 < at <= time.time()
    assert window_seconds == 3600
    assert stats["keys"]["b"] == {
        "service": "companies_house",
        "account": "narrow",
        "secret": "…bbbb",
        "calls": 2,
        "answers": {"200": 1, "429": 1},
        "rate_limited": 1,
        "over_limit": 1,
        "while_blocked": 0,
        "busiest_window": {"3/h": 4},
    }


def test_the_document_host_spells_what_is_left_otherwise(url: str, http: requests.Session) -> None:
    headers = http.get(f"{url}/document/none", auth=WIDE).headers
    assert headers["X-Ratelimit-Remaining"] == "4999"
    assert "X-Ratelimit-Remain" not in headers


def test_a_burst_at_the_sec_blocks_for_a_while(url: str, http: requests.Session) -> None:
    answers = [http.get(url + TICKERS, headers=TINY) for _ in range(5)]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 403, 403]
    assert all("Request Rate Threshold Exceeded" in answer.text for answer in answers[2:])
    stats = _stats(http, url)
    assert (stats["over_limit"], stats["while_blocked"]) == (1, 2)
    assert stats["keys"]["tiny"]["rate_limited"] == 3
    assert http.get(url + TICKERS, headers=SEC).status_code == 200


def test_arrivals_without_a_key_are_no_calls(url: str, http: requests.Session) -> None:
    http.get(f"{url}/company/99000001")
    stats = _stats(http, url)
    assert stats["calls"] == 0
    assert stats["requests"]["companies_house"]["unknown_key"] == 1
    assert stats["requests"]["companies_house"]["answers"] == {"401": 1}


def test_no_secret_is_ever_shown(url: str, http: requests.Session) -> None:
    text = http.get(f"{url}/sandbox/stats").text
    for secret in ("wide-open-key-1", "Wide Firm", "ops@wide.example", "narrow-key"):
        assert secret not in text


def test_the_same_question_again_is_a_repeat_whoever_asks(url: str, http: requests.Session) -> None:
    path = f"{url}/company/99000001/filing-history"
    http.get(path, params={"category": "accounts", "start_index": "0"}, auth=WIDE)
    assert _stats(http, url)["repeated"] == 0
    http.get(path, params={"start_index": "0", "category": "accounts"}, auth=("narrow-key-aaaa", ""))
    http.get(path, auth=WIDE)
    assert _stats(http, url)["repeated"] == 1
    [repeat] = http.get(f"{url}/sandbox/repeats").json()
    assert repeat["request"] == "/company/99000001/filing-history?category=accounts&start_index=0"
    assert repeat["service"] == "companies_house"
    assert repeat["arrived_at"][0] <= repeat["answered_at"][0] <= repeat["arrived_at"][1]


def test_another_accept_is_another_question(url: str, http: requests.Session) -> None:
    for accept in ("application/json", "text/html"):
        http.get(f"{url}/company/99000001", auth=WIDE, headers={"Accept": accept})
    assert _stats(http, url)["repeated"] == 0


def test_a_lasting_no_is_final_and_a_passing_one_is_not(url: str, http: requests.Session) -> None:
    for _ in range(2):
        http.get(f"{url}/company/99000020", auth=WIDE)
        http.get(f"{url}/company/99000001", auth=("wrong", ""))
        http.get(f"{url}/company/99000023", auth=WIDE)
    assert [r["request"] for r in http.get(f"{url}/sandbox/repeats").json()] == ["/company/99000020"]


def test_an_answer_over_the_limit_is_not_final(url: str, http: requests.Session) -> None:
    for number in ("99000001", "99000002", "99000003"):
        http.get(f"{url}/company/{number}", auth=("narrow-key-aaaa", ""))
    for secret in ("narrow-key-aaaa", "wide-open-key-1"):
        http.get(f"{url}/company/99000004", auth=(secret, ""))
    assert _stats(http, url)["repeated"] == 0


def test_a_client_that_is_gone_before_its_answer_has_none(
    start: Callable[..., str], http: requests.Session
) -> None:
    url = start("--latency", "80ms")
    _ask_and_leave(url)
    _until_answered(http, url)
    http.get(url + TICKERS, headers=SEC)
    assert _stats(http, url)["repeated"] == 0


def test_an_answer_that_a_client_leaves_half_way_is_not_final(url: str, http: requests.Session) -> None:
    rule = {"match": "320193", "kind": "slow", "seconds": 0.5, "count": 1}
    http.post(f"{url}/sandbox/faults", json=rule)
    _ask_and_leave(url, wait_for=10)
    _until_answered(http, url)
    http.get(url + TICKERS, headers=SEC)
    assert _stats(http, url)["repeated"] == 0


def _ask_and_leave(url: str, wait_for: int = 0) -> None:
    """Asks, reads so many bytes of the answer at most, and closes."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname or "", parts.port or 0)) as client:
        head = f"GET {TICKERS} HTTP/1.1\r\nUser-Agent: {SEC['User-Agent']}\r\nAccept: */*\r\n\r\n"
        client.sendall(head.encode())
        if wait_for:
            client.recv(wait_for)


def _until_answered(http: requests.Session, url: str) -> None:
    deadline = time.monotonic() + 5
    while not _stats(http, url)["requests"].get("sec_edgar", {}).get("answers"):
        assert time.monotonic() < deadline


def test_storage_is_not_a_call(url: str, http: requests.Session) -> None:
    http.get(f"{url}/storage/none")
    stats = _stats(http, url)
    assert stats["calls"] == 0
    assert stats["requests"]["storage"]["answers"] == {"403": 1}


def test_reset_forgets_the_counts_and_keeps_the_keys(url: str, http: requests.Session) -> None:
    for _ in range(4):
        http.get(f"{url}/company/99000001", auth=("narrow-key-aaaa", ""))
    http.post(f"{url}/sandbox/reset")
    stats = _stats(http, url)
    assert (stats["calls"], stats["over_limit"], stats["repeated"]) == (0, 0, 0)
    assert http.get(f"{url}/company/99000001", auth=("narrow-key-aaaa", "")).status_code == 200
