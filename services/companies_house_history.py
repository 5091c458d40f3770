"""Which accounts in a company's filing history are the ones to read.

https://developer-specs.company-information.service.gov.uk/ : filing history, category `accounts`.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final
from urllib.parse import urlsplit

from services.extraction import Answer, Asked, Empty, Failed, Get

LATEST: Final = "latest"
ITEMS_PER_PAGE: Final = 100
PAGES_ALLOWED: Final = 20
YEARS_IN_ACCOUNTS: Final = 2
"""The year and the one before it: SI 2008/409, Schedule 1, paragraph 7."""

_NOT_FOUND: Final = 404
_ACCOUNTS_TYPES: Final = ("AA", "AAMD")
_YEAR_CHARACTERS: Final = 4


@dataclass(frozen=True, slots=True)
class Accounts:
    """Accounts as the register lists them. Dates as ISO 8601, blank when not told.

    `metadata`: the path of the document's metadata, None while there is no document.
    """

    made_up_to: str
    filed: str
    form: str
    metadata: str | None

    @property
    def year_end(self) -> str:
        """The oldest entries tell only when they were filed."""
        return self.made_up_to or self.filed


def check_made_up_to(text: str) -> str | None:
    """What is wrong with a choice of accounts as an option, or None."""
    if text == LATEST or re.fullmatch("[0-9]{4}", text):
        return None
    if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) and day(text):
        return None
    return f"must be {LATEST}, a balance sheet date such as 2023-12-31, or a year such as 2023"


def find(
    number: str, made_up_to: str, years: int
) -> Generator[Asked, Any, Sequence[Accounts] | Empty | Failed]:
    """The accounts of the wanted date, then the older ones that tell of as many years: each tells of two.

    Of several for one date the last filed counts. Pages are asked for only while any is still to be found.
    """
    listed: list[Accounts] = []
    seen = 0
    wanted: Sequence[Accounts] = ()
    documents = -(-years // YEARS_IN_ACCOUNTS)
    for _ in range(PAGES_ALLOWED):
        answer: Answer = yield _page(number, seen)
        if answer.status == _NOT_FOUND:
            return Failed("not_found", f"Companies House knows no filing history for {number}.")
        page = json_object(answer)
        if page is None:
            return Failed("parse_error", "The filing history is not the JSON that was expected.")
        items = _objects(page.get("items"))
        listed += [_accounts(item) for item in items if _is_accounts(item)]
        wanted = _wanted(listed, made_up_to, documents)
        seen += len(items)
        total = page.get("total_count")
        if len(wanted) == documents or not items or not isinstance(total, int) or seen >= total:
            break
    if wanted:
        return wanted
    of = "" if made_up_to == LATEST else f" made up to {made_up_to}"
    return Empty("no_accounts", f"{number} has filed no accounts{of}.")


def _wanted(listed: Iterable[Accounts], made_up_to: str, documents: int) -> list[Accounts]:
    newest: dict[str, Accounts] = {}
    for one in sorted(listed, key=lambda one: (one.year_end, one.filed), reverse=True):
        newest.setdefault(one.year_end, one)
    ordered = list(newest.values())
    for place, one in enumerate(ordered):
        if made_up_to == LATEST or _is_of(one, made_up_to):
            return ordered[place::YEARS_IN_ACCOUNTS][:documents]
    return []


def _is_of(one: Accounts, made_up_to: str) -> bool:
    """A year is the one in which the balance sheet date lies."""
    if len(made_up_to) == _YEAR_CHARACTERS:
        return one.made_up_to.startswith(f"{made_up_to}-")
    return one.made_up_to == made_up_to


def _page(number: str, seen: int) -> Get:
    params = (("category", "accounts"), ("items_per_page", str(ITEMS_PER_PAGE)))
    start = (("start_index", str(seen)),) if seen else ()
    return Get(f"/company/{number}/filing-history", (*params, *start))


def _is_accounts(item: Mapping[str, Any]) -> bool:
    """The category also holds changes of the accounting date (AA01) and parents' guarantees."""
    return item.get("type") in _ACCOUNTS_TYPES or _text(item.get("description")).startswith("accounts-")


def _accounts(item: Mapping[str, Any]) -> Accounts:
    values = item.get("description_values")
    made_up = _text(values.get("made_up_date")) if isinstance(values, dict) else ""
    return Accounts(
        made_up[:10], _text(item.get("date")), _text(item.get("type")), path(item, "document_metadata")
    )


def path(holder: Mapping[str, Any], link: str) -> str | None:
    """Where a link leads. It may name a host that no longer exists: only its path counts."""
    links = holder.get("links")
    address = links.get(link) if isinstance(links, dict) else None
    try:
        found = urlsplit(_text(address)).path
    except ValueError:
        return None
    return found if found.startswith("/") else None


def json_object(answer: Answer) -> dict[str, Any] | None:
    """The answer's JSON object; None when it is anything else."""
    try:
        found = answer.json()
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def day(found: str) -> date | None:
    """A date that begins with an ISO 8601 day; None when it does not."""
    try:
        return date.fromisoformat(found[:10])
    except ValueError:
        return None


def _objects(found: object) -> list[dict[str, Any]]:
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def _text(found: object) -> str:
    return found if isinstance(found, str) else ""
