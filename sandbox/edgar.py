"""SEC EDGAR's answers: tickers, submissions and companyfacts, and its ways to say no.

Shapes: https://www.sec.gov/search-filings/edgar-application-programming-interfaces
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from sandbox import facts_writer, us_quarters
from sandbox.answers import Answer, json_answer, s3_error, sec_page
from sandbox.companies import Companies
from sandbox.us_facts import UsCompany

_FACTS = re.compile(r"/api/xbrl/companyfacts/(CIK(\d{10})\.json)")
_SUBMISSIONS = re.compile(r"/submissions/CIK(\d{10})(-submissions-001)?\.json")
_DATA = re.compile(r"/(api/xbrl/companyfacts|submissions)/[^/]+\.json")
_DOCUMENTS_KEPT = 16
_RECENT = 4


def undeclared() -> Answer:
    """No identity in User-Agent, or one that nobody can be reached by."""
    title = "Your Request Originates from an Undeclared Automated Tool"
    text = "The sandbox saw no contact in User-Agent. Name yourself and an address to be reached at."
    return sec_page(403, title, title, text)


def rate_exceeded(status: int) -> Answer:
    """429 at the moment it happens, 403 for as long as the block lasts."""
    text = "The sandbox counted more requests than the limit. Stop all work for ten minutes."
    return sec_page(status, "Request Rate Threshold Exceeded", "Too many requests in a second", text)


class Edgar:
    """Answers the paths of data.sec.gov and www.sec.gov. Documents are made on the way, a few are kept."""

    def __init__(self, companies: Companies, facts_bytes: int) -> None:
        self._companies = companies
        self._padding = facts_writer.filler(facts_bytes)
        self._facts = lru_cache(maxsize=_DOCUMENTS_KEPT)(self._render)

    def answer(self, path: str) -> Answer:
        """404 in the file store's words where there is no such file, 403 where there is no such place."""
        if path == "/files/company_tickers.json":
            return self._tickers()
        if match := _FACTS.fullmatch(path):
            facts = self._facts(int(match[2]))
            return _no_such_key(path) if facts is None else Answer(200, facts)
        if match := _SUBMISSIONS.fullmatch(path):
            company = self._companies.us(int(match[1]))
            found = None if company is None else (_older if match[2] else _submissions)(company)
            return _no_such_key(path) if found is None else json_answer(200, found)
        return _no_such_key(path) if _DATA.fullmatch(path) else s3_error(403, "AccessDenied", "Access Denied")

    def _render(self, cik: int) -> bytes | None:
        company = self._companies.us(cik)
        if company is None or not company.filings:
            return None
        return facts_writer.render(company, self._padding)

    def _tickers(self) -> Answer:
        every = enumerate(self._companies.every_us())
        return json_answer(
            200, {str(n): {"cik_str": c.cik, "ticker": c.ticker, "title": c.name} for n, c in every}
        )


def _no_such_key(path: str) -> Answer:
    return s3_error(404, "NoSuchKey", "The specified key does not exist.", path.lstrip("/"))


@dataclass(frozen=True, slots=True)
class _Listed:
    """A report as the list of filings has it."""

    accession: str
    filed: date
    end: date
    form: str


def _reports(company: UsCompany) -> list[_Listed]:
    """Annual and quarterly reports, the last filed first."""
    found = [_Listed(f.accession, f.filed, f.end, f.form) for f in company.filings]
    if company.has_quarters:
        quarters = (quarter for filing in company.filings for quarter in us_quarters.after(filing))
        found += [_Listed(q.accession, q.filed, q.end, "10-Q") for q in quarters]
    return sorted(found, key=lambda report: report.filed, reverse=True)


def _page(company: UsCompany, reports: list[_Listed]) -> dict[str, object]:
    return {
        "accessionNumber": [report.accession for report in reports],
        "filingDate": [report.filed.isoformat() for report in reports],
        "reportDate": [report.end.isoformat() for report in reports],
        "form": [report.form for report in reports],
        "isXBRL": [1 for _ in reports],
        "isInlineXBRL": [1 for _ in reports],
        "primaryDocument": [document_name(company, report.end) for report in reports],
    }


def document_name(company: UsCompany, end: date) -> str:
    """Of the report of the period that ends then."""
    return f"{company.ticker.lower()}-{end:%Y%m%d}.htm"


def _older(company: UsCompany) -> dict[str, object] | None:
    """The second page: what the first answer has no room for; None when it has."""
    older = _reports(company)[_RECENT:]
    return _page(company, older) if older else None


def _submissions(company: UsCompany) -> dict[str, object]:
    reports = _reports(company)
    older = reports[_RECENT:]
    page = {
        "name": f"CIK{company.cik:010d}-submissions-001.json",
        "filingCount": len(older),
        "filingFrom": older[-1].filed.isoformat() if older else "",
        "filingTo": older[0].filed.isoformat() if older else "",
    }
    last_year = company.filings[-1].end if company.filings else None
    return {
        "cik": f"{company.cik:010d}",
        "entityType": "operating",
        "sic": "7372",
        "sicDescription": "Services-Prepackaged Software",
        "name": company.name,
        "tickers": [company.ticker],
        "exchanges": ["Sandbox"],
        "fiscalYearEnd": f"{last_year:%m%d}" if last_year else None,
        "formerNames": [],
        "filings": {"recent": _page(company, reports[:_RECENT]), "files": [page] if older else []},
    }
