"""What a filing says about the company itself: name, number, balance sheet date, dormant or not."""

from __future__ import annotations

import re
from datetime import date
from typing import Final

from services.extraction import Source, Value
from services.ixbrl import Fact, Filing
from services.ixbrl.dates import printed_date
from services.uk_accounts.columns import GENERAL
from services.uk_accounts.model import scope_and_rest, source_of

_COLUMN_OF: Final = {tag: column for column, tags in GENERAL.items() for tag in tags}
_NUMBER: Final = re.compile(r"([A-Z]{0,2})([0-9][A-Z0-9]{0,7})\Z")
_NUMBER_LENGTH: Final = 8
_TRUTH: Final = {"true": True, "1": True, "false": False, "0": False}


def general(filing: Filing, origin: Source) -> dict[str, Value]:
    """The first usable fact for each column, by the order of its tags.

    Only facts of the whole company or group count: an officer's or a subsidiary's name is not the company's.
    """
    found: dict[str, tuple[int, Value]] = {}
    for fact in filing.facts:
        column = _COLUMN_OF.get(fact.local)
        if not column or fact.nil or scope_and_rest(fact.dimensions or {})[1]:
            continue
        rank = GENERAL[column].index(fact.local)
        if column in found and found[column][0] <= rank:
            continue
        meaning = _meaning(column, fact)
        if meaning is not None:
            found[column] = (rank, Value(meaning, source_of(fact, origin), fact.flags))
    return {column: found[column][1] for column in GENERAL if column in found}


def padded_number(text: str) -> str | None:
    """`5078870` -> `05078870`, `SC1234` -> `SC001234`; None when it cannot be a registered number."""
    found = _NUMBER.match("".join(text.split()).upper())
    if not found or len(found[0]) > _NUMBER_LENGTH:
        return None
    return found[1] + found[2].zfill(_NUMBER_LENGTH - len(found[1]))


def _meaning(column: str, fact: Fact) -> date | str | bool | None:
    text = fact.xbrl_text
    match column:
        case "balance_sheet_date":
            return printed_date(text, fact.format)
        case "companies_house_registered_number":
            return padded_number(text)
        case "company_dormant":
            truth = _TRUTH.get(text.lower())
            return not truth if truth is not None and fact.local == "CompanyNotDormant" else truth
        case _:
            return text or None
