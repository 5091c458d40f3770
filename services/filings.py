"""A filing -> one row, each value with its source; of files on disk also plain values, ready for JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from typing import Any, Final, NamedTuple

from services import us_facts, us_filed
from services.archives import Document, documents
from services.extraction import Empty, Failed, Scalar, Source, Value
from services.ixbrl import Fact, Filing, Unreadable, read
from services.uk_accounts import CONSOLIDATED, Period, latest, normalise, padded_number

REGISTERED_NUMBER: Final = "companies_house_registered_number"

_US_GENERAL: Final = (
    "entity_name", "cik", "fiscal_year_end", "period_start", "period_end", "form", "filed", "accession",
)  # fmt: skip
_NUMBER_IN_NAME: Final = re.compile(r"Prod\d+_\d+_([A-Za-z0-9]{1,8})_\d{8}(?!\d)|CIC-([A-Za-z0-9]{1,8})(?=/)")


class UkAccounts(NamedTuple):
    """Accounts: the row of their latest year, what to know of them, and all that they tell."""

    row: dict[str, Value]
    flags: tuple[str, ...]
    periods: tuple[Period, ...]
    filing: Filing


class Companyfacts(NamedTuple):
    """What the SEC has of a company: the row of the last annual report, and all that it was chosen from."""

    row: dict[str, Value]
    found: Mapping[str, Any]


def read_accounts(data: bytes, origin: Source) -> UkAccounts | Empty | Failed:
    """UK accounts in iXBRL or XBRL. `origin` gives document, filing date and form to each value's source.

    The registered number is the document's own, else that in the name of a bulk product's file.
    """
    try:
        filing = read(data)
    except Unreadable as error:
        return Failed("parse_error", str(error))
    if not filing.facts:
        return Empty("no_facts", "The document holds no tagged facts.")
    accounts = normalise(filing, origin)
    row = latest(accounts)
    if REGISTERED_NUMBER not in row:
        row |= number_in_name(origin.document or "")
    return UkAccounts(row, accounts.flags, accounts.periods, filing)


def read_companyfacts(data: bytes) -> Companyfacts | Empty | Failed:
    """The SEC's JSON of one company. Each value's source names the report that it is from."""
    try:
        found = us_filed.read(data)
    except ValueError as error:
        return Failed("parse_error", f"The JSON cannot be read: {error}")
    if not isinstance(found, dict) or not isinstance(found.get("facts"), dict):
        return Failed("parse_error", "The JSON is not the SEC's companyfacts.")
    row = us_facts.latest_annual(found, [*_US_GENERAL, *us_facts.SERIES])
    if "period_end" not in row:
        return Empty("no_facts", "It holds no figures from an annual report.")
    return Companyfacts(row, found)


def read_document(document: Document) -> UkAccounts | Companyfacts | Empty | Failed:
    """Whatever filing a file on disk is: its first sign tells JSON from the rest."""
    if document.data.lstrip()[:1] == b"{":
        return read_companyfacts(document.data)
    return read_accounts(document.data, Source(document=document.name))


def read_file(name: str, data: bytes, with_facts: bool = False) -> Iterator[dict[str, Any]]:
    """One dictionary for each document in a file. Nothing is raised, and one bad member stops no archive.

    `{"file", "cause", "message", the columns of the latest year…, "units", "periods", "flags"}`, and
    `"facts"` when asked. `cause` is None or a code of `services.causes`: `parse_error`, `no_facts`,
    `too_large`. Numbers are texts, so that nothing rounds them; dates are ISO 8601. `units` are those of the
    latest year's figures: `{"debtors": "GBP"}`.
    """
    for found in documents(name, data):
        if isinstance(found, Document):
            yield _document(found, with_facts)
        else:
            yield _without_values(found.name, found.cause, found.message)


def _document(document: Document, with_facts: bool) -> dict[str, Any]:
    match read_document(document):
        case UkAccounts(row, flags, periods, filing):
            answer = _with_values(document.name, row, [_period(one) for one in periods], flags)
            return answer | ({"facts": _facts(filing)} if with_facts else {})
        case Companyfacts(row, found):
            answer = _with_values(document.name, row, _annual_periods(us_facts.annual(found)))
            return answer | ({"facts": list(_companyfacts_facts(document.data))} if with_facts else {})
        case without:
            return _without_values(document.name, without.cause, without.message)


def _with_values(
    name: str, row: Mapping[str, Value], periods: list[dict[str, Any]], flags: Iterable[str] = ()
) -> dict[str, Any]:
    answer: dict[str, Any] = {"file": name, "cause": None, "message": ""}
    answer |= {column: plain(value.value) for column, value in row.items()}
    all_flags = {*flags, *(flag for value in row.values() for flag in value.flags)}
    units = {name: value.source.unit for name, value in row.items() if value.source and value.source.unit}
    return answer | {"units": units, "periods": periods, "flags": sorted(all_flags)}


def _annual_periods(series: Mapping[str, us_facts.Series]) -> list[dict[str, Any]]:
    """By period end, the latest first. What a company files with the SEC is consolidated."""
    periods = []
    for end in sorted({end for by_end in series.values() for end in by_end}, reverse=True):
        values = {field: by_end[end] for field, by_end in series.items() if end in by_end}
        sources = [value.source for value in values.values() if value.source]
        starts = Counter(source.period_start for source in sources if source.period_start)
        start = max(starts, key=lambda start: starts[start], default=None)
        ends = {"period_start": plain(start), "period_end": plain(end)}
        columns = {field: plain(value.value) for field, value in values.items()}
        periods.append({"scope": CONSOLIDATED, **ends, **columns})
    return periods


def _companyfacts_facts(data: bytes) -> Iterator[dict[str, Any]]:
    """Every fact as it was filed, those of quarterly reports too."""
    found = us_filed.read_all(data)
    for taxonomy, tags in _items(found["facts"]):
        for tag, about in _items(tags):
            for unit, facts in _items(about.get("units") if isinstance(about, dict) else None):
                for fact in facts if isinstance(facts, list) else ():
                    if isinstance(fact, dict):
                        yield _companyfacts_fact(f"{taxonomy}:{tag}", unit, fact)


def _companyfacts_fact(name: str, unit: str, fact: Mapping[str, Any]) -> dict[str, Any]:
    said = {key: plain(value) for key, value in fact.items() if isinstance(value, str | int | Decimal)}
    value = said.get("val")
    as_of_ixbrl = {"name": _storable(name), "kind": "n", "value": value, "nil": value is None}
    ends = {"start": said.get("start"), "end": said.get("end")}
    about: dict[str, Any] = {"dims": {}, "unit": _storable(unit), "decimals": None, "flags": []}
    filed = {"form": said.get("form"), "filed": said.get("filed"), "accession": said.get("accn")}
    return as_of_ixbrl | ends | about | filed


def _items(found: object) -> Iterable[tuple[str, Any]]:
    return found.items() if isinstance(found, dict) else ()


def plain(value: Scalar) -> str | bool | None:
    """A value for JSON: exact numbers as text without trailing zeros, dates as ISO 8601."""
    match value:
        case bool():
            return value
        case int():
            return str(value)
        case Decimal():
            text = format(value, "f")
            return text.rstrip("0").rstrip(".") if "." in text else text
        case date():
            return value.isoformat()
        case str():
            return _storable(value)
        case _:
            return value


def _storable(text: str) -> str:
    """Without lone surrogates, which JSON can name and UTF-8 cannot hold."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _without_values(name: str, cause: str, message: str) -> dict[str, Any]:
    number = {column: plain(value.value) for column, value in number_in_name(name).items()}
    nothing: dict[str, Any] = {"units": {}, "periods": [], "flags": []}
    return {"file": name, "cause": cause, "message": message, **number, **nothing}


def number_in_name(name: str) -> Mapping[str, Value]:
    """The registered number in a bulk product's file name, such as `Prod223_3384_09355500_20221231.html`."""
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
