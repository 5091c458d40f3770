"""Failures in groups, and the retry of a group: counted first, then done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import psycopg
from flask import Blueprint, flash, request
from flask.typing import ResponseReturnValue

from services.causes import CAUSES, Advice
from services.registry import SERVICES
from store import jobs, list_pages, tally
from store.list_pages import Named
from store.people import Role
from store.states import Status
from webapp import job_filters
from webapp.access import needs
from webapp.answers import go_to
from webapp.database import page_connection, snapshot
from webapp.formats import count, counted
from webapp.job_filters import JobFilter
from webapp.notices import refused
from webapp.panels.jobs import SINCE
from webapp.panels.polling import render_page

blueprint = Blueprint("failures", __name__)


@dataclass(frozen=True, slots=True)
class Counted:
    """What a retry would send back: how many by list; `waiting` of them are in lists that do not run.

    `hopeless`: how many failed for causes that a retry does not change.
    """

    by_list: dict[int, int]
    lists: list[Named]
    waiting: int
    hopeless: int

    @property
    def total(self) -> int:
        return sum(self.by_list.values())


@blueprint.get("/failures")
def show_all() -> str:
    """What failed, by cause and list."""
    asked = job_filters.failed(request.args)
    args = asked.among_failed
    if request.args.get("since") in SINCE:
        args["since"] = request.args["since"]
    with page_connection() as conn:
        named = list_pages.named(conn)
    choices: dict[str, Any] = {
        "lists": [(one.id, one.name) for one in named],
        "services": [(one.name, one.title) for one in SERVICES.values()],
        "causes": [(code, code) for code in CAUSES],
        "since": [("1h", "hour"), ("24h", "24 hours"), ("7d", "7 days")],
    }
    return render_page("failures/page.html", "failures", args, asked=asked, **choices)


@blueprint.get("/failures/retry")
@needs(Role.OPERATOR)
def ask_to_retry() -> str:
    """How many jobs a retry with this filter sends back, and how many of them to no avail."""
    asked = job_filters.failed(request.args)
    with snapshot() as conn:
        found = _count(conn, asked)
    known = CAUSES.get(asked.cause or "")
    back = "/failures?" + urlencode(asked.among_failed)
    return render_page(
        "failures/retry.html", "failures.retry", asked=asked, found=found, known=known, back=back
    )


@blueprint.post("/failures/retry")
@needs(Role.OPERATOR)
def retry() -> ResponseReturnValue:
    """Send back every failed job that the form's filter chooses, and say how that differs from the count."""
    asked = job_filters.failed(request.form)
    expected = job_filters.number_in(request.form.get("counted"))
    if expected is None:
        return refused("The form did not say how many jobs were counted. Go back and count them first.")
    with page_connection() as conn:
        sent = sum(jobs.retry(conn, list_id, asked.cause) for list_id in _count(conn, asked).by_list)
    flash(_outcome(sent, expected))
    return go_to("/failures?" + urlencode(asked.among_failed))


def _count(conn: psycopg.Connection, asked: JobFilter) -> Counted:
    named = list_pages.named(conn)
    counts = tally.read(conn, None if asked.list is None else [asked.list])
    by_list = job_filters.matching(asked, counts, named)
    chosen = [one for one in named if one.id in by_list]
    hopeless = [
        one.n
        for one in counts
        if one.list_id in by_list
        and one.status == Status.FAILED
        and asked.cause in (None, one.cause)
        and one.cause in CAUSES
        and CAUSES[one.cause].advice is Advice.NEVER
    ]
    waiting = sum(by_list[one.id] for one in chosen if one.state in ("paused", "cancelled"))
    return Counted(by_list, chosen, waiting, sum(hopeless))


def _outcome(sent: int, expected: int) -> str:
    """How a retry ended, beside what had been counted."""
    were = "was" if sent == 1 else "were"
    if sent == expected:
        return f"{counted(sent, 'job')} {were} sent back."
    if sent < expected:
        return f"{count(sent)} {were} retried. {count(expected - sent)} had changed meanwhile."
    return f"{count(sent)} {were} retried. {count(sent - expected)} more had failed meanwhile."
