"""Companies House: a company's newest accounts, from its filing history to the values in the document.

https://developer.company-information.service.gov.uk/ : filing history -> document metadata -> content.
"""

from __future__ import annotations

import base64
from collections.abc import Generator, Iterable, Mapping
from dataclasses import replace
from datetime import date
from typing import Any, Final
from urllib.parse import urlsplit

from services.companies import uk_number
from services.companies_house_judge import judge
from services.extraction import (
    Answer,
    Asked,
    Company,
    Empty,
    Extraction,
    Failed,
    Fields,
    Get,
    Options,
    Result,
    Source,
    Value,
)
from services.ixbrl import Unreadable, read
from services.service import Field, Kind, Option, Service
from services.uk_accounts import ROW, latest, normalise

XHTML: Final = "application/xhtml+xml"
LATEST: Final = "latest"
ITEMS_PER_PAGE: Final = 100
PAGES_ALLOWED: Final = 20

_NOT_FOUND, _NOT_ACCEPTABLE = 404, 406
_ACCOUNTS_TYPES: Final = ("AA", "AAMD")
_NUMBER: Final = "companies_house_registered_number"
_REQUIRED: Final = ("entity_current_legal_name", _NUMBER, "balance_sheet_date", "shareholder_funds")
_KINDS: Final = {
    "entity_current_legal_name": Kind.TEXT,
    _NUMBER: Kind.TEXT,
    "balance_sheet_date": Kind.DATE,
    "scope": Kind.TEXT,
    "period_start": Kind.DATE,
    "period_end": Kind.DATE,
    "company_dormant": Kind.BOOLEAN,
}


def extract(company: Company, options: Options) -> Extraction:
    """The newest accounts (or those made up to `made_up_date`) as one row: `services.uk_accounts.ROW`."""
    wanted = options.settings.get("made_up_date", LATEST)
    filing = yield from _accounts_filing(company.number, wanted)
    if not isinstance(filing, dict):
        return filing
    path = _path(filing, "document_metadata")
    if path is None:
        return Failed("not_available", "The filing history names the accounts but no document.")
    content = yield from _content(path)
    if not isinstance(content, Answer):
        return content
    origin = Source(document=path, filed=_date(filing.get("date")), form=_text(filing.get("type")) or None)
    return _fields(content.body, origin, company.number, options.fields)


def _accounts_filing(number: str, wanted: str) -> Generator[Asked, Any, dict[str, Any] | Result]:
    """The item of the filing history to read; pages are asked for only while it has not been found."""
    seen = 0
    for _ in range(PAGES_ALLOWED):
        answer: Answer = yield _history(number, seen)
        if answer.status == _NOT_FOUND:
            return Failed("not_found", f"Companies House knows no filing history for {number}.")
        page = _object(answer)
        if page is None:
            return Failed("parse_error", "The filing history is not the JSON that was expected.")
        items = _objects(page.get("items"))
        accounts = [item for item in items if _is_accounts(item)]
        chosen = _newest(item for item in accounts if wanted in (LATEST, _made_up(item)))
        if chosen:
            return chosen
        seen += len(items)
        total = page.get("total_count")
        if not items or not isinstance(total, int) or seen >= total:
            break
    made_up = "" if wanted == LATEST else f" made up to {wanted}"
    return Empty("no_accounts", f"{number} has filed no accounts{made_up}.")


def _content(path: str) -> Generator[Asked, Any, Answer | Result]:
    """The document in XHTML. Its links may name hosts that no longer exist: only their paths count."""
    answer: Answer = yield Get(path, host="document")
    if answer.status == _NOT_FOUND:
        return Failed("not_available", "The filing's document is not there.")
    metadata = _object(answer)
    if metadata is None:
        return Failed("parse_error", "The document's metadata is not the JSON that was expected.")
    resources = metadata.get("resources")
    if not isinstance(resources, dict) or XHTML not in resources:
        return Empty("pdf_only", "The accounts are offered as PDF only.")
    content_path = _path(metadata, "document")
    if content_path is None:
        return Failed("not_available", "The document's metadata names no content.")
    content: Answer = yield Get(content_path, host="document", accept=XHTML)
    if content.status == _NOT_ACCEPTABLE:
        return Empty("pdf_only", "The document is not offered as XHTML.")
    if content.status == _NOT_FOUND:
        return Failed("not_available", "The document's content is not there.")
    return content


def _fields(document: bytes, origin: Source, number: str, wanted: tuple[str, ...]) -> Result:
    try:
        filing = read(document)
    except Unreadable as error:
        return Failed("parse_error", str(error))
    if not filing.facts:
        return Empty("no_facts", "The document holds no tagged facts.")
    accounts = normalise(filing, origin)
    row = latest(accounts)
    stated = row.get(_NUMBER)
    if stated is None:
        row[_NUMBER] = Value(number, origin, ("from_request",))
    elif stated.value != number:
        row[_NUMBER] = replace(stated, flags=(*stated.flags, "differs_from_request"))
    return Fields({name: row[name] for name in wanted if name in row}, accounts.flags)


def _history(number: str, seen: int) -> Get:
    params = (("category", "accounts"), ("items_per_page", str(ITEMS_PER_PAGE)))
    start = (("start_index", str(seen)),) if seen else ()
    return Get(f"/company/{number}/filing-history", (*params, *start))


def _newest(items: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """By filing date; the list is newest first, so the first of equals stays."""
    return max(items, key=lambda item: _text(item.get("date")), default=None)


def _is_accounts(item: dict[str, Any]) -> bool:
    """The category also holds changes of the accounting date (AA01) and parents' guarantees."""
    return item.get("type") in _ACCOUNTS_TYPES or _text(item.get("description")).startswith("accounts-")


def _made_up(item: dict[str, Any]) -> str:
    values = item.get("description_values")
    return _text(values.get("made_up_date")) if isinstance(values, dict) else ""


def _path(holder: dict[str, Any], link: str) -> str | None:
    links = holder.get("links")
    address = links.get(link) if isinstance(links, dict) else None
    try:
        path = urlsplit(_text(address)).path
    except ValueError:
        return None
    return path if path.startswith("/") else None


def _object(answer: Answer) -> dict[str, Any] | None:
    try:
        found = answer.json()
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _objects(found: object) -> list[dict[str, Any]]:
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _text(found: object) -> str:
    return found if isinstance(found, str) else ""


def _date(found: object) -> date | None:
    try:
        return date.fromisoformat(_text(found)[:10])
    except ValueError:
        return None


def _headers(secret: str) -> Mapping[str, str]:
    """The key is the user of basic authentication, with an empty password."""
    return {"authorization": "Basic " + base64.b64encode(f"{secret}:".encode()).decode()}


def _check_secret(secret: str) -> str | None:
    if not secret:
        return "The key is empty."
    if not secret.isascii() or not secret.isprintable() or " " in secret or ":" in secret:
        return "A Companies House key has no blanks, colons or special characters: copy it again."
    return None


COMPANIES_HOUSE: Final = Service(
    name="companies_house",
    title="Companies House",
    key_is="API key of a registered application; keys of one application share its limit",
    hosts={
        "api": "https://api.company-information.service.gov.uk",
        "document": "https://document-api.company-information.service.gov.uk",
    },
    headers=_headers,
    check_secret=_check_secret,
    limits=("600/5m",),
    fields=tuple(Field(name, _KINDS.get(name, Kind.NUMBER), name in _REQUIRED) for name in ROW),
    identify=uk_number,
    extract=extract,
    judge=judge,
    probe="00000006",
    options={
        "made_up_date": Option(
            "Which accounts: `latest`, or a balance sheet date such as 2020-03-31.", LATEST
        ),
    },
)
