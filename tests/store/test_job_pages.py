"""Paging through jobs meets each one once, in the order of an index, whatever the filter."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import psycopg
import pytest

from store import database, job_pages, lists, tally
from store.job_pages import AFTER_ALL, PAGE_ROWS, JobRow, Wanted, way
from store.workers import Identity

A = Callable[..., int]

SPREAD = """
UPDATE job SET status = s, name = 'Firm ' || line,
    outcome = CASE WHEN s = 'done' THEN (ARRAY['complete', 'partial', 'empty'])[1 + mod(line, 3)] END,
    result = CASE WHEN s = 'done' THEN '{"values": {}}'::jsonb END,
    cause = CASE WHEN s = 'failed' THEN (ARRAY['not_found', 'parse_error'])[1 + mod(line, 2)] END,
    ended_at = CASE WHEN s IN ('done', 'failed', 'cancelled') THEN now() END
FROM (SELECT id AS chosen, (ARRAY['pending', 'done', 'failed', 'cancelled', 'done'])[1 + mod(line, 5)] AS s
      FROM job WHERE list_id = %s) x WHERE id = chosen
"""
EVERY_WAY = [
    Wanted(),
    Wanted("pending"),
    Wanted("in_progress"),
    Wanted("failed"),
    Wanted("failed", cause="parse_error"),
    Wanted("done", outcome="partial"),
    Wanted("cancelled"),
    Wanted(number="000001"),
    Wanted("failed", number="000001"),
    Wanted(name="firm 1"),
]


@pytest.fixture
def spread(conn: psycopg.Connection, a_list: A) -> list[int]:
    """Three lists with jobs of every status but in progress."""
    ids = [a_list(conn, size) for size in (130, 7, 300)]
    for one in ids:
        conn.execute(SPREAD, (one,))
    return ids


def is_wanted(wanted: Wanted, row: JobRow) -> bool:
    return (
        wanted.status in (None, row.status)
        and wanted.outcome in (None, row.outcome)
        and wanted.cause in (None, row.cause)
        and row.company.startswith(wanted.number or "")
        and (wanted.name or "").lower() in (row.name or "").lower()
    )


def pages(conn: psycopg.Connection, wanted: Wanted, ids: list[int]) -> list[JobRow]:
    """All rows, page by page, each page as full as it can be."""
    columns = "status, outcome, cause, count(*)"
    counts = dict.fromkeys(ids, 0)
    for list_id, status, outcome, cause, n in conn.execute(
        f"SELECT list_id, {columns} FROM job GROUP BY list_id, status, outcome, cause"
    ):
        fits = wanted.status in (None, status) and wanted.outcome in (None, outcome)
        if list_id in counts and fits and wanted.cause in (None, cause):
            counts[list_id] += n
    found: list[JobRow] = []
    after = None
    while True:
        page = job_pages.page(conn, wanted, {k: n for k, n in counts.items() if n}, after)
        found += page.rows
        if page.after is None:
            return found
        assert len(page.rows) == PAGE_ROWS
        after = page.after


@pytest.mark.parametrize("wanted", EVERY_WAY, ids=str)
def test_every_job_of_a_filter_is_met_once(
    conn: psycopg.Connection, spread: list[int], wanted: Wanted
) -> None:
    everything = {row.id: row for row in pages(conn, Wanted(), spread)}
    assert len(everything) == 437
    found = pages(conn, wanted, spread)
    assert len({row.id for row in found}) == len(found)
    assert {row.id for row in found} == {one for one, row in everything.items() if is_wanted(wanted, row)}
    assert all(a.list_id >= b.list_id for a, b in pairwise(found))


def test_jobs_that_are_held_are_found(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: Callable[..., Identity], take: Callable[..., Any]
) -> None:
    a_key(conn)
    one = a_list(conn, 5)
    held = {claim.id for claim in take(conn, a_worker(conn), 3)}
    assert {row.id for row in job_pages.page(conn, Wanted("in_progress"), {one: 3}).rows} == held


def test_the_next_page_begins_after_a_list_that_is_gone_meanwhile(
    conn: psycopg.Connection, spread: list[int]
) -> None:
    after = (spread[1], "00000003")
    rows = job_pages.page(conn, Wanted(), {spread[0]: 130, spread[2]: 300}, after).rows
    assert {row.list_id for row in rows} == {spread[0]}


def test_signs_of_patterns_are_searched_for_as_they_are(conn: psycopg.Connection, a_list: A) -> None:
    one = a_list(conn, 3)
    conn.execute("UPDATE job SET name = %s WHERE line = 1 AND list_id = %s", ("100% \\_ Ltd", one))
    for text, n in (("0% \\_", 1), ("%", 1), ("_", 1), ("\\", 1), ("x%", 0)):
        assert len(job_pages.page(conn, Wanted(name=text), {one: 3}).rows) == n
        assert job_pages.count(conn, Wanted(name=text), [one]) == n


def test_a_search_is_counted_to_ten_thousand_and_no_further(conn: psycopg.Connection, a_list: A) -> None:
    one = a_list(conn, 10_050)
    assert job_pages.count(conn, Wanted(number="0"), [one]) == 10_001
    assert job_pages.count(conn, Wanted(number="0001005"), [one]) == 1


def test_examples_are_the_latest_of_each_group(conn: psycopg.Connection, spread: list[int]) -> None:
    groups = [(one, cause) for one in spread for cause in ("not_found", "parse_error")]
    found = job_pages.examples(conn, groups, 3)
    assert set(found) == set(groups)
    for (list_id, cause), rows in found.items():
        newest = conn.execute(
            "SELECT id FROM job WHERE list_id = %s AND status = 'failed' AND cause = %s"
            " ORDER BY id DESC LIMIT 3",
            (list_id, cause),
        ).fetchall()
        assert [(row.id,) for row in rows] == newest


def nodes(plan: dict[str, Any]) -> list[dict[str, Any]]:
    return [plan, *(node for child in plan.get("Plans", []) for node in nodes(child))]


def plan_of(conn: psycopg.Connection, statement: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    row = conn.execute(f"EXPLAIN (FORMAT json) {statement}", params).fetchone()
    assert row
    return nodes(row[0][0]["Plan"])


def test_no_page_reads_the_table_as_a_whole(
    dsn: str,
    a_key: A,
    a_list: A,
    a_worker: Callable[..., Identity],
    take: Callable[..., Any],
) -> None:
    with database.connect(dsn, "test") as conn:
        a_key(conn)
        ids = [a_list(conn, size) for size in (20_000, 200)]
        for one in ids:
            conn.execute(SPREAD, (one,))
        take(conn, a_worker(conn), 5)
        conn.execute("ANALYZE job")
        for wanted in EVERY_WAY:
            statement, key = way(wanted)
            name = f"%{wanted.name}%" if wanted.name else None
            params: dict[str, Any] = {
                "status": wanted.status,
                "outcome": wanted.outcome,
                "cause": wanted.cause,
                "number": wanted.number,
                "name": name,
                "after_all": AFTER_ALL,
                "lists": ids,
                "rows": PAGE_ROWS + 1,
                "after_list": 0,
            }
            params |= {f"after_{column}": None for column, _ in key}
            assert_by_index(plan_of(conn, statement, params), str(wanted))
            if wanted.number:
                assert_by_index(plan_of(conn, job_pages.COUNT_NUMBERED, params), "count")
        groups = {"lists": ids, "causes": ["not_found"] * 2, "most": 3}
        assert_by_index(plan_of(conn, job_pages.EXAMPLES, groups), "examples")


def assert_by_index(plan: list[dict[str, Any]], about: str) -> None:
    whole = [n for n in plan if n["Node Type"] == "Seq Scan" and n.get("Relation Name") == "job"]
    by_index = {n["Index Name"] for n in plan if "Index Name" in n}
    assert not whole, about
    assert by_index & {"job_once", "job_due", "job_failed", "job_held"}, about


def test_an_upload_is_discarded_only_while_nothing_of_it_has_run(
    conn: psycopg.Connection, a_key: A, a_list: A, a_worker: Callable[..., Identity], take: Callable[..., Any]
) -> None:
    a_key(conn)
    one, begun, active = a_list(conn, 2), a_list(conn, 2, priority=9), a_list(conn, 2)
    take(conn, a_worker(conn), 1)
    for each in (one, begun):
        assert lists.pause(conn, each)
    assert [lists.discard(conn, each) for each in (one, begun, active, one)] == [True, False, False, False]
    assert {seen.id for seen in lists.see(conn)} == {begun, active}


def test_when_a_group_failed_last_is_known_by_the_minute(conn: psycopg.Connection, spread: list[int]) -> None:
    conn.execute(
        "INSERT INTO tally_minute (list_id, minute, status, outcome, cause, n)"
        " SELECT %s, date_trunc('minute', now()) - m * interval '1 minute', 'failed', '', 'not_found', 1"
        " FROM unnest(ARRAY[3, 90, 20000]) m",
        (spread[0],),
    )
    found = tally.last_failed(conn, spread, 7)
    assert set(found) == {(spread[0], "not_found")}
    row = conn.execute("SELECT date_trunc('minute', now()) - interval '3 minutes'").fetchone()
    assert row
    assert found[spread[0], "not_found"] == row[0]
