"""The panels of lists: all of them, how far one is, why jobs of it failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.causes import CAUSES, Advice, Cause
from store import list_pages, lists, tally
from store.lists import ListSeen
from webapp.forecast import LOOK_BACK_MINUTES
from webapp.job_filters import number_in
from webapp.panels.panel import Args
from webapp.panels.running import Row, row
from webapp.questions import Counts, Look

MOST_OPEN = 300
MOST_ENDED = 200


@dataclass(frozen=True, slots=True)
class CauseRow:
    """Why so many jobs of a list failed. `known` is None for a cause that this program has no words for."""

    code: str
    n: int
    known: Cause | None

    @property
    def can_help(self) -> bool:
        """Whether a retry can bring anything."""
        return self.known is None or self.known.advice is not Advice.NEVER


def index(look: Look, _args: Args) -> Mapping[str, Any]:
    """How far is every list?"""
    seen = list_pages.latest(look.conn, MOST_OPEN, MOST_ENDED)
    rows = _rows(look, seen)
    ended = [row for row in rows if row.of.finished_at is not None]
    return {
        "open": [row for row in rows if row.of.finished_at is None],
        "ended": ended,
        "more": sum(look.list_states.values()) - len(rows),
    }


def head(look: Look, args: Args) -> Mapping[str, Any]:
    """How far is this list, and when will it be ready?"""
    one = _asked(look, args)
    return {"row": _rows(look, [one])[0] if one else None}


def causes(look: Look, args: Args) -> Mapping[str, Any]:
    """Why did jobs of this list fail, and what can be done?"""
    list_id = number_in(args.get("list")) or 0
    failed = _counts(look, [list_id])[list_id].failed
    rows = [CauseRow(code, n, CAUSES.get(code)) for code, n in sorted(failed.items()) if n > 0]
    return {"list_id": list_id, "causes": rows, "total": sum(row.n for row in rows)}


def is_draft(one: ListSeen, jobs: Counts) -> bool:
    """Whether the list has been uploaded and never started."""
    return one.state == "paused" and jobs.total == jobs.status["pending"]


def counts_of(look: Look, list_id: int) -> Counts:
    """The jobs of one list."""
    return _counts(look, [list_id])[list_id]


def _asked(look: Look, args: Args) -> ListSeen | None:
    list_id = number_in(args.get("list"))
    return None if list_id is None else lists.one(look.conn, list_id)


def _counts(look: Look, ids: Sequence[int]) -> dict[int, Counts]:
    found = {one: Counts() for one in ids}
    for one in tally.read(look.conn, list(found)):
        found[one.list_id].add(one)
    return found


def _rows(look: Look, seen: Sequence[ListSeen]) -> list[Row]:
    ids = [one.id for one in seen]
    jobs, minutes = _counts(look, ids), tally.pace(look.conn, ids, LOOK_BACK_MINUTES)
    return [row(look, one, jobs[one.id], minutes[one.id]) for one in seen]
