"""The extractor fed with recorded answers, and what each answer means for the key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services.causes import CAUSES
from services.companies_house import COMPANIES_HOUSE, XHTML
from services.extraction import Answer, Company, Empty, Failed, Fields, Get, Options, Result
from services.verdicts import KeyInvalid, KeyRests, Refused, ServiceFailed, Usable

NUMBER = "09999999"
FIELDS = tuple(field.name for field in COMPANIES_HOUSE.fields)
HISTORY = f"/company/{NUMBER}/filing-history"
METADATA, CONTENT = "/document/abc", "/document/abc/content"
NOW = 1_700_000_000.0

DOCUMENT = b"""<html xmlns="http://www.w3.org/1999/xhtml" xmlns:ix="http://www.xbrl.org/2013/inlineXBRL"
 xmlns:b="http://xbrl.frc.org.uk/cd/2023-01-01/business" xmlns:x="http://www.xbrl.org/2003/instance">
<body><ix:header><ix:resources><x:context id="c">
<x:entity><x:identifier scheme="s">1</x:identifier></x:entity>
<x:period><x:instant>2024-12-31</x:instant></x:period></x:context>
<x:unit id="u"><x:measure>iso4217:GBP</x:measure></x:unit>
</ix:resources></ix:header>
<ix:nonNumeric name="b:EntityCurrentLegalOrRegisteredName" contextRef="c">Example Ltd</ix:nonNumeric>
<ix:nonNumeric name="b:BalanceSheetDate" contextRef="c">31 December 2024</ix:nonNumeric>
<ix:nonFraction name="b:Equity" contextRef="c" unitRef="u" decimals="0">3,365</ix:nonFraction>
</body></html>"""


def filing(**changes: Any) -> dict[str, Any]:
    return {
        "category": "accounts",
        "type": "AA",
        "date": "2025-03-01",
        "description": "accounts-with-accounts-type-micro-entity",
        "description_values": {"made_up_date": "2024-12-31"},
        "links": {"document_metadata": "https://document-api.companieshouse.gov.uk" + METADATA},
    } | changes


def history(*items: Any, total: int | None = None) -> Answer:
    return answer({"items": [*items], "total_count": len(items) if total is None else total})


def answer(body: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps(body).encode(), {"content-type": "application/json"})


def metadata(**changes: Any) -> Answer:
    return answer(
        {
            "resources": {XHTML: {"content_length": 1}, "application/pdf": {}},
            "links": {"document": "https://document-api.company-information.service.gov.uk" + CONTENT},
        }
        | changes
    )


def run(*answers: Answer, settings: Mapping[str, str] | None = None) -> tuple[Result, list[Get]]:
    """The result after these answers, and what was asked."""
    extraction = COMPANIES_HOUSE.extract(Company(NUMBER), Options(FIELDS, settings or {}))
    asked: list[Get] = []
    left = [*answers]
    to_send: Answer | None = None
    while True:
        try:
            call = extraction.send(to_send)
        except StopIteration as stopped:
            assert not left, "answers were left"
            result: Result = stopped.value
            return result, asked
        assert isinstance(call, Get)
        asked.append(call)
        to_send = left.pop(0)


def failed(*answers: Answer, settings: Mapping[str, str] | None = None) -> tuple[type[Result], str]:
    result, _ = run(*answers, settings=settings)
    assert isinstance(result, Empty | Failed)
    assert result.message.endswith(".")
    assert result.cause in CAUSES
    return type(result), result.cause


def test_three_calls_give_the_newest_accounts_with_their_sources() -> None:
    result, asked = run(history(filing()), metadata(), Answer(200, DOCUMENT, {"content-type": XHTML}))
    assert asked == [
        Get(HISTORY, (("category", "accounts"), ("items_per_page", "100"))),
        Get(METADATA, host="document"),
        Get(CONTENT, host="document", accept=XHTML),
    ]
    assert isinstance(result, Fields)
    assert {name: value.value for name, value in result.values.items()} == {
        "entity_current_legal_name": "Example Ltd",
        "companies_house_registered_number": NUMBER,
        "balance_sheet_date": date(2024, 12, 31),
        "scope": "company",
        "period_end": date(2024, 12, 31),
        "shareholder_funds": Decimal(3365),
    }
    source = result.values["shareholder_funds"].source
    assert source is not None
    assert (source.tag, source.context, source.unit) == ("b:Equity", "c", "GBP")
    assert (source.document, source.filed, source.form) == (METADATA, date(2025, 3, 1), "AA")
    assert result.values["companies_house_registered_number"].flags == ("from_request",)


def test_only_the_fields_asked_for_come_back() -> None:
    extraction = COMPANIES_HOUSE.extract(Company(NUMBER), Options(("shareholder_funds",)))
    next(extraction)
    extraction.send(history(filing()))
    extraction.send(metadata())
    with pytest.raises(StopIteration) as stopped:
        extraction.send(Answer(200, DOCUMENT))
    assert [*stopped.value.value.values] == ["shareholder_funds"]


def test_another_companys_number_in_the_document_is_flagged() -> None:
    number_tag = b'<ix:nonNumeric name="b:UKCompaniesHouseRegisteredNumber" contextRef="c">1</ix:nonNumeric>'
    other = DOCUMENT.replace(b"<ix:nonFraction", number_tag + b"<ix:nonFraction")
    result, _ = run(history(filing()), metadata(), Answer(200, other))
    assert isinstance(result, Fields)
    number = result.values["companies_house_registered_number"]
    assert (number.value, number.flags) == ("00000001", ("differs_from_request",))


def test_the_newest_filing_counts_and_only_accounts_are_accounts() -> None:
    newest = filing(date="2026-03-01", links={"document_metadata": METADATA})
    old = filing(date="2024-03-01", links={"document_metadata": "/document/old"})
    change = filing(date="2026-09-09", type="AA01", description="change-account-reference-date-company")
    _, asked = run(history(change, old, newest), metadata(), Answer(200, DOCUMENT))
    assert asked[1].path == METADATA


def of(made_up_to: str, filed: str, document: str = METADATA, **changes: Any) -> dict[str, Any]:
    return filing(
        description_values={"made_up_date": made_up_to},
        date=filed,
        links={"document_metadata": document},
        **changes,
    )


def test_an_old_year_amended_late_is_not_the_newest_year() -> None:
    amended = of("2022-12-31", "2025-06-01", "/document/amended", type="AAMD")
    newest = of("2023-12-31", "2024-09-01")
    _, asked = run(history(amended, newest), metadata(), Answer(200, DOCUMENT))
    assert asked[1].path == METADATA


def test_of_two_accounts_for_one_date_the_last_filed_counts() -> None:
    first = of("2023-12-31", "2024-09-01", "/document/first")
    amended = of("2023-12-31", "2025-06-01", type="AAMD")
    for items in ((first, amended), (amended, first)):
        _, asked = run(
            history(*items), metadata(), Answer(200, DOCUMENT), settings={"made_up_to": "2023-12-31"}
        )
        assert asked[1].path == METADATA


def test_a_year_is_the_one_in_which_the_balance_sheet_date_lies() -> None:
    items = [of("2025-01-31", "2025-06-01", "/document/a"), of("2024-01-31", "2024-06-01")]
    _, asked = run(history(*items), metadata(), Answer(200, DOCUMENT), settings={"made_up_to": "2024"})
    assert asked[1].path == METADATA
    assert failed(history(*items), settings={"made_up_to": "2023"}) == (Empty, "no_accounts")


def document_of(year: int, equity: int, before: int) -> Answer:
    """Accounts of a year and the year before."""
    text = (
        DOCUMENT.decode().replace("2024-12-31", f"{year}-12-31").replace("December 2024", f"December {year}")
    )
    context = text[text.index("<x:context") : text.index("</x:context>") + len("</x:context>")]
    prior = context.replace('id="c"', 'id="p"').replace(f"{year}-12-31", f"{year - 1}-12-31")
    fact = text[text.index("<ix:nonFraction") : text.index("</body>")]
    told = fact.replace("3,365", str(equity)) + fact.replace("3,365", str(before)).replace('"c"', '"p"')
    return Answer(200, text.replace(context, context + prior).replace(fact, told).encode())


SERIES = ("balance_sheet_date", "shareholder_funds")


def run_series(*answers: Answer, periods: str) -> tuple[Result, list[Get]]:
    fields = tuple(COMPANIES_HOUSE.columns(SERIES, {"periods": periods}))
    extraction = COMPANIES_HOUSE.extract(Company(NUMBER), Options(fields, {"periods": periods}))
    asked: list[Get] = []
    to_send: list[Answer | None] = [None, *answers]
    while to_send:
        try:
            call = extraction.send(to_send.pop(0))
        except StopIteration as stopped:
            result: Result = stopped.value
            return result, asked
        assert isinstance(call, Get)
        asked.append(call)
    raise AssertionError(f"more is asked: {asked[-1]}")


def test_years_before_are_told_by_every_other_accounts() -> None:
    items = [of(f"{year}-12-31", f"{year + 1}-09-01", f"/document/{year}") for year in range(2024, 2019, -1)]
    result, asked = run_series(
        history(*items),
        metadata(), document_of(2024, 50, 40),
        metadata(), document_of(2022, 30, 20),
        periods="4",
    )  # fmt: skip
    assert isinstance(result, Fields)
    assert [(name, value.value) for name, value in result.values.items()] == [
        ("balance_sheet_date", date(2024, 12, 31)),
        ("balance_sheet_date_prior", date(2023, 12, 31)),
        ("balance_sheet_date_prior_2", date(2022, 12, 31)),
        ("balance_sheet_date_prior_3", date(2021, 12, 31)),
        ("shareholder_funds", 50),
        ("shareholder_funds_prior", 40),
        ("shareholder_funds_prior_2", 30),
        ("shareholder_funds_prior_3", 20),
    ]
    assert [call.path for call in asked if call.path.startswith("/document/2")] == [
        "/document/2024",
        "/document/2022",
    ]
    source = result.values["shareholder_funds_prior_2"].source
    assert source is not None
    assert source.document == "/document/2022"


def test_an_older_document_that_cannot_be_read_costs_its_years_only() -> None:
    items = [of(f"{year}-12-31", f"{year + 1}-09-01") for year in (2024, 2023, 2022)]
    pdf = metadata(resources={"application/pdf": {}})
    result, _ = run_series(history(*items), metadata(), document_of(2024, 50, 40), pdf, periods="4")
    assert isinstance(result, Fields)
    assert [value.value for name, value in result.values.items() if name in SERIES] == [
        date(2024, 12, 31),
        50,
    ]
    assert "shareholder_funds_prior" in result.values
    assert "shareholder_funds_prior_2" not in result.values
    assert result.flags[-1:] == ("earlier_accounts_unreadable",)


def test_two_years_need_one_document_and_one_page() -> None:
    items = [of(f"{year}-12-31", f"{year + 1}-09-01") for year in (2024, 2023, 2022)]
    result, asked = run_series(history(*items, total=999), metadata(), document_of(2024, 50, 40), periods="2")
    assert isinstance(result, Fields)
    assert len(asked) == 3


@pytest.mark.parametrize("number", ["FC034567", "OC437536", "SC722766", "NI681295", "R0000001", "IP000CUS"])
def test_companies_of_every_register_are_asked_for_alike(number: str) -> None:
    extraction = COMPANIES_HOUSE.extract(Company(COMPANIES_HOUSE.identify(number.lower())), Options(FIELDS))
    asked = next(extraction)
    assert isinstance(asked, Get)
    assert asked.path == f"/company/{number}/filing-history"


def test_a_balance_sheet_date_can_be_chosen_and_pages_are_asked_for_only_then() -> None:
    wanted = filing(description_values={"made_up_date": "2020-03-31"})
    result, asked = run(
        history(filing(), filing(), total=3),
        history(wanted, total=3),
        metadata(),
        Answer(200, DOCUMENT),
        settings={"made_up_to": "2020-03-31"},
    )
    assert isinstance(result, Fields)
    assert [call.params[-1] for call in asked[:2]] == [("items_per_page", "100"), ("start_index", "2")]


@pytest.mark.parametrize(
    ("answers", "kind", "cause"),
    [
        ([answer({"errors": []}, 404)], Failed, "not_found"),
        ([history()], Empty, "no_accounts"),
        (
            [history(filing(type="AA01", description="change-account-reference-date-company"))],
            Empty,
            "no_accounts",
        ),
        ([answer([])], Failed, "parse_error"),
        ([Answer(200, b"{")], Failed, "parse_error"),
        ([history(filing(links={}))], Failed, "not_available"),
        ([history(filing(links=None))], Failed, "not_available"),
        ([history(filing()), answer({}, 404)], Failed, "not_available"),
        ([history(filing()), metadata(resources={"application/pdf": {}})], Empty, "pdf_only"),
        ([history(filing()), metadata(links={})], Failed, "not_available"),
        ([history(filing()), metadata(), Answer(406, b"")], Empty, "pdf_only"),
        ([history(filing()), metadata(), Answer(404, b"")], Failed, "not_available"),
        ([history(filing()), metadata(), Answer(200, b"%PDF-1.4")], Failed, "parse_error"),
        ([history(filing()), metadata(), Answer(200, b"<html></html>")], Empty, "no_facts"),
    ],
)
def test_every_way_to_hold_nothing_has_its_cause(
    answers: list[Answer], kind: type[Result], cause: str
) -> None:
    assert failed(*answers) == (kind, cause)


def test_accounts_of_a_date_that_was_never_filed_are_no_accounts() -> None:
    assert failed(history(filing()), settings={"made_up_to": "1999-01-01"}) == (Empty, "no_accounts")


def test_recorded_answers_without_document_are_understood(corpus: Path) -> None:
    recorded = corpus / "ch_api"
    event = json.loads((recorded / "filing_event_10676322_micro_entity.json").read_text())["data"]
    assert failed(history(event)) == (Failed, "not_available")
    incorporation = Answer(200, (recorded / "filing_history_list_09528727.json").read_bytes())
    assert failed(incorporation) == (Empty, "no_accounts")
    pdf = Answer(200, (recorded / "document_metadata_08130873_accounts_pdf_only.json").read_bytes())
    assert failed(history(filing()), pdf) == (Empty, "pdf_only")


def test_a_real_filing_fills_every_required_field(corpus: Path) -> None:
    document = (corpus / "uk_ixbrl/Prod223_3384_09355500_20221231.html").read_bytes()
    result, _ = run(history(filing()), metadata(), Answer(200, document))
    assert isinstance(result, Fields)
    required = [field.name for field in COMPANIES_HOUSE.fields if field.required]
    assert required == [
        "entity_current_legal_name",
        "companies_house_registered_number",
        "balance_sheet_date",
        "shareholder_funds",
    ]
    assert all(result.values[name].value is not None for name in required)


KEYS = st.sampled_from(
    [
        "items",
        "total_count",
        "links",
        "document_metadata",
        "document",
        "resources",
        XHTML,
        "type",
        "description",
        "description_values",
        "made_up_date",
        "date",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=20,
)


@given(st.lists(JSON, min_size=3, max_size=3), st.booleans())
@settings(max_examples=150, deadline=None)
def test_answers_of_any_shape_never_raise(bodies: list[Any], wrapped: bool) -> None:
    if wrapped:
        bodies[0] = {"items": [{"type": "AA", "links": {"document_metadata": "/x"}, **as_object(bodies[0])}]}
        bodies[1] = {"resources": {XHTML: {}}, "links": {"document": "/y"}, **as_object(bodies[1])}
    assert isinstance(run_on([answer(body) for body in bodies]), Fields | Empty | Failed)


def run_on(answers: list[Answer]) -> Any:
    """The result after these answers, and as many empty objects as it takes."""
    extraction = COMPANIES_HOUSE.extract(Company(NUMBER), Options(FIELDS))
    to_send: Answer | None = None
    while True:
        try:
            extraction.send(to_send)
        except StopIteration as stopped:
            return stopped.value
        to_send = answers.pop(0) if answers else answer({})


def as_object(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def judged(status: int, body: bytes = b"", **headers: str) -> object:
    lower = {name.replace("_", "-"): value for name, value in headers.items()}
    return COMPANIES_HOUSE.judge(status, lower, body, NOW)


AUTHENTICATION = {"ch_authentication_error": "Invalid Authorization"}


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (judged(200, b"{}", content_type="application/json"), Usable()),
        (judged(200, DOCUMENT, content_type=XHTML), Usable()),
        (judged(404, b'{"errors":[{"error":"company-profile-not-found"}]}'), Usable()),
        (judged(406), Usable()),
        (
            judged(401, b'{"error":"Invalid Authorization","type":"ch:service"}'),
            KeyInvalid("Invalid Authorization"),
        ),
        (judged(401), KeyInvalid("Companies House does not accept the key.")),
        (judged(403, b'{"error":"Invalid Authorization"}'), KeyInvalid("Invalid Authorization")),
        (judged(403, b"", **AUTHENTICATION), KeyInvalid("Companies House does not accept the key.")),
        (judged(403, b"<html>Blocked: authorization</html>"), Refused("Companies House answered 403.")),
        (judged(403, b'{"errors":[{"error":"forbidden"}]}'), Refused("forbidden")),
        (judged(429, b"", x_ratelimit_reset="1700000120"), KeyRests(120.0)),
        (judged(429, b"slow down"), KeyRests(300.0, "slow down")),
        (judged(429, b"", retry_after="1.5"), KeyRests(1.5)),
        (
            judged(502, b"<html>Bad gateway</html>"),
            ServiceFailed("service_error", "Companies House answered 502."),
        ),
        (judged(408), ServiceFailed("service_error", "Companies House answered 408.")),
        (judged(422, b"Invalid size parameter"), Refused("Invalid size parameter")),
        (judged(400, b'{"errors":[{"error":"a"},{"error":"b"}]}'), Refused("a; b")),
    ],
)
def test_each_answer_means_one_thing(verdict: object, expected: object) -> None:
    assert verdict == expected


@pytest.mark.parametrize(("status", "body"), [(200, b'{"items": ['), (200, b"<html>"), (302, b"")])
def test_an_answer_cut_short_is_the_services_fault(status: int, body: bytes) -> None:
    verdict = judged(status, body, content_type="application/json; charset=utf-8")
    assert isinstance(verdict, ServiceFailed)
    assert verdict.cause == "bad_answer"


@pytest.mark.parametrize("body", [b"", b" \r\n", b"\x89\x13<html>", b"\xef\xbb\xbf", b"PK\3\4", b'{"a": 1}'])
def test_what_is_no_document_at_all_is_the_services_fault(body: bytes) -> None:
    verdict = judged(200, body, content_type=f"{XHTML}; charset=utf-8")
    assert isinstance(verdict, ServiceFailed)
    assert verdict.cause == "bad_answer"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be", "utf-16-le", "cp1252"])
def test_a_document_in_any_encoding_is_an_answer_even_when_its_end_is_missing(encoding: str) -> None:
    """Whole by its length, it is what the company filed."""
    body = "\r\n\r\n<?xml version='1.0'?><html><body>".encode(encoding)
    assert judged(200, body, content_type=XHTML) == Usable()


def test_every_real_filing_is_an_answer(corpus: Path) -> None:
    filings = [path for path in (corpus / "uk_ixbrl").iterdir() if path.suffix in {".html", ".xhtml"}]
    assert filings
    for filing in filings:
        assert judged(200, filing.read_bytes(), content_type=XHTML) == Usable(), filing.name


def test_recorded_errors_are_understood(corpus: Path) -> None:
    kinds = {
        "ch_401_invalid_key": KeyInvalid,
        "ch_401_empty_auth": KeyInvalid,
        "ch_404_company": Usable,
        "ch_422_text": Refused,
        "ch_429": KeyRests,
        "ch_document_api_200_headers": Usable,
        "ch_document_406": Usable,
    }
    for recorded in json.loads((corpus / "api_errors/companies_house_errors.json").read_text()):
        if recorded["name"] in kinds:
            body = recorded["body"] or ""
            text = body if isinstance(body, str) else json.dumps(body)
            headers = {name.lower(): value for name, value in recorded["headers"].items()}
            verdict = COMPANIES_HOUSE.judge(recorded["status"], headers, text.encode(), NOW)
            assert isinstance(verdict, kinds[recorded["name"]]), recorded["name"]


@given(st.integers(200, 599), st.binary(max_size=60), st.text(max_size=20))
def test_the_judge_never_raises(status: int, body: bytes, content_type: str) -> None:
    COMPANIES_HOUSE.judge(status, {"content-type": content_type + "json"}, body, NOW)


def test_the_key_is_the_user_of_basic_authentication() -> None:
    assert COMPANIES_HOUSE.headers("abc") == {"authorization": "Basic YWJjOg=="}
    assert COMPANIES_HOUSE.check_secret("1f3e-ab") is None
    for bad in ("", "a b", "a:b", "é", "a\n"):
        assert COMPANIES_HOUSE.check_secret(bad), bad
