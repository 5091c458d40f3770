"""The panels of jobs that a filter chooses: their rows, and the failed ones in groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from services.causes import CAUSES, Advice, Cause
from store import job_pages, list_pages, tally
from store.job_pages import MOST_COUNTED, Example
from store.list_pages import Named
from store.states import Status
from webapp import job_filters
from webapp.job_filters import JobFilter
from webapp.panels.panel import Args
from webapp.questions import Look

MOST_GROUPS = 60
EXAMPLES = 3
LOOK_BACK_DAYS = 7
SINCE = {"1h": timedelta(hours=1), "24h": timedelta(hours=24), "7d": timedelta(days=LOOK_BACK_DAYS)}
# What a person can do something about stands first.
ORDER = (Advice.AFTER_FIX, Advice.NOW, Advice.ITSELF, Advice.NEVER)


@dataclass(frozen=True, slots=True)
class Group:
    """The failed jobs of one list for one cause. `last`: in which minute one failed, within seven days."""

    of: Named
    code: str
    known: Cause | None
    n: int
    last: datetime | None
    examples: Sequence[Example]

    @property
    def advice(self) -> Advice:
        return self.known.advice if self.known else Advice.AFTER_FIX


def rows(look: Look, args: Args) -> Mapping[str, Any]:
    """Which jobs are these?"""
    asked = job_filters.from_args(args)
    named = list_pages.named(look.conn)
    counts = tally.read(look.conn, None if asked.list is None else [asked.list])
    there = job_filters.matching(asked, counts, named)
    after = job_filters.from_cursor(args.get("cursor"), asked)
    page = job_pages.page(look.conn, asked.wanted, {} if asked.lacks_list else there, after)
    return {
        "asked": asked,
        "page": page,
        "calls": job_pages.calls(look.conn, [row.id for row in page.rows]),
        "total": _total(look, asked, there),
        "in_list": sum(one.n for one in counts),
        "is_first": after is None,
        "next": job_filters.to_cursor(page.after),
        "most": MOST_COUNTED,
    }


def _total(look: Look, asked: JobFilter, there: Mapping[int, int]) -> int:
    if asked.lacks_list:
        return 0
    if asked.wanted.is_search:
        return job_pages.count(look.conn, asked.wanted, list(there))
    return sum(there.values())


def failures(look: Look, args: Args) -> Mapping[str, Any]:
    """What failed why, and what helps?"""
    asked = job_filters.failed(args)
    named = {one.id: one for one in list_pages.named(look.conn)}
    sizes = _sizes(look, asked, named)
    last = tally.last_failed(look.conn, sorted({list_id for list_id, _ in sizes}), LOOK_BACK_DAYS)
    begin = look.as_of - SINCE[args["since"]] if args.get("since") in SINCE else None
    chosen = [key for key in sizes if begin is None or (key in last and last[key] >= begin)]
    chosen.sort(key=lambda key: (*_rank(key[1]), -key[0]))
    shown = chosen[:MOST_GROUPS]
    examples = job_pages.examples(look.conn, shown, EXAMPLES)
    groups = [
        Group(named[key[0]], key[1], CAUSES.get(key[1]), sizes[key], last.get(key), examples[key])
        for key in shown
    ]
    return {
        "asked": asked,
        "groups": groups,
        "more": len(chosen) - len(shown),
        "jobs": sum(sizes[key] for key in chosen),
        "causes": len({key[1] for key in chosen}),
        "lists": len({key[0] for key in chosen}),
        "is_narrowed": bool(asked.among_failed) or begin is not None,
    }


def _sizes(look: Look, asked: JobFilter, named: Mapping[int, Named]) -> dict[tuple[int, str], int]:
    found: dict[tuple[int, str], int] = {}
    for one in tally.read(look.conn, None if asked.list is None else [asked.list]):
        fits = one.status == Status.FAILED and asked.cause in (None, one.cause) and one.list_id in named
        if fits and asked.service in (None, named[one.list_id].service):
            found[one.list_id, one.cause] = found.get((one.list_id, one.cause), 0) + one.n
    return {key: n for key, n in found.items() if n > 0}


def _rank(code: str) -> tuple[int, str]:
    advice = CAUSES[code].advice if code in CAUSES else Advice.AFTER_FIX
    return ORDER.index(advice), code
