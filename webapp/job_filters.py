"""Which jobs a page shows: read from its URL, written back into it, counted from the rollups. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from typing import Any

from store.job_pages import Wanted, way
from store.list_pages import Named
from store.states import Outcome, Status
from store.tally import Count

ARGS = ("status", "outcome", "cause", "list", "service", "q")
LONGEST_ARGUMENT = 200
LARGEST_LIST = 2**31 - 1
COMPANY_NUMBER = re.compile(r"[A-Z]{0,2}[0-9]{2,}[A-Z]{0,2}")
BETWEEN = "~"


@dataclass(frozen=True, slots=True)
class JobFilter:
    """What is asked for; None: anything. `list`: a list's id. `q`: the beginning of a number, or a name."""

    status: str | None = None
    outcome: str | None = None
    cause: str | None = None
    list: int | None = None
    service: str | None = None
    q: str | None = None

    @property
    def number(self) -> str | None:
        """What is searched for as the beginning of a company's number."""
        written = re.sub(r"\s", "", self.q or "").upper()
        return written if COMPANY_NUMBER.fullmatch(written) else None

    @property
    def name(self) -> str | None:
        """What is searched for as a part of a company's name, which is done within one list only."""
        return self.q if self.q and self.number is None and self.list is not None else None

    @property
    def lacks_list(self) -> bool:
        """Whether a name is searched for without a list to look in."""
        return self.q is not None and self.number is None and self.list is None

    @property
    def wanted(self) -> Wanted:
        return Wanted(self.status, self.outcome, self.cause, self.number, self.name)

    @property
    def args(self) -> dict[str, str]:
        """The query of the URL that asks for the same."""
        there = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: str(value) for name, value in there.items() if value is not None}

    @property
    def among_failed(self) -> dict[str, str]:
        """The query that asks a page of failures for the same."""
        return {name: value for name, value in self.args.items() if name not in ("status", "outcome", "q")}

    def without(self, name: str) -> dict[str, str]:
        """The query that asks for the same but for one part; what depends on it goes too."""
        gone = {name} | ({"outcome", "cause"} if name == "status" else set())
        return {key: value for key, value in self.args.items() if key not in gone}


def from_args(args: Mapping[str, str]) -> JobFilter:
    """The filter of a query. What makes no sense is left out; what implies a status gets it."""
    given = {name: _one_line(args.get(name)) for name in ARGS}
    status = given["status"] if given["status"] in set(Status) else None
    outcome = given["outcome"] if given["outcome"] in set(Outcome) else None
    if outcome is not None:
        status = Status.DONE.value
    cause = given["cause"]
    if cause is not None and status not in (Status.DONE, Status.FAILED):
        status = Status.FAILED.value
    return JobFilter(status, outcome, cause, number_in(given["list"]), given["service"], given["q"])


def failed(args: Mapping[str, str]) -> JobFilter:
    """The filter of failed jobs that a query asks for; only what the rollups know counts."""
    asked = from_args(args)
    return replace(asked, status=Status.FAILED.value, outcome=None, q=None)


def matching(asked: JobFilter, counts: Iterable[Count], lists: Sequence[Named]) -> dict[int, int]:
    """How many jobs in which lists are such jobs, before the search; exact as of `counts`."""
    of_service = {one.id for one in lists if asked.service in (None, one.service)}
    found: dict[int, int] = {}
    for one in counts:
        if one.list_id in of_service and asked.list in (None, one.list_id) and _fits(asked, one):
            found[one.list_id] = found.get(one.list_id, 0) + one.n
    return {list_id: n for list_id, n in found.items() if n > 0}


def _fits(asked: JobFilter, one: Count) -> bool:
    pairs = ((asked.status, one.status), (asked.outcome, one.outcome), (asked.cause, one.cause))
    return all(wanted is None or wanted == there for wanted, there in pairs)


def number_in(text: str | None) -> int | None:
    """An id as it stands in a query; None when it cannot be one."""
    if text is None or not text.isascii() or not text.isdigit() or len(text) > len(str(LARGEST_LIST)):
        return None
    return int(text) if int(text) <= LARGEST_LIST else None


def to_cursor(after: tuple[Any, ...] | None) -> str | None:
    """A key of a page as text for a URL."""
    if after is None:
        return None
    return BETWEEN.join(part.isoformat() if isinstance(part, datetime) else str(part) for part in after)


def from_cursor(text: str | None, asked: JobFilter) -> tuple[Any, ...] | None:
    """The key that a page begins after; None when the text is none for this filter."""
    _, key = way(asked.wanted)
    parts = (text or "").split(BETWEEN)
    if len(parts) != 1 + len(key):
        return None
    try:
        return (int(parts[0]), *(_read(kind, part) for (_, kind), part in zip(key, parts[1:], strict=True)))
    except ValueError:
        return None


def _read(kind: type, text: str) -> Any:
    if kind is datetime:
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            raise ValueError(text)
        return at
    if kind is int and abs(int(text)) >= 2**63:
        raise ValueError(text)
    return kind(text)


def _one_line(text: str | None) -> str | None:
    plain = " ".join((text or "").replace("\x00", "").split())[:LONGEST_ARGUMENT]
    return plain.encode(errors="replace").decode() or None
