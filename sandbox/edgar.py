"""SEC EDGAR's answers: tickers, submissions and companyfacts, and its ways to say no.

Shapes: https://www.sec.gov/search-filings/edgar-application-programming-interfaces
"""

from __future__ import annotations

import re
from functools import lru_cache

from sandbox import facts_writer
from sandbox.answers import Answer, json_answer, s3_error, sec_page
from sandbox.companies import Companies
from sandbox.us_facts import UsCompany

_FACTS = re.compile(r"/api/xbrl/companyfacts/(CIK(\d{10})\.json)")
_SUBMISSIONS = re.compile(r"/submissions/(CIK(\d{10})\.json)")
_DATA = re.compile(r"/(api/xbrl/companyfacts|submissions)/[^/]+\.json")
_DOCUMENTS_KEPT = 16


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
            company = self._companies.us(int(match[2]))
            return _no_such_key(path) if company is None else json_answer(200, _submissions(company))
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


def _submissions(company: UsCompany) -> dict[str, object]:
    latest_first = company.filings[::-1]
    recent = {
        "accessionNumber": [filing.accession for filing in latest_first],
        "filingDate": [filing.filed.isoformat() for filing in latest_first],
        "reportDate": [filing.end.isoformat() for filing in latest_first],
        "form": [filing.form for filing in latest_first],
        "isXBRL": [1 for _ in latest_first],
        "isInlineXBRL": [1 for _ in latest_first],
        "primaryDocument": [f"{company.ticker.lower()}-{filing.end:%Y%m%d}.htm" for filing in latest_first],
    }
    return {
        "cik": f"{company.cik:010d}",
        "entityType": "operating",
        "name": company.name,
        "tickers": [company.ticker],
        "exchanges": ["Sandbox"],
        "fiscalYearEnd": f"{latest_first[0].end:%m%d}" if latest_first else None,
        "formerNames": [],
        "filings": {"recent": recent, "files": []},
    }
