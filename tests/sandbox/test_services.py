"""What the real services say, said by the sandbox over a real socket."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
import requests

WIDE = ("wide-open-key-1", "")
SEC = {"User-Agent": "Wide Firm ops@wide.example"}
XHTML = {"Accept": "application/xhtml+xml"}


def _document(http: requests.Session, url: str, number: str) -> str:
    """The path of the latest accounts' metadata, on this server."""
    history = http.get(f"{url}/company/{number}/filing-history?category=accounts", auth=WIDE).json()
    return url + str(urlsplit(history["items"][0]["links"]["document_metadata"]).path)


def test_no_key_is_refused_as_the_register_does(url: str, http: requests.Session) -> None:
    answer = http.get(f"{url}/company/99000001")
    assert answer.status_code == 401
    assert answer.headers["Ch-Authentication-Error"] == "Empty Authorization header"
    assert answer.json() == {"error": "Empty Authorization header", "type": "ch:service"}


def test_an_unknown_key_is_refused_as_the_register_does(url: str, http: requests.Session) -> None:
    answer = http.get(f"{url}/company/99000001", auth=("wrong", ""))
    assert answer.status_code == 401
    assert answer.headers["Ch-Authentication-Error"] == "Invalid Authorization"
    assert answer.json()["error"] == "Invalid Authorization"


def test_an_unknown_company_is_not_found(url: str, http: requests.Session) -> None:
    profile = http.get(f"{url}/company/99000020", auth=WIDE)
    assert (profile.status_code, profile.json()["errors"][0]["error"]) == (404, "company-profile-not-found")
    history = http.get(f"{url}/company/99000020/filing-history", auth=WIDE)
    assert (history.status_code, history.json()["errors"][0]["type"]) == (404, "ch:service")


def test_company_numbers_are_upper_case_and_padded(url: str, http: requests.Session) -> None:
    assert http.get(f"{url}/company/SC990010", auth=WIDE).status_code == 200
    assert http.get(f"{url}/company/sc990010", auth=WIDE).status_code == 404
    assert http.get(f"{url}/company/541560", auth=WIDE).status_code == 404


def test_filing_history_is_filtered_and_paged(url: str, http: requests.Session) -> None:
    path = f"{url}/company/99000001/filing-history"
    everything = http.get(path, auth=WIDE).json()
    assert {item["category"] for item in everything["items"]} > {"accounts", "incorporation"}
    assert [item["date"] for item in everything["items"]] == sorted(
        (item["date"] for item in everything["items"]), reverse=True
    )
    accounts = http.get(path, params={"category": "accounts", "items_per_page": "1"}, auth=WIDE).json()
    assert (accounts["total_count"], len(accounts["items"])) == (3, 1)
    last = http.get(path, params={"category": "accounts", "start_index": "2"}, auth=WIDE).json()["items"]
    assert "document_metadata" not in last[0]["links"]
    assert http.get(path, params={"items_per_page": 101}, auth=WIDE).status_code == 422


def test_metadata_names_the_real_hosts_and_sometimes_the_old_one(url: str, http: requests.Session) -> None:
    hosts = set()
    for index in range(12):
        metadata = http.get(_document(http, url, str(90_000_000 + index)), auth=WIDE).json()
        hosts.add(urlsplit(metadata["links"]["document"]).hostname)
    assert hosts == {
        "document-api.company-information.service.gov.uk",
        "document-api.companieshouse.gov.uk",
    }


def test_the_content_is_one_hop_away_on_another_host(url: str, http: requests.Session) -> None:
    hop = http.get(
        _document(http, url, "99000001") + "/content", auth=WIDE, headers=XHTML, allow_redirects=False
    )
    assert hop.status_code == 302
    assert urlsplit(hop.headers["Location"]).hostname == "localhost"
    assert http.get(hop.headers["Location"], auth=WIDE).status_code == 400
    document = http.get(hop.headers["Location"])
    assert document.status_code == 200
    assert document.headers["Content-Type"] == "application/xhtml+xml"
    metadata = http.get(_document(http, url, "99000001"), auth=WIDE).json()
    assert metadata["resources"]["application/xhtml+xml"]["content_length"] == len(document.content)


def test_an_address_that_was_tampered_with_is_refused(url: str, http: requests.Session) -> None:
    path = _document(http, url, "99000001") + "/content"
    location = http.get(path, auth=WIDE, headers=XHTML, allow_redirects=False).headers["Location"]
    for changed in (location[:-1] + "x", re.sub("Expires=.", "Expires=9", location), location.split("?")[0]):
        answer = http.get(changed)
        assert (answer.status_code, b"<Code>Signature" in answer.content) == (403, True)


def test_an_address_expires(start: Callable[..., str], http: requests.Session) -> None:
    url = start("--document-ttl", "30ms")
    path = _document(http, url, "99000001") + "/content"
    location = http.get(path, auth=WIDE, headers=XHTML, allow_redirects=False).headers["Location"]
    deadline = time.monotonic() + 5
    while (answer := http.get(location)).status_code == 200:
        assert time.monotonic() < deadline
    assert (answer.status_code, b"Request has expired" in answer.content) == (403, True)


def test_paper_accounts_are_offered_as_pdf_only(url: str, http: requests.Session) -> None:
    document = _document(http, url, "99000021")
    assert list(http.get(document, auth=WIDE).json()["resources"]) == ["application/pdf"]
    assert http.get(document + "/content", auth=WIDE, headers=XHTML).status_code == 406
    pdf = {"Accept": "application/pdf"}
    location = http.get(f"{document}/content", auth=WIDE, headers=pdf, allow_redirects=False).headers[
        "Location"
    ]
    assert http.get(location).content.startswith(b"%PDF")


def test_a_register_entry_that_is_out_of_order_comes_back(url: str, http: requests.Session) -> None:
    path = f"{url}/company/99000023/filing-history"
    assert [http.get(path, auth=WIDE).status_code for _ in range(4)] == [503, 503, 200, 200]


def test_a_company_without_accounts_has_a_history(url: str, http: requests.Session) -> None:
    path = f"{url}/company/99000024/filing-history"
    assert http.get(path, params={"category": "accounts"}, auth=WIDE).json()["items"] == []
    assert http.get(path, auth=WIDE).json()["total_count"] > 0


@pytest.mark.parametrize("agent", ["", "python-requests/2.32.3", "Mozilla/5.0 (X11; Linux x86_64)"])
def test_an_undeclared_tool_gets_a_page(url: str, http: requests.Session, agent: str) -> None:
    answer = http.get(f"{url}/files/company_tickers.json", headers={"User-Agent": agent})
    assert answer.status_code == 403
    assert answer.headers["Content-Type"] == "text/html"
    assert "Undeclared Automated Tool" in answer.text


def test_companyfacts_are_found_by_the_padded_cik(url: str, http: requests.Session) -> None:
    facts = http.get(f"{url}/api/xbrl/companyfacts/CIK0000320193.json", headers=SEC).json()
    assert (facts["cik"], facts["entityName"]) == (320193, "Apple Inc.")
    assert {"dei", "us-gaap"} <= facts["facts"].keys()


@pytest.mark.parametrize(
    "path",
    [
        "/api/xbrl/companyfacts/CIK0000000001.json",
        "/api/xbrl/companyfacts/CIK0009990001.json",
        "/api/xbrl/companyfacts/CIK320193.json",
        "/submissions/CIK0000000001.json",
    ],
)
def test_no_facts_and_no_filer_are_the_store_s_404(url: str, http: requests.Session, path: str) -> None:
    answer = http.get(url + path, headers=SEC)
    assert (answer.status_code, answer.headers["Content-Type"]) == (404, "application/xml")
    assert (
        f"<Code>NoSuchKey</Code><Message>The specified key does not exist.</Message><Key>{path[1:]}"
        in answer.text
    )


def test_other_places_of_the_sec_are_access_denied(url: str, http: requests.Session) -> None:
    answer = http.get(f"{url}/Archives/edgar/daily-index/form.gz", headers=SEC)
    assert (answer.status_code, "<Code>AccessDenied</Code>" in answer.text) == (403, True)


def test_submissions_and_tickers_lead_to_filers(url: str, http: requests.Session) -> None:
    submissions = http.get(f"{url}/submissions/CIK0000320193.json", headers=SEC).json()
    assert (submissions["cik"], submissions["fiscalYearEnd"]) == ("0000320193", "0927")
    assert len({len(column) for column in submissions["filings"]["recent"].values()}) == 1
    tickers = http.get(f"{url}/files/company_tickers.json", headers=SEC).json()
    assert {"cik_str": 320193, "ticker": "AAPL", "title": "Apple Inc."} in tickers.values()
    assert len(tickers) == 33 + 40
