"""Companies House: a company's accounts, from its filing history to the values in the documents.

https://developer.company-information.service.gov.uk/ : filing history -> document metadata -> content.
"""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import replace
from typing import Any, Final

from services import earlier
from services.companies import uk_number
from services.companies_house_history import (
    LATEST,
    YEARS_IN_ACCOUNTS,
    Accounts,
    check_made_up_to,
    day,
    find,
    json_object,
    path,
)
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
from services.filings import REGISTERED_NUMBER, read_accounts
from services.service import PERIODS, Field, Kind, Option, Service, check_periods
from services.uk_accounts import EMPLOYEES, PER_PERIOD, ROW

XHTML: Final = "application/xhtml+xml"
MOST_YEARS: Final = 10

_NOT_FOUND, _NOT_ACCEPTABLE = 404, 406
_DATE: Final = "balance_sheet_date"
_REQUIRED: Final = ("entity_current_legal_name", REGISTERED_NUMBER, _DATE, "shareholder_funds")
_REPEATS: Final = (_DATE, *PER_PERIOD)
_KINDS: Final = {
    "entity_current_legal_name": Kind.TEXT,
    REGISTERED_NUMBER: Kind.TEXT,
    "balance_sheet_date": Kind.DATE,
    "scope": Kind.TEXT,
    "period_start": Kind.DATE,
    "period_end": Kind.DATE,
    "company_dormant": Kind.BOOLEAN,
    EMPLOYEES: Kind.NUMBER,  # of whole people as a rule; filers write averages such as 12.5 too
}


def extract(company: Company, options: Options) -> Extraction:
    """The newest accounts, or those that `made_up_to` chooses, as one row: `services.uk_accounts.ROW`.

    The year before is told by the same document; years before that by the accounts of every other year,
    whose columns `services.earlier` names. When one of those cannot be read the rest stands, with a flag.
    """
    furthest = earlier.furthest(options.fields)
    made_up_to = options.settings.get("made_up_to", LATEST)
    found = yield from find(company.number, made_up_to, furthest + 1)
    if isinstance(found, Empty | Failed):
        return found
    newest = yield from _read(found[0], company.number)
    if not isinstance(newest, Fields):
        return newest
    values, flags = dict(newest.values), newest.flags
    for place, accounts in enumerate(found[1:], start=1):
        older = yield from _read(accounts, company.number)
        if isinstance(older, Fields):
            values |= _as_of(older.values, place * YEARS_IN_ACCOUNTS)
        else:
            flags = (*flags, "earlier_accounts_unreadable")
    return Fields({name: values[name] for name in options.fields if name in values}, flags)


def _read(accounts: Accounts, number: str) -> Generator[Asked, Any, Result]:
    """Every column that the accounts fill."""
    if accounts.metadata is None:
        return Failed("not_available", "The filing history names the accounts but no document.")
    content = yield from _content(accounts.metadata)
    if not isinstance(content, Answer):
        return content
    origin = Source(document=accounts.metadata, filed=day(accounts.filed), form=accounts.form or None)
    return _fields(content.body, origin, number)


def _as_of(row: Mapping[str, Value], back: int) -> dict[str, Value]:
    """A row's columns of its own year and of the year before, named as of a row `back` years later."""
    names = [(name, *earlier.split(name)) for name in row]
    return {earlier.column(base, back + own): row[name] for name, base, own in names if base in _REPEATS}


def _content(document: str) -> Generator[Asked, Any, Answer | Result]:
    """The document in XHTML. Its links may name hosts that no longer exist: only their paths count."""
    answer: Answer = yield Get(document, host="document")
    if answer.status == _NOT_FOUND:
        return Failed("not_available", "The filing's document is not there.")
    metadata = json_object(answer)
    if metadata is None:
        return Failed("parse_error", "The document's metadata is not the JSON that was expected.")
    resources = metadata.get("resources")
    if not isinstance(resources, dict) or XHTML not in resources:
        return Empty("pdf_only", "The accounts are offered as PDF only.")
    content_path = path(metadata, "document")
    if content_path is None:
        return Failed("not_available", "The document's metadata names no content.")
    content: Answer = yield Get(content_path, host="document", accept=XHTML)
    if content.status == _NOT_ACCEPTABLE:
        return Empty("pdf_only", "The document is not offered as XHTML.")
    if content.status == _NOT_FOUND:
        return Failed("not_available", "The document's content is not there.")
    return content


def _fields(document: bytes, origin: Source, number: str) -> Result:
    accounts = read_accounts(document, origin)
    if isinstance(accounts, Empty | Failed):
        return accounts
    row = accounts.row | _date_of_prior(accounts.row)
    stated = row.get(REGISTERED_NUMBER)
    if stated is None:
        row[REGISTERED_NUMBER] = Value(number, origin, ("from_request",))
    elif stated.value != number:
        row[REGISTERED_NUMBER] = replace(stated, flags=(*stated.flags, "differs_from_request"))
    return Fields(row, accounts.flags)


def _date_of_prior(row: Mapping[str, Value]) -> dict[str, Value]:
    """The day on which the year before ends, as most of its figures have it."""
    sources = [value.source for name, value in row.items() if earlier.split(name)[1] and value.source]
    ends = Counter(source.period_end for source in sources if source.period_end)
    if not ends:
        return {}
    end = max(ends, key=lambda end: ends[end])
    return {earlier.column(_DATE, 1): Value(end, next(one for one in sources if one.period_end == end))}


def _headers(secret: str) -> Mapping[str, str]:
    """The key is the user of basic authentication, with an empty password."""
    return {"authorization": "Basic " + base64.b64encode(f"{secret}:".encode()).decode()}


def _check_secret(secret: str) -> str | None:
    if not secret:
        return "The key is empty."
    if not secret.isascii() or not secret.isprintable() or " " in secret or ":" in secret:
        return "A Companies House key has no blanks, colons or special characters: copy it again."
    return None


def _kind(column: str) -> Kind:
    return _KINDS.get(earlier.split(column)[0], Kind.MONEY)


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
    fields=tuple(
        Field(name, _kind(name), required=name in _REQUIRED, repeats=name in _REPEATS) for name in ROW
    ),
    identify=uk_number,
    extract=extract,
    judge=judge,
    probe="00000006",
    options={
        "made_up_to": Option(
            "Which accounts: latest, a balance sheet date such as 2023-12-31, or the year it lies in.",
            LATEST,
            check=check_made_up_to,
        ),
        PERIODS: Option(
            f"How many years, 1 to {MOST_YEARS}. One document tells of two; more cost calls.",
            str(YEARS_IN_ACCOUNTS),
            check=check_periods(MOST_YEARS),
        ),
    },
)
