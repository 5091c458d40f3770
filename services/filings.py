"""Filings on disk -> one dictionary of plain values for each document, ready for JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final

from services.archives import Document, documents
from services.extraction import Scalar, Source, Value
from services.ixbrl import Fact, Filing, Unreadable, read
from services.uk_accounts import Period, latest, normalise, padded_number

REGISTERED_NUMBER: Final = "companies_house_registered_number"

_NUMBER_IN_NAME: Final = re.compile(r"Prod\d+_\d+_([A-Za-z0-9]{1,8})_\d{8}(?!\d)|CIC-([A-Za-z0-9]{1,8})(?=/)")


def read_file(name: str, data: bytes, with_facts: bool = False) -> Iterator[dict[str, Any]]:
    """One dictionary for each document in a file. Nothing is raised, and one bad member stops no archive.

    `{"file", "cause", "message", the columns of the latest year…, "periods", "flags"}`, and `"facts"` when
    asked. `cause` is None or a code of `services.causes`: `parse_error`, `no_facts`, `too_large`. Numbers are
    texts, so that nothing rounds them; dates are ISO 8601.
    """
    for found in documents(name, data):
        if not isinstance(found, Document):
            yield _without_values(found.name, found.cause, found.message)
        elif found.data.lstrip()[:1] == b"{":
            yield _companyfacts(found)
        else:
            yield _accounts(found, with_facts)


def _companyfacts(document: Document) -> dict[str, Any]:
    """The place for companyfacts JSON, which `services.sec_edgar` reads."""
    return _without_values(document.name, "parse_error", "JSON documents are not read here.")


def _accounts(document: Document, with_facts: bool) -> dict[str, Any]:
    try:
        filing = read(document.data)
    except Unreadable as error:
        return _without_values(document.name, "parse_error", str(error))
    if not filing.facts:
        return _without_values(document.name, "no_facts", "The document holds no tagged facts.")
    accounts = normalise(filing, Source(document=document.name))
    row = latest(accounts)
    if REGISTERED_NUMBER not in row:
        row |= _number_from(document.name)
    flags = {*accounts.flags, *(flag for value in row.values() for flag in value.flags)}
    answer: dict[str, Any] = {"file": document.name, "cause": None, "message": ""}
    answer |= {column: plain(value.value) for column, value in row.items()}
    answer |= {"periods": [_period(period) for period in accounts.periods], "flags": sorted(flags)}
    return answer | ({"facts": _facts(filing)} if with_facts else {})


def plain(value: Scalar) -> str | int | bool | None:
    """A value for JSON: exact numbers as text without trailing zeros, dates as ISO 8601."""
    match value:
        case Decimal():
            text = format(value, "f")
            return text.rstrip("0").rstrip(".") if "." in text else text
        case date():
            return value.isoformat()
        case _:
            return value


def _without_values(name: str, cause: str, message: str) -> dict[str, Any]:
    number = {column: plain(value.value) for column, value in _number_from(name).items()}
    return {"file": name, "cause": cause, "message": message, **number, "periods": [], "flags": []}


def _number_from(name: str) -> Mapping[str, Value]:
    """The registered number that bulk products put into file names: `Prod223_3384_09355500_20221231.html`."""
    numbers = [padded_number(one or other) for one, other in _NUMBER_IN_NAME.findall(name)]
    found = next((number for number in reversed(numbers) if number), None)
    return {REGISTERED_NUMBER: Value(found, Source(document=name), ("from_file_name",))} if found else {}


def _period(period: Period) -> dict[str, Any]:
    span = period.span
    columns = {column: plain(value.value) for column, value in period.values.items()}
    ends = {"period_start": span.start.isoformat(), "period_end": span.end.isoformat()}
    return {"scope": span.scope, **ends, **columns}


def _facts(filing: Filing) -> list[dict[str, Any]]:
    return [_fact(fact) for fact in filing.facts]


def _fact(fact: Fact) -> dict[str, Any]:
    return {
        "name": fact.name,
        "kind": "n" if fact.numeric else "t",
        "value": format(fact.value, "f") if isinstance(fact.value, Decimal) else fact.value,
        "nil": fact.nil,
        "start": plain(fact.start),
        "end": plain(fact.end),
        "dims": None if fact.dimensions is None else dict(fact.dimensions),
        "unit": fact.unit,
        "decimals": fact.decimals,
        "flags": list(fact.flags),
    }
