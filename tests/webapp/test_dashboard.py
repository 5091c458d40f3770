from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import psycopg
import pytest
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st

from store import list_pages, lists, tally
from store.jobs import OLDEST_DUE
from webapp.forecast import Crew, Due, Held, Pace, Ready, due, held_back, pace, ready
from webapp.needs import Severity, needs, verdict
from webapp.questions import Look, Memory

NOW = datetime(2026, 11, 30, 14, 32, 30, tzinfo=UTC)
Make = Callable[..., int]


@pytest.fixture
def look(web: psycopg.Connection) -> Look:
    return Look(web, Memory())


def words(html: str) -> str:
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


# The page.


def test_while_there_is_no_list_the_first_three_steps_are_shown(
    viewer: FlaskClient, a_key: Make, a_worker: Callable[..., object], expire: Callable[[], None]
) -> None:
    page = words(viewer.get("/").text)
    assert "Three steps to the first result" in page
    assert "No worker is running." in page
    a_key("CH main")
    a_worker()
    expire()
    page = words(viewer.get("/panels/first_run").text)
    assert "CH main" in page
    assert "1 worker is ready." in page


def test_the_dashboard_shows_each_list_with_what_came_of_it(viewer: FlaskClient, a_list: Make) -> None:
    a_list(12, done=8, failed={"parse_error": 2, "not_found": 1}, name="UK <mid-caps> & more")
    page = viewer.get("/").text
    assert "UK &lt;mid-caps&gt; &amp; more" in page
    assert "91.7% of 12" in words(page)
    tiles = words(viewer.get("/panels/counts").text)
    assert "Pending 1 oldest" in tiles
    assert "Done 8 8 complete · 0 partial · 0 empty" in tiles
    assert "Failed 3 2 causes · 27.3%" in tiles


def test_every_number_leads_to_its_rows(viewer: FlaskClient, a_list: Make) -> None:
    list_id = a_list(5, failed={"parse_error": 2})
    page = viewer.get("/").text
    for url in (
        "/jobs?status=pending",
        "/jobs?status=failed",
        f"/failures?list={list_id}",
        f"/lists/{list_id}",
    ):
        assert f'href="{url}"' in page


def test_a_dashboard_shows_a_screenful_of_lists_however_many_there_are(
    viewer: FlaskClient, web: psycopg.Connection, a_list: Make
) -> None:
    for n in range(20):
        a_list(1, name=f"list {n:02}")
    ended = [a_list(1, done=1, name=f"old {n}") for n in range(5)]
    web.execute("UPDATE list SET state = 'finished', finished_at = now() WHERE id = ANY (%s)", (ended,))
    page = viewer.get("/panels/lists").text
    assert page.count("<tr id=") == 18
    assert "and 5 more" in page


def test_lists_keep_their_order_while_they_run(web: psycopg.Connection, a_list: Make) -> None:
    low = a_list(1, name="b", priority=1)
    high = a_list(1, name="c", priority=5)
    paused = a_list(1, name="a", priority=9)
    ended = a_list(1, done=1, name="0")
    lists.pause(web, paused)
    lists.finish(web)
    assert [one.id for one in list_pages.latest(web, 9, 9)] == [high, low, paused, ended]


def test_the_chart_has_whole_buckets_only_and_zeros_where_nothing_ended(
    viewer: FlaskClient, web: psycopg.Connection, a_list: Make
) -> None:
    list_id = a_list(1)
    for minutes, n in ((0, 7), (1, 5), (2, 3), (61, 9)):
        web.execute(
            "INSERT INTO tally_minute VALUES"
            " (%s, date_trunc('minute', now()) - %s * interval '1 minute', 'done', 'complete', '', %s)",
            (list_id, minutes, n),
        )
    found = re.findall(r'data-series="([^"]+)"', viewer.get("/panels/chart").text)[0]
    at, done, failed = json.loads(found)
    assert len(at) == 60
    assert done[-3:] == [0, 3, 5]
    assert sum(done) == 8
    assert sum(failed) == 0
    assert {b - a for a, b in pairwise(at)} == {60}
    for name, step, buckets in (("24h", 600, 144), ("7d", 3600, 168), ("nonsense", 60, 60)):
        text = viewer.get(f"/panels/chart?range={name}").text
        at = json.loads(re.findall(r'data-series="([^"]+)"', text)[0])[0]
        assert (at[1] - at[0], len(at)) == (step, buckets)


def test_a_viewer_sees_no_button_that_it_may_not_use(
    viewer: FlaskClient, operator: FlaskClient, a_list: Make
) -> None:
    a_list(1)
    assert "/lists/new" not in viewer.get("/").text
    assert "<button" not in viewer.get("/panels/lists").text


# What needs a person.


def test_all_is_well_when_nothing_needs_anybody(
    look: Look, a_list: Make, a_key: Make, a_worker: Callable[..., object]
) -> None:
    assert verdict(look).sentence == "All is quiet. No list is running."
    look = Look(look.conn, Memory())
    a_list(3, failed={"not_found": 1})  # nobody can do anything about it
    a_key("CH main")
    a_worker()
    said = verdict(look)
    assert (said.tone, said.sentence, said.needs) == ("ok", "All is well. 1 list running.", ())


def test_jobs_that_wait_without_a_worker_are_said_first(look: Look, a_list: Make, a_key: Make) -> None:
    a_list(3, failed={"parse_error": 1})
    a_key("CH main")
    said = verdict(look)
    assert (said.tone, said.sentence) == ("bad", "Nothing runs, with 2 things for you.")
    assert said.needs[0].title == "No worker is running"
    assert "2 jobs wait" in said.needs[0].detail


def test_a_worker_that_asks_another_service_does_not_help(
    look: Look, a_list: Make, a_key: Make, a_worker: Callable[..., object]
) -> None:
    a_list(3, service="sec_edgar")
    a_key("SEC", service="sec_edgar")
    a_worker(("companies_house",))
    assert [need.title for need in needs(look)] == ["No worker asks SEC EDGAR"]


def test_a_lost_key_is_loud_only_when_no_other_carries_on(
    look: Look, a_list: Make, a_key: Make, a_worker: Callable[..., object]
) -> None:
    a_list(3)
    a_worker()
    a_key("CH trial", state="invalid")
    (need,) = needs(look)
    assert need.severity is Severity.BAD
    assert need.title == "Key “CH trial” was rejected"
    assert need.detail == "Companies House · its jobs wait"
    a_key("CH main")
    (need,) = needs(Look(look.conn, Memory()))
    assert need.severity is Severity.WARN
    assert need.detail == "Companies House · 1 other key carries on"


def test_a_list_without_a_key_is_said(look: Look, a_list: Make, a_worker: Callable[..., object]) -> None:
    a_list(3)
    a_worker()
    assert [need.title for need in needs(look)] == ["No key of Companies House yet"]


def test_failures_that_can_be_fixed_come_by_cause_the_commonest_first(look: Look, a_list: Make) -> None:
    a_list(9, failed={"service_error": 1, "parse_error": 3, "pdf_only": 4})
    found = [need for need in needs(look) if need.part == "failures"]
    assert [need.title for need in found] == [
        "3 jobs failed: the document could not be read",
        "1 job failed: the service answered with an error",
    ]
    assert found[0].url == "/failures?cause=parse_error"
    assert found[0].detail == "parse_error · Retry after a fix"


def test_all_is_well_says_by_when_unless_a_list_cannot_be_told(
    viewer: FlaskClient,
    web: psycopg.Connection,
    a_list: Make,
    a_key: Make,
    a_worker: Callable[..., object],
    expire: Callable[[], None],
) -> None:
    a_key("CH main")
    a_worker()
    list_id = a_list(60, done=30)
    minute = "date_trunc('minute', now()) - interval '2 minutes'"
    statement = f"INSERT INTO tally_minute VALUES (%s, {minute}, 'done', 'complete', '', 30)"
    web.execute(statement, (list_id,))
    assert "All is well. 1 list running. Ready by 20" in words(viewer.get("/panels/verdict").text)
    a_list(5)
    expire()
    assert "2 lists running." in words(viewer.get("/panels/verdict").text)
    assert "Ready by" not in words(viewer.get("/panels/verdict").text)


# Numbers that pages ask for.


def test_totals_and_paces_come_from_rollups_also_while_they_are_not_folded(
    web: psycopg.Connection, a_list: Make
) -> None:
    list_id = a_list(10, done=4, failed={"parse_error": 1})
    before = {(c.status, c.outcome, c.cause): c.n for c in tally.totals(web)}
    assert before == {("pending", "", ""): 5, ("done", "complete", ""): 4, ("failed", "", "parse_error"): 1}
    a_list(2)
    assert sum(count.n for count in tally.totals(web)) == 12
    assert sum(n for _, n in tally.pace(web, [list_id], 30)[list_id]) == 5
    assert tally.pace(web, [], 30) == {}


def test_the_oldest_wait_is_found_by_its_index(web: psycopg.Connection, a_list: Make) -> None:
    a_list(50)
    web.execute("ANALYZE job")
    plan = "\n".join(row[0] for row in web.execute("EXPLAIN " + OLDEST_DUE))
    assert "job_due" in plan


# How fast, and when.


def at(minutes: int) -> datetime:
    return NOW.replace(second=0) - timedelta(minutes=minutes)


def test_a_steady_pace_is_shown_as_it_is() -> None:
    steady = [(at(n), 60) for n in range(30, 0, -1)] + [(at(0), 30)]
    found = pace(steady, NOW)
    assert (found.slowest, found.per_minute, found.fastest) == pytest.approx((60, 60, 60))


def test_a_list_that_has_just_begun_is_not_measured_by_the_time_before_it() -> None:
    assert pace([(at(1), 40), (at(0), 20)], NOW).per_minute == pytest.approx(40)


def test_nothing_moves_when_nothing_ended() -> None:
    assert pace([], NOW) == pace([(at(3), 0)], NOW) == Pace(0, 0, 0)


def test_the_range_spans_the_slowest_and_the_fastest_look_back() -> None:
    when = ready(600, 100, Pace(60, 30, 120), NOW)
    assert when is not None
    assert when.low_seconds == pytest.approx(285)
    assert when.high_seconds == pytest.approx(1260)
    assert when.latest - NOW == timedelta(seconds=1260)


@pytest.mark.parametrize(
    ("left", "ended", "of"),
    [(0, 100, Pace(9, 9, 9)), (5, 19, Pace(9, 9, 9)), (5, 99, Pace(0, 0, 0)), (5, 99, Pace(1, 0, 9))],
)
def test_nothing_is_said_too_early_or_of_what_stands_still(left: int, ended: int, of: Pace) -> None:
    assert ready(left, ended, of, NOW) is None


@given(
    minutes=st.lists(st.integers(0, 10_000), min_size=0, max_size=40),
    left=st.integers(1, 10**7),
    seconds=st.integers(0, 59),
)
def test_a_forecast_is_a_range_in_the_future(minutes: list[int], left: int, seconds: int) -> None:
    now = NOW.replace(second=seconds)
    found = pace([(at(n), count) for n, count in enumerate(minutes)][::-1], now)
    assert 0 <= found.slowest <= found.per_minute <= found.fastest
    when = ready(left, 1000, found, now)
    assert when is None or 0 < when.low_seconds < when.high_seconds


CREW = Crew(3, 24, 10, 2, 2, 2, 0.5, None, None, True, None)


def crew(**changes: object) -> Crew:
    values = {name: getattr(CREW, name) for name in Crew.__slots__}
    return Crew(**{**values, **changes})


@pytest.mark.parametrize(
    ("of", "held"),
    [
        (CREW, None),
        (crew(workers=0, slots=0, held=0), Held("workers", "no worker is running")),
        (crew(keys=0, usable_keys=0, ready_keys=0), Held("keys", "no key yet")),
        (crew(usable_keys=0, ready_keys=0), Held("keys", "no usable key")),
        (crew(ready_keys=0, first_back=NOW), Held("keys", "keys rest until", NOW)),
        (crew(rests_until=NOW, workers=0), Held("service", "the service rests until", NOW)),
        (crew(fullest=0.97), Held("keys", "keys")),
        (crew(held=24), Held("workers", "workers")),
        (crew(held=24, took_ms=6200.0), Held("service", "service: 6.2 s a call")),
    ],
)
def test_what_holds_a_list_back_is_named(of: Crew, held: Held | None) -> None:
    assert held_back("active", 10, of) == held


def test_a_list_waits_for_its_start_whatever_else_it_waits_for() -> None:
    later = NOW + timedelta(hours=1)
    held = held_back("active", 10, crew(workers=0), start_at=later, now=NOW)
    assert held == Held("start", "starts", later)
    assert held_back("active", 10, CREW, start_at=NOW, now=NOW) is None
    assert held_back("paused", 10, CREW, start_at=later, now=NOW) == Held("paused", "paused by a person")


@pytest.mark.parametrize(
    ("minutes", "left", "expected"),
    [
        (None, 5, None),
        (60, 0, None),
        (-1, 5, Due.IS_LATE),
        (9, 5, Due.WILL_BE_LATE),
        (15, 5, Due.MAY_BE_LATE),
        (20, 5, Due.ON_TIME),
    ],
)
def test_whether_a_list_will_be_late_is_said_by_its_forecast(
    minutes: int | None, left: int, expected: Due | None
) -> None:
    when = Ready(600, 1200, NOW + timedelta(minutes=10), NOW + timedelta(minutes=20))
    due_by = None if minutes is None else NOW + timedelta(minutes=minutes)
    assert due(due_by, left, when, NOW) == expected


def test_whether_a_list_will_be_late_may_be_too_early_to_say() -> None:
    assert due(NOW + timedelta(minutes=1), 5, None, NOW) == Due.UNKNOWN


def test_nothing_holds_what_is_ready_and_a_person_holds_what_is_paused() -> None:
    assert held_back("active", 0, crew(workers=0)) is None
    assert held_back("finished", 5, crew(workers=0)) is None
    assert held_back("paused", 5, CREW) == Held("paused", "paused by a person")
