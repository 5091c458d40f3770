"""The extractors ask the sandbox over a real socket, and bring what its own truth says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from itertools import islice
from typing import Any

import pytest
import requests

from sandbox import uk_accounts, us_facts, us_generated, us_quarters
from sandbox.companies import Companies
from sandbox.edgar import document_name
from services import earlier
from services.companies_house import COMPANIES_HOUSE
from services.extraction import Answer, Company, Empty, Failed, Fields, Get, Options, Result
from services.sec_edgar import SEC_EDGAR
from services.service import Service

COMPANIES = Companies(seed=7, generated=40)
SECRETS = {"companies_house": "wide-open-key-1", "sec_edgar": "Wide Firm ops@wide.example"}
US_PERIOD = [field.name for field in SEC_EDGAR.fields if field.repeats]
WITH_YEARS = [us_generated.generate(7, index) for index in range(20)]
WITH_QUARTERS = [company for company in WITH_YEARS if company.has_quarters]
Extract = Callable[..., tuple[Result, list[Get]]]


@pytest.fixture
def extract(url: str, http: requests.Session) -> Extract:
    """`extract(service, number, fields, **settings)`: the result, and what was asked for it."""

    def run(
        service: Service, number: str, fields: list[str] | None = None, **settings: str
    ) -> tuple[Result, list[Get]]:
        names = tuple(service.columns(fields or (), settings))
        extraction = service.extract(Company(number), Options(names, settings))
        asked: list[Get] = []
        answer: Answer | None = None
        while True:
            try:
                call = extraction.send(answer)
            except StopIteration as end:
                result: Result = end.value
                return result, asked
            assert isinstance(call, Get)
            asked.append(call)
            answer = _get(http, url, call, service.headers(SECRETS[service.name]))

    return run


def _get(http: requests.Session, url: str, call: Get, headers: Mapping[str, str]) -> Answer:
    sent = {**headers, "Accept": call.accept}
    came = http.get(url + call.path, params=dict(call.params), headers=sent, allow_redirects=False)
    if came.status_code == 302:
        came = http.get(came.headers["Location"], headers={"Accept": call.accept})
    return Answer(came.status_code, came.content, {k.lower(): v for k, v in came.headers.items()})


def texts(result: Result) -> dict[str, str]:
    assert isinstance(result, Fields)
    return {name: _text(value.value) for name, value in result.values.items()}


def _text(value: Any) -> str:
    match value:
        case bool():
            return str(value).lower()
        case Decimal() | int():
            return format(Decimal(value).normalize(), "f")
        case date():
            return value.isoformat()
    return str(value)


def as_of(row: Mapping[str, str], back: int, names: list[str]) -> dict[str, str]:
    return {earlier.column(name, back): row[name] for name in names if name in row}


@pytest.mark.parametrize("first", [False, True], ids=["latest", "first"])
@pytest.mark.parametrize("company", WITH_YEARS, ids=lambda company: str(company.cik))
def test_a_series_of_years_is_the_truth_of_each_year(
    extract: Extract, company: us_facts.UsCompany, first: bool
) -> None:
    chosen = "first" if first else "latest"
    result, asked = extract(SEC_EDGAR, str(company.cik), periods="4", **{"as": chosen})
    truth = us_facts.columns(company, first=first)
    for back in (1, 2, 3):
        truth |= as_of(us_facts.columns(company, back, first=first), back, US_PERIOD)
    found = texts(result)
    told_by = [name for name in found if earlier.split(name)[0] in ("accession", "filed", "form")]
    if first:  # an amendment tells one figure otherwise, the rest it only repeats
        found = {name: text for name, text in found.items() if name not in told_by}
        truth = {name: text for name, text in truth.items() if name not in told_by}
    assert found == truth
    assert len(asked) == 1


@pytest.mark.parametrize("company", WITH_YEARS[:8], ids=lambda company: str(company.cik))
def test_a_fiscal_year_is_the_truth_of_that_year(extract: Extract, company: us_facts.UsCompany) -> None:
    ends = [*dict.fromkeys(filing.end for filing in company.filings)]
    for back, end in enumerate(reversed(ends)):
        result, _ = extract(SEC_EDGAR, str(company.cik), year=str(end.year))
        assert texts(result) == us_facts.columns(company, back)
    result, _ = extract(SEC_EDGAR, str(company.cik), year="1999")
    assert isinstance(result, Empty)
    assert result.message.endswith("from an annual report of a fiscal year that ends in 1999.")


@pytest.mark.parametrize("company", WITH_QUARTERS, ids=lambda company: str(company.cik))
def test_the_latest_quarter_is_the_truth_of_that_quarter(
    extract: Extract, company: us_facts.UsCompany
) -> None:
    result, _ = extract(SEC_EDGAR, str(company.cik), frequency="quarterly")
    assert texts(result) == us_quarters.latest_columns(company)


@pytest.mark.parametrize("company", WITH_QUARTERS[:6], ids=lambda company: str(company.cik))
def test_the_last_quarter_of_a_year_is_the_year_less_three_quarters(
    extract: Extract, company: us_facts.UsCompany
) -> None:
    last = [filing for filing in company.filings if not filing.form.endswith("/A")][-1]
    before = [filing for filing in company.filings if filing.end < last.end][-1]
    three = [quarter.figures["operating_cash_flow"] for quarter in us_quarters.after(before)]
    result, _ = extract(
        SEC_EDGAR, str(company.cik), ["operating_cash_flow"], frequency="quarterly", periods="4"
    )
    assert isinstance(result, Fields)
    fourth = result.values["operating_cash_flow_prior_3"]
    assert fourth.value == last.figures["operating_cash_flow"] - sum(three)
    assert fourth.flags == ("derived",)
    assert fourth.source is not None
    assert fourth.source.period_end == last.end
    assert fourth.source.context is not None
    assert " less " in fourth.source.context


def test_filers_without_quarterly_reports_have_no_quarter(extract: Extract) -> None:
    foreign = next(company for company in WITH_YEARS if not company.has_quarters)
    result, _ = extract(SEC_EDGAR, str(foreign.cik), frequency="quarterly")
    assert result == Empty("no_facts", f"CIK {foreign.cik} has facts, but none of a quarter.")


@pytest.mark.parametrize("number", ["NVDA", "NVIDIA CORP", "NVIDIA"])
def test_a_ticker_and_a_name_find_the_company(extract: Extract, number: str) -> None:
    result, asked = extract(SEC_EDGAR, number)
    assert texts(result) == us_facts.columns(COMPANIES.us_sample[1045810])
    assert [call.path for call in asked] == [
        "/files/company_tickers.json",
        "/api/xbrl/companyfacts/CIK0001045810.json",
    ]
    assert isinstance(result, Fields)
    assert result.flags == (() if number == "NVDA" else ("found_by_name",))


def test_the_address_of_an_old_report_is_on_an_older_page(extract: Extract) -> None:
    company = next(c for c in WITH_QUARTERS if len(c.filings) == 4)
    fields = ["report_url", "accession", "tickers", "sic"]
    result, asked = extract(SEC_EDGAR, str(company.cik), fields, periods="4", **{"as": "first"})
    found = texts(result)
    for back, filing in enumerate(reversed(company.filings)):
        name = document_name(company, filing.end)
        place = f"https://www.sec.gov/Archives/edgar/data/{company.cik}/{filing.accession.replace('-', '')}"
        assert found[earlier.column("report_url", back)] == f"{place}/{name}"
    assert (found["tickers"], found["sic"]) == (company.ticker, "7372")
    assert [call.path.rpartition("/")[2] for call in asked[1:]] == [
        f"CIK{company.cik:010d}.json",
        f"CIK{company.cik:010d}-submissions-001.json",
    ]
    newest, asked = extract(SEC_EDGAR, str(company.cik), ["report_url"], frequency="quarterly")
    assert texts(newest)["report_url"].endswith(".htm")
    assert len(asked) == 2


@pytest.mark.parametrize(
    "company", [*islice(COMPANIES.every_uk(), 34)], ids=lambda company: str(company.number)
)
def test_the_newest_accounts_are_the_truth(extract: Extract, company: uk_accounts.UkCompany) -> None:
    if company.trouble == "down_at_first":
        pytest.skip("the worker's part")
    result, _ = extract(COMPANIES_HOUSE, company.number)
    if company.trouble is None:
        assert texts(result) == uk_accounts.columns(company)
        return
    assert isinstance(result, Empty | Failed)
    causes = {"unknown": "not_found", "damaged": "parse_error"}
    assert result.cause == causes.get(company.trouble, company.trouble)


@pytest.mark.parametrize("made_up_to", ["2022-03-31", "2022"])
def test_accounts_of_a_date_or_a_year_are_the_truth_of_that_year(extract: Extract, made_up_to: str) -> None:
    company = COMPANIES.uk_sample["NI990009"]
    result, asked = extract(COMPANIES_HOUSE, company.number, made_up_to=made_up_to)
    assert texts(result) == uk_accounts.columns(company, company.older[0])
    assert len(asked) == 3


def test_five_years_are_told_by_three_documents(extract: Extract) -> None:
    company = COMPANIES.uk_sample["NI990009"]
    assert company.accounts is not None
    fields = ["balance_sheet_date", "shareholder_funds", "turnover_gross_operating_revenue", "fixed_assets"]
    result, asked = extract(COMPANIES_HOUSE, company.number, fields, periods="5")
    found = texts(result)
    years = [
        company.accounts.current, company.accounts.prior, company.older[0].current, company.older[0].prior,
    ]  # fmt: skip
    for back, figures in enumerate(years):
        assert found[earlier.column("balance_sheet_date", back)] == f"{2024 - back}-03-31"
        for name in fields[1:]:
            expected = figures.get(name)
            assert found.get(earlier.column(name, back)) == (None if expected is None else _text(expected))
    assert len(asked) == 1 + 2 * 2
    assert isinstance(result, Fields)
    assert result.flags == ("earlier_accounts_unreadable",)  # the oldest entry has no document


def test_one_year_is_its_own_columns_only(extract: Extract) -> None:
    result, _ = extract(COMPANIES_HOUSE, "NI990009", periods="1")
    assert not [name for name in texts(result) if earlier.split(name)[1]]


def test_a_dissolved_company_still_has_its_accounts(
    extract: Extract, url: str, http: requests.Session
) -> None:
    profile = http.get(f"{url}/company/99000011", auth=("wide-open-key-1", "")).json()
    assert profile["company_status"] == "dissolved"
    result, _ = extract(COMPANIES_HOUSE, "99000011")
    assert texts(result) == uk_accounts.columns(COMPANIES.uk_sample["99000011"])
