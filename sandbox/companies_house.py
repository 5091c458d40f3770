"""Companies House's answers: profile, filing history, document metadata, the hop to the document.

Shapes: https://developer-specs.company-information.service.gov.uk/
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping
from datetime import date, timedelta
from functools import lru_cache

from sandbox import ixbrl_writer
from sandbox.answers import Answer, json_answer
from sandbox.companies import Companies
from sandbox.server import Request
from sandbox.storage import Storage
from sandbox.uk_accounts import Accounts, UkCompany, filed_on

XHTML, PDF = "application/xhtml+xml", "application/pdf"
_COMPANY = re.compile(r"/company/([^/]+)(/filing-history)?")
_DOCUMENT = re.compile(r"/document/([^/]+)(/content)?")
_HOSTS = ("document-api.company-information.service.gov.uk", "document-api.companieshouse.gov.uk")
_MOST_ITEMS, _USUAL_ITEMS = 100, 25
_DOCUMENTS_KEPT = 64


def unauthorised(is_missing: bool) -> Answer:
    """No Authorization header, or a key that is not known."""
    error = "Empty Authorization header" if is_missing else "Invalid Authorization"
    headers = {
        "Ch-Authentication-Error": error,
        "Www-Authenticate": "Invalid or no Authorisation header has been provided",
        "Server": "CompaniesHouse",
    }
    return json_answer(401, {"error": error, "type": "ch:service"}, headers)


class CompaniesHouse:
    """Answers the paths of both hosts. Documents are made on the way, a few are kept."""

    def __init__(self, companies: Companies, storage: Storage) -> None:
        self._companies = companies
        self._storage = storage
        self._document = lru_cache(maxsize=_DOCUMENTS_KEPT)(self._render)

    def answer(self, request: Request) -> Answer:
        if match := _COMPANY.fullmatch(request.path):
            return self._company(match[1], request) if match[2] else self._profile(match[1])
        if match := _DOCUMENT.fullmatch(request.path):
            found = self._find(match[1])
            if found is None:
                return _not_found("document-not-found")
            return (
                self._content(match[1], found[0], request) if match[2] else self._metadata(match[1], *found)
            )
        return _not_found("resource-not-found")

    def stored(self, request: Request) -> Answer:
        """What the file store holds under a good address."""
        refused = self._storage.refusal(request)
        if refused is not None:
            return refused
        content_type = request.param("type") or ""
        document = self._document(request.path.rpartition("/")[2], content_type)
        return Answer(200, document, content_type)

    def _profile(self, number: str) -> Answer:
        company = self._companies.uk(number)
        return (
            _not_found("company-profile-not-found")
            if company is None
            else json_answer(200, _profile(company))
        )

    def _company(self, number: str, request: Request) -> Answer:
        company = self._companies.uk(number)
        if company is None:
            return _not_found("filing-history-not-found")
        size, start = request.param("items_per_page") or "", request.param("start_index") or ""
        if size and not (size.isdecimal() and 0 < int(size) <= _MOST_ITEMS):
            message = f"Invalid items_per_page, must be greater than zero and not greater than {_MOST_ITEMS}"
            return Answer(422, message.encode(), "text/plain")
        first, count = int(start) if start.isdecimal() else 0, int(size or _USUAL_ITEMS)
        wanted = (request.param("category") or "").split(",")
        items = [item for item in _history(company) if wanted == [""] or item["category"] in wanted]
        page = {
            "filing_history_status": "filing-history-available",
            "total_count": len(items),
            "start_index": first,
            "items_per_page": count,
            "items": items[first : first + count],
        }
        return json_answer(200, page)

    def _find(self, document: str) -> tuple[UkCompany, Accounts] | None:
        number, made_up_to = _named(document)
        company = self._companies.uk(number)
        filed = company.filed_accounts() if company is not None else []
        same_day = [accounts for accounts in filed if accounts.made_up_to.isoformat() == made_up_to]
        return (company, same_day[0]) if company is not None and same_day else None

    def _metadata(self, document: str, company: UkCompany, accounts: Accounts) -> Answer:
        filed = filed_on(accounts)
        content_types = _offered(company)
        itself = f"https://{_host(document)}/document/{document}"
        metadata = {
            "company_number": company.number,
            "barcode": f"X{document[:7].upper()}",
            "significant_date": f"{accounts.made_up_to}T00:00:00Z",
            "significant_date_type": "made-up-date",
            "category": "accounts",
            "pages": 9,
            "filename": f"{company.number}_aa_{filed}",
            "created_at": f"{filed}T09:30:00.123456789Z",
            "etag": hashlib.sha256(document.encode()).hexdigest()[:40],
            "links": {"self": itself, "document": f"{itself}/content"},
            "resources": {
                content_type: {"content_length": len(self._document(document, content_type))}
                for content_type in content_types
            },
        }
        return json_answer(200, metadata)

    def _content(self, document: str, company: UkCompany, request: Request) -> Answer:
        wanted = [part.partition(";")[0].strip() for part in request.headers.get("accept", "*/*").split(",")]
        offered = [name for name in _offered(company) if name in wanted or "*/*" in wanted]
        if not offered:
            return Answer(406)
        address = self._storage.address(document, offered[0], request.headers.get("host", ""))
        return Answer(302, headers={"Location": address})

    def _render(self, document: str, content_type: str) -> bytes:
        found = self._find(document)
        if found is None:
            return b""
        if content_type == PDF:
            return b"%PDF-1.4\n1 0 obj<</Type/Catalog>>endobj\ntrailer<</Root 1 0 R>>\n%%EOF\n"
        write = ixbrl_writer.damaged if found[0].trouble == "damaged" else ixbrl_writer.render
        return write(*found)


def _not_found(error: str) -> Answer:
    return json_answer(404, {"errors": [{"error": error, "type": "ch:service"}]})


def _offered(company: UkCompany) -> tuple[str, ...]:
    return (PDF,) if company.trouble == "pdf_only" else (PDF, XHTML)


def _id(company: UkCompany, made_up_to: date) -> str:
    """Everything about the document is in its name, so that nothing has to be stored."""
    return base64.urlsafe_b64encode(f"{company.number}.{made_up_to}".encode()).decode().rstrip("=")


def _named(document: str) -> tuple[str, str]:
    try:
        text = base64.urlsafe_b64decode(document + "=" * (-len(document) % 4)).decode()
    except (binascii.Error, ValueError):
        return "", ""
    number, _, made_up_to = text.partition(".")
    return number, made_up_to


def _host(document: str) -> str:
    """The real host's name, the old one for some documents, as the real register gives it."""
    return _HOSTS[hashlib.sha256(document.encode()).digest()[0] % len(_HOSTS)]


def _profile(company: UkCompany) -> Mapping[str, object]:
    accounts: dict[str, object] = {"overdue": False}
    if company.accounts is not None:
        last = company.accounts.made_up_to
        accounts["accounting_reference_date"] = {"day": f"{last.day:02d}", "month": f"{last.month:02d}"}
        accounts["last_accounts"] = {"made_up_to": last.isoformat(), "period_end_on": last.isoformat()}
    return {
        "accounts": accounts,
        "can_file": True,
        "company_name": company.name.upper(),
        "company_number": company.number,
        "company_status": "dissolved" if company.is_dissolved else "active",
        "date_of_creation": "2001-05-14",
        "jurisdiction": "england-wales",
        "links": {
            "self": f"/company/{company.number}",
            "filing_history": f"/company/{company.number}/filing-history",
        },
        "registered_office_address": {"address_line_1": "1 Sandbox Street", "locality": "London"},
        "sic_codes": ["62020"],
        "type": "ltd",
    }


def _history(company: UkCompany) -> list[dict[str, object]]:
    """Latest first: accounts of the last years (the oldest without its document), and other filings."""
    filed = company.filed_accounts()
    items = [_accounts_item(company, accounts.made_up_to, filed_on(accounts), True) for accounts in filed]
    if filed:
        long_ago = filed[-1].made_up_to - timedelta(days=365)
        items.append(_accounts_item(company, long_ago, long_ago + timedelta(days=190), False))
    items += [_item(company, f"{year}-05-20", "confirmation-statement", "CS01") for year in (2025, 2024)]
    items.append(_item(company, "2001-05-14", "incorporation", "NEWINC"))
    return sorted(items, key=lambda item: str(item["date"]), reverse=True)


def _accounts_item(
    company: UkCompany, made_up_to: date, filed: date, has_document: bool
) -> dict[str, object]:
    item = _item(company, filed.isoformat(), "accounts", "AA")
    item["description"] = "accounts-with-accounts-type-total-exemption-full"
    item["description_values"] = {"made_up_date": made_up_to.isoformat()}
    item["action_date"] = made_up_to.isoformat()
    if has_document:
        document = _id(company, made_up_to)
        link = f"https://{_host(document + 'link')}/document/{document}"
        item["links"] = {"self": f"/company/{company.number}/filing-history/x", "document_metadata": link}
    return item


def _item(company: UkCompany, day: str, category: str, form: str) -> dict[str, object]:
    transaction = base64.urlsafe_b64encode(f"{company.number}{form}{day}".encode()).decode().rstrip("=")
    return {
        "category": category,
        "date": day,
        "description": category,
        "links": {"self": f"/company/{company.number}/filing-history/{transaction}"},
        "transaction_id": transaction,
        "type": form,
    }
