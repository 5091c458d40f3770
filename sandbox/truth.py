"""What a right extraction must bring, made from the figures and never from a document."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import TypeAlias

from sandbox import uk_accounts, us_facts
from sandbox.companies import Companies
from sandbox.uk_accounts import UkCompany
from sandbox.us_facts import UsCompany

Row: TypeAlias = dict[str, object]


def of_company(companies: Companies, service: str, number: str) -> Row | None:
    """The truth about one company of the lists, or None when no list of the sandbox names it."""
    if service == "companies_house":
        uk = companies.uk_sample.get(number) or companies.uk(number)
        return None if uk is None else _uk(uk)
    us = companies.us(int(number)) if number.isdecimal() else None
    return None if us is None else _us(us)


def of_all(companies: Companies, service: str) -> dict[str, Row]:
    """The truth about the sample and every generated company, by company number."""
    if service == "companies_house":
        return {company.number: _uk(company) for company in companies.every_uk()}
    return {str(company.cik): _us(company) for company in companies.every_us()}


def sample_csv(companies: Companies, service: str) -> str:
    """The sample as a list that people would upload, troubles included."""
    if service == "companies_house":
        return _csv("company_number", ((c.number, c.name) for c in companies.uk_sample.values()))
    return _csv("cik", ((str(c.cik), c.name) for c in companies.us_sample.values()))


def companies_csv(companies: Companies, service: str) -> str:
    """The sample and every generated company, in the same shape."""
    if service == "companies_house":
        return _csv("company_number", ((c.number, c.name) for c in companies.every_uk()))
    return _csv("cik", ((str(c.cik), c.name) for c in companies.every_us()))


def _uk(company: UkCompany) -> Row:
    match company.trouble:
        case "unknown":
            return _row("failed", None, "not_found")
        case "damaged":
            return _row("failed", None, "parse_error")
        case "pdf_only" | "no_accounts":
            return _row("done", "empty", company.trouble)
    return _done(uk_accounts.columns(company), uk_accounts.REQUIRED)


def _us(company: UsCompany) -> Row:
    if company.trouble is not None:
        return _row("done", "empty", company.trouble)
    return _done(us_facts.columns(company), us_facts.REQUIRED)


def _done(values: dict[str, str], required: set[str]) -> Row:
    return _row("done", "complete" if required <= values.keys() else "partial", None, values)


def _row(status: str, outcome: str | None, cause: str | None, values: dict[str, str] | None = None) -> Row:
    return {"status": status, "outcome": outcome, "cause": cause, "values": values or {}}


def _csv(header: str, rows: Iterator[tuple[str, str]]) -> str:
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow((header, "name"))
    writer.writerows(rows)
    return written.getvalue()
