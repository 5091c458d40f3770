"""EDGAR answers become fields, and its refusals stop the right thing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Generator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from services.extraction import Answer, CallFailed, Company, Empty, Failed, Fields, Get, Options, Result
from services.sec_edgar import SEC_EDGAR
from services.service import Kind
from services.verdicts import Refused, ServiceFailed, ServiceRests, Usable, Verdict

FIELDS = tuple(field.name for field in SEC_EDGAR.fields)
TICKERS = json.dumps({"0": {"cik_str": 7, "ticker": "BRK-B", "title": "A Corp"}}).encode()
NOT_LISTED = (
    "The SEC's list of tickers has no {}."
    " A company whose shares are not traded is not in it: ask for it by its CIK."
)
FACTS = json.dumps(
    {
        "cik": 7,
        "entityName": "A Corp",
        "facts": {
            "us-gaap": {
                "NetIncomeLoss": {
                    "units": {
                        "USD": [
                            {
                                "start": "2024-01-01", "end": "2024-12-31", "val": val,
                                "accn": accession, "form": "10-K", "filed": filed,
                            }
                            for val, accession, filed in ((5, "a", "2025-02-01"), (6, "b", "2026-02-01"))
                        ]
                    }
                }
            }
        },
    }
).encode()  # fmt: skip


def run(
    number: str, *answers: Answer | CallFailed, fields: tuple[str, ...] = FIELDS, **settings: str
) -> tuple[list[Get], Result]:
    """What the extractor asked and how it ended, when it is answered like this."""
    extraction: Generator[Any, Any, Result] = SEC_EDGAR.extract(Company(number), Options(fields, settings))
    asked = [next(extraction)]
    for answer in answers:
        try:
            asked.append(
                extraction.throw(answer) if isinstance(answer, CallFailed) else extraction.send(answer)
            )
        except StopIteration as end:
            return asked, end.value
    raise AssertionError(f"the extractor asks for more: {asked[-1]}")


def submissions(reports: dict[str, str], *pages: dict[str, Any], **about: Any) -> Answer:
    """An answer that lists these reports: accession number to document."""
    recent = {"accessionNumber": list(reports), "primaryDocument": list(reports.values())}
    return Answer(200, json.dumps({**about, "filings": {"recent": recent, "files": list(pages)}}).encode())


def values(result: Result) -> dict[str, Any]:
    assert isinstance(result, Fields)
    return {name: value.value for name, value in result.values.items()}


def test_a_cik_is_one_call() -> None:
    asked, result = run("320193", Answer(200, FACTS))
    assert asked == [Get("/api/xbrl/companyfacts/CIK0000320193.json", host="data")]
    assert values(result) == {
        "entity_name": "A Corp",
        "cik": "7",
        "fiscal_year_end": "12-31",
        "period_start": date(2024, 1, 1),
        "period_end": date(2024, 12, 31),
        "form": "10-K",
        "filed": date(2026, 2, 1),
        "accession": "b",
        "net_income": 6,
    }


def test_a_ticker_is_looked_up_first() -> None:
    asked, result = run("BRK-B", Answer(200, TICKERS), Answer(200, FACTS))
    assert asked == [
        Get("/files/company_tickers.json", host="www"),
        Get("/api/xbrl/companyfacts/CIK0000000007.json", host="data"),
    ]
    assert values(result)["net_income"] == 6


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        (Answer(200, TICKERS), Failed("not_found", NOT_LISTED.format("NOPE"))),
        (Answer(200, b"[]"), Failed("not_found", NOT_LISTED.format("NOPE"))),
        (Answer(404, b""), Failed("not_available", "The SEC's list of tickers could not be read (404).")),
    ],
)
def test_an_unknown_ticker_costs_one_call(answer: Answer, ending: Result) -> None:
    asked, result = run("NOPE", answer)
    assert (len(asked), result) == (1, ending)


def test_the_list_of_tickers_serves_every_company() -> None:
    asked, _ = run("BRK-B", Answer(200, TICKERS), Answer(200, FACTS))
    assert [call.shared_seconds for call in asked] == [86_400, 0]


NAMES = json.dumps(
    {
        str(place): {"cik_str": cik, "ticker": ticker, "title": title}
        for place, (cik, ticker, title) in enumerate(
            [
                (1, "DIS", "Walt Disney Co"),
                (2, "AMZN", "AMAZON COM INC"),
                (3, "T", "AT&T INC."),
                (4, "TTC", "TORO CO"),
                (5, "TORO", "TORO CORP."),
                (6, "FBP", "FIRST BANCORP /PR/"),
                (7, "FBNC", "FIRST BANCORP /NC/"),
                (8, "GOOGL", "Alphabet Inc."),
                (8, "GOOG", "Alphabet Inc."),
                (9, "CAFE", "Café Söhne SE"),
            ]
        )
    }
).encode()


@pytest.mark.parametrize(
    ("name", "cik"),
    [
        ("THE WALT DISNEY COMPANY", 1),
        ("AMAZON.COM, INC.", 2),
        ("AT&T", 3),
        ("TORO CO", 4),
        ("TORO CORP", 5),
        ("TORO", 5),  # a ticker counts before a name
        ("ALPHABET INC", 8),
        ("CAFE SOHNE", 9),
    ],
)
def test_a_name_is_the_listed_one_but_for_signs_and_legal_form(name: str, cik: int) -> None:
    asked, result = run(name, Answer(200, NAMES), Answer(200, FACTS))
    assert asked[1].path == f"/api/xbrl/companyfacts/CIK{cik:010d}.json"
    assert isinstance(result, Fields)
    assert result.flags == (() if name == "TORO" else ("found_by_name",))


def test_a_name_of_several_companies_is_refused_with_all_of_them() -> None:
    _, result = run("FIRST BANCORP", Answer(200, NAMES))
    assert result == Failed(
        "not_found",
        "Several companies are called FIRST BANCORP: 6 (FIRST BANCORP /PR/), 7 (FIRST BANCORP /NC/). "
        "Ask for one by its CIK.",
    )


@pytest.mark.parametrize("name", ["DISNEY", "WALT DISNEY PICTURES", "INC", "THE", "&"])
def test_a_name_is_never_guessed(name: str) -> None:
    _, result = run(name, Answer(200, NAMES))
    assert result == Failed("not_found", NOT_LISTED.format(name))


def test_the_address_of_the_report_is_asked_for_only_when_wanted() -> None:
    fields = ("report_url", "tickers", "sic", "sic_description")
    listed = submissions({"b": "a-2024.htm"}, tickers=["A", "AB"], sic="7372", sicDescription="Software")
    asked, result = run("7", Answer(200, FACTS), listed, fields=fields)
    assert asked[1] == Get("/submissions/CIK0000000007.json", host="data")
    assert values(result) == {
        "report_url": "https://www.sec.gov/Archives/edgar/data/7/b/a-2024.htm",
        "tickers": "A AB",
        "sic": "7372",
        "sic_description": "Software",
    }


def test_older_pages_are_asked_for_only_when_they_may_list_the_report() -> None:
    pages = [
        {"name": f"CIK0000000007-submissions-00{n}.json", "filingFrom": first, "filingTo": last}
        for n, first, last in ((1, "2026-03-01", "2026-12-31"), (2, "2025-06-01", "2026-02-28"), (3, "", ""))
    ]
    older = {"accessionNumber": ["b"], "primaryDocument": [""]}
    asked, result = run(
        "7",
        Answer(200, FACTS),
        submissions({"z": "z.htm"}, *pages),
        Answer(200, json.dumps(older).encode()),
        fields=("report_url",),
    )
    assert [call.path for call in asked[2:]] == ["/submissions/CIK0000000007-submissions-002.json"]
    assert values(result) == {"report_url": "https://www.sec.gov/Archives/edgar/data/7/b/b-index.htm"}


@pytest.mark.parametrize(
    "answer",
    [
        Answer(404, b""),
        Answer(200, b"[]"),
        Answer(200, b"{"),
        Answer(200, b'{"filings": {"recent": {"accessionNumber": 7}, "files": [{"name": "../x"}, 7]}}'),
    ],
)
def test_without_the_list_of_filings_the_figures_stand(answer: Answer) -> None:
    _, result = run("7", Answer(200, FACTS), answer, fields=("net_income", "report_url", "sic"))
    assert values(result) == {"net_income": 6}


@pytest.mark.parametrize(
    "file", ["submissions_CIK0000320193_AAPL.json", "submissions_CIK0001045810_NVDA.json"]
)
def test_real_lists_of_filings_hold_the_reports_address(corpus: Path, file: str) -> None:
    listed = (corpus / "sec_json" / file).read_bytes()
    recent = json.loads(listed)["filings"]["recent"]
    place = recent["form"].index("10-K")
    accession, document = recent["accessionNumber"][place], recent["primaryDocument"][place]
    facts = FACTS.replace(b'"b"', json.dumps(accession).encode())
    _, result = run("320193", Answer(200, facts), Answer(200, listed), fields=("report_url", "sic"))
    folder = f"https://www.sec.gov/Archives/edgar/data/320193/{accession.replace('-', '')}"
    assert values(result) == {
        "report_url": f"{folder}/{document}",
        "sic": json.loads(listed)["sic"],
    }


@pytest.mark.parametrize(
    ("frequency", "year", "said"),
    [
        ("annual", "2019", "none from an annual report of a fiscal year that ends in 2019."),
        ("quarterly", "latest", "none of a quarter."),
        ("quarterly", "2019", "none of a quarter of a fiscal year that ends in 2019."),
    ],
)
def test_what_was_not_reported_is_said_with_what_was_asked_for(frequency: str, year: str, said: str) -> None:
    _, result = run("7", Answer(200, FACTS), frequency=frequency, year=year)
    assert result == Empty("no_facts", f"CIK 7 has facts, but {said}")


def test_a_list_of_tickers_that_is_no_json_is_a_parse_error() -> None:
    _, result = run("NOPE", Answer(200, b"{]"))
    assert isinstance(result, Failed)
    assert result.cause == "parse_error"


@pytest.mark.parametrize(
    ("answer", "kind", "cause"),
    [
        (Answer(404, b"<Error><Code>NoSuchKey</Code></Error>"), Empty, "no_facts"),
        (Answer(200, b'{"cik": 1, "entityName": "X", "facts": {}}'), Empty, "no_facts"),
        (Answer(200, b"{}"), Empty, "no_facts"),
        (Answer(403, b"<Error><Code>AccessDenied</Code></Error>"), Failed, "not_found"),
        (Answer(200, b'{"cik": }'), Failed, "parse_error"),
        (Answer(200, b"[]"), Failed, "parse_error"),
    ],
)
def test_a_company_that_cannot_be_read_ends_with_its_cause(
    answer: Answer, kind: type[Empty | Failed], cause: str
) -> None:
    _, result = run("1", answer)
    assert isinstance(result, kind)
    assert result.cause == cause
    assert result.message


def test_a_company_whose_asked_fields_are_all_missing_is_not_empty() -> None:
    assert run("7", Answer(200, FACTS), fields=("capex",))[1] == Fields({})


def test_the_first_filed_value_is_an_option() -> None:
    assert values(run("7", Answer(200, FACTS), fields=("net_income",))[1]) == {"net_income": 6}
    first = run("7", Answer(200, FACTS), fields=("net_income",), **{"as": "first"})[1]
    assert values(first) == {"net_income": 5}


def test_a_call_that_failed_ends_the_job_with_that_failure() -> None:
    with pytest.raises(CallFailed, match="bad_request"):
        run("7", CallFailed("bad_request", "The SEC answered 400."))


@pytest.mark.parametrize(
    ("number", "file", "name"),
    [
        ("320193", "companyfacts_CIK0000320193_AAPL.json", "Apple Inc."),
        ("AAPL", "companyfacts_CIK0000320193_AAPL.json", "Apple Inc."),
        ("1652044", "companyfacts_CIK0001652044_GOOG.json", "ALPHABET INC."),
    ],
)
def test_real_answers_are_complete(corpus: Path, number: str, file: str, name: str) -> None:
    facts = Answer(200, gzip.decompress((corpus / "sec_json" / f"{file}.gz").read_bytes()))
    tickers = Answer(
        200, gzip.decompress((corpus / "company_lists" / "company_tickers.json.gz").read_bytes())
    )
    asked, result = run(number, *([] if number.isdigit() else [tickers]), facts)
    assert len(asked) == (1 if number.isdigit() else 2)
    row = values(result)
    assert row["entity_name"] == name
    assert all(row[field.name] is not None for field in SEC_EDGAR.fields if field.required)
    assert list(row) == [field for field in FIELDS if field in row]
    assert SEC_EDGAR.judge(200, {}, facts.body, 0.0) == Usable()


def test_the_kinds_of_the_fields_are_what_the_values_are() -> None:
    kinds = {field.name: field.kind for field in SEC_EDGAR.fields}
    for name, value in values(run("7", Answer(200, FACTS))[1]).items():
        wanted = {Kind.DATE: date, Kind.MONEY: int, Kind.NUMBER: int, Kind.TEXT: str}[kinds[name]]
        assert isinstance(value, wanted)


def judge(status: int, body: bytes) -> Verdict:
    return SEC_EDGAR.judge(status, {}, body, 0.0)


@pytest.mark.parametrize(
    ("status", "file", "verdict", "words"),
    [
        (403, "sec_403_undeclared_automated_tool.html", ServiceRests, "does not accept the contact"),
        (403, "sec_rate_exceeded.html", ServiceRests, "too many requests"),
        (429, "sec_rate_exceeded.html", ServiceRests, "too many requests"),
        (403, "sec_403_form.gz.body", Usable, ""),
        (404, "sec_404_CIK-000000001.json.body", Usable, ""),
        (503, "sec_503_browse-edgar.body", ServiceFailed, "503"),
    ],
)
def test_the_secs_real_errors_are_told_apart(
    corpus: Path, status: int, file: str, verdict: type[Verdict], words: str
) -> None:
    found = judge(status, (corpus / "api_errors" / file).read_bytes())
    assert isinstance(found, verdict)
    assert words in getattr(found, "message", "")
    assert getattr(found, "seconds", 600) == 600


def test_an_answer_that_is_cut_short_or_a_page_is_the_services_failure() -> None:
    assert judge(200, FACTS + b"\r\n") == Usable()
    for body in (b"", FACTS[:-9], b"<html>Maintenance</html>"):
        found = judge(200, body)
        assert isinstance(found, ServiceFailed)
        assert found.cause == "bad_answer"


def test_other_refusals_are_of_this_request_only() -> None:
    assert isinstance(judge(400, b""), Refused)
    assert isinstance(judge(302, b""), ServiceFailed)


@pytest.mark.parametrize(
    "secret", ["Example Ltd data@example.com", "data@example.com", "Example (data@mail.example.co.uk)"]
)
def test_a_contact_is_a_name_and_an_email_address(secret: str) -> None:
    assert SEC_EDGAR.check_secret(secret) is None
    assert SEC_EDGAR.headers(secret) == {"User-Agent": secret, "Accept-Encoding": "gzip, deflate"}


@pytest.mark.parametrize(
    "secret", ["", "Mozilla/5.0", "Example Ltd", "a@b", "Café a@b.example", " a@b.example", "a@b.example\n"]
)
def test_what_is_no_contact_is_refused_with_an_example(secret: str) -> None:
    assert "data@example.com" in (SEC_EDGAR.check_secret(secret) or "")
