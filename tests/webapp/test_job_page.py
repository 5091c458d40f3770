"""One job's page: what happened, fields with sources, raw answers; what an operator may do, and when not."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from flask.testing import FlaskClient
from hypothesis import given
from hypothesis import strategies as st

from store import answers, claims, job_details, tally
from store.answers import KeptAnswer
from store.calls import Call, CallSeen
from store.claims import Claim, Settlement
from store.states import Outcome, Status
from webapp import fields
from webapp.pages.job import MOST_SHOWN_BYTES
from webapp.story import Attempt, Quiet, story

A = Callable[..., int]
Post = Callable[..., Any]
Notices = Callable[[FlaskClient, Any], str]
IsText = Callable[[str], bool]


@pytest.fixture
def claimed(web: psycopg.Connection, a_list: A, a_key: A, a_worker: Callable[..., UUID]) -> Claim:
    """A job in a worker's hands, of a list that asks for a figure, the year before and a name."""
    a_key("CH main")
    list_id = a_list(1)
    web.execute(
        "UPDATE list SET fields = '{name,cash,cash_prior,debtors,debtors_prior}' WHERE id = %s", (list_id,)
    )
    return claims.claim(web, a_worker(), "companies_house", None, n=1, soon_seconds=2.0).claims[0]


def call(claim: Claim, request: str, verdict: str = "usable", key: int = 1, **more: Any) -> Call:
    usual = {"status": 200, "message": None, "waited_ms": 40, "took_ms": 160, "body_bytes": 99}
    values = {**usual, "late": False, "sent_at": time.monotonic() - 1.0, **more}
    return Call(claim.id, claim.claim_no, claim.worker, key, request, verdict, **values)


def kept(claim: Claim, body: bytes, n: int = 1) -> KeptAnswer:
    mark = bytes([n]) * 32
    return KeptAnswer(claim.id, mark, 1, claim.service, f"GET /{n}", 200, {"content-type": "text/html"}, body)


def settle(web: psycopg.Connection, claim: Claim, result: dict[str, Any] | None = None, **more: Any) -> None:
    how: dict[str, Any] = {"status": Status.FAILED, "cause": "parse_error", "message": "no good", "tried": 1}
    if result is not None:
        how = {"status": Status.DONE, "outcome": Outcome.PARTIAL, "result": json.dumps(result)}
    one = Settlement(claim.id, claim.worker, claim.claim_no, **how)
    claims.settle(web, [one], now=time.monotonic(), **more)


RESULT = {
    "values": {"name": "Seven Ltd", "cash": -351200, "cash_prior": 1204512},
    "sources": {"cash": {"tag": "core:Cash", "context": "c1", "unit": "GBP", "period_end": "2026-03-31"}},
    "flags": {"cash_prior": ["candidates_differ"]},
}


def test_fields_stand_beside_the_year_before_with_source_flags_and_what_is_missing(
    web: psycopg.Connection, viewer: FlaskClient, claimed: Claim
) -> None:
    settle(web, claimed, RESULT)
    page = viewer.get(f"/jobs/{claimed.id}").text
    for words in ("Seven Ltd", "(351,200)", "1,204,512", "core:Cash", "at 2026-03-31", "candidates differ"):
        assert words in page
    assert "3 of 5" in page
    assert page.count(">missing<") == 2


def test_the_unit_of_most_figures_is_said_once_and_any_other_beside_its_figure(
    web: psycopg.Connection, viewer: FlaskClient, claimed: Claim
) -> None:
    units = {"cash": "GBP", "debtors": "GBP", "eps": "GBP/shares"}
    values = {"cash": 1, "cash_prior": 5, "debtors": 2, "eps": 3, "name": "Four"}
    web.execute("UPDATE list SET fields = '{name,cash,cash_prior,debtors,eps}'")
    settle(
        web, claimed, {"values": values, "sources": {name: {"unit": unit} for name, unit in units.items()}}
    )
    panel = " ".join(viewer.get(f"/panels/job_fields?job={claimed.id}").text.split())
    assert panel.count("Figures are in GBP unless a unit stands beside them.") == 1
    assert '3 <span class="mute">GBP/shares</span>' in panel
    assert '5 <span class="mute">no unit</span>' in panel
    assert panel.count('<span class="mute">') == 1 + 2, "the count of fields and two units"


def test_a_result_without_units_says_nothing_of_them(
    web: psycopg.Connection, viewer: FlaskClient, claimed: Claim
) -> None:
    settle(web, claimed, {"values": {"cash": 1}})
    panel = viewer.get(f"/panels/job_fields?job={claimed.id}").text
    assert "Figures are in" not in panel
    assert "no unit" not in panel


@pytest.mark.parametrize(
    ("chosen", "there", "gone"), [("missing", "debtors", "Seven Ltd"), ("flagged", "cash", "debtors")]
)
def test_missing_and_flagged_are_filters(
    web: psycopg.Connection, viewer: FlaskClient, claimed: Claim, chosen: str, there: str, gone: str
) -> None:
    settle(web, claimed, RESULT)
    panel = viewer.get(f"/panels/job_fields?job={claimed.id}&fields={chosen}").text
    assert f'who">{there}<' in panel
    assert gone not in panel
    assert f'?fields={chosen}" aria-current="true"' in panel


def test_every_claim_is_told_with_its_calls_or_that_there_was_none(
    web: psycopg.Connection, viewer: FlaskClient, claimed: Claim
) -> None:
    calls = [call(claimed, "/first"), call(claimed, "/again", "key_rests", status=429, message="slow down")]
    claims.settle(web, [], calls=calls, now=time.monotonic())
    for n in range(3):
        claims.release(web, claimed.worker, {claimed.id: claimed.claim_no + n})
        (again,) = claims.claim(web, claimed.worker, "companies_house", None, n=1, soon_seconds=2.0).claims
    settle(web, again, calls=[call(again, "/last")])
    page = viewer.get(f"/jobs/{claimed.id}").text
    told = [page.index(words) for words in ("/first", "slow down", "Claim 2 to 3", "Claim 4", "/last")]
    assert told == sorted(told)
    assert "CH main" in page
    assert "key rests" in page
    assert "The document could not be read." in page
    assert "Retry after a fix" in page
    assert page.count('<svg class="wf"') == 3


def test_an_answer_is_shown_as_text_whatever_it_is(
    web: psycopg.Connection, viewer: FlaskClient, claimed: Claim
) -> None:
    html = b"<html><script>alert(1)</script>\xff</html>"
    settle(web, claimed, answers=[kept(claimed, html), kept(claimed, b"second", 2)])
    shown = viewer.get(f"/jobs/{claimed.id}/answers/1")
    assert shown.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert shown.headers["X-Content-Type-Options"] == "nosniff"
    assert shown.text == html.decode(errors="replace")
    assert viewer.get(f"/jobs/{claimed.id}/answers/2").text == "second"
    for n in ("0", "3", "x", "99999"):
        assert viewer.get(f"/jobs/{claimed.id}/answers/{n}").status_code == 404
    assert viewer.get(f"/jobs/{claimed.id + 1}/answers/1").status_code == 404


def test_a_long_answer_is_cut_on_the_page_and_whole_as_a_file(
    web: psycopg.Connection, viewer: FlaskClient, claimed: Claim
) -> None:
    body = b"x" * (MOST_SHOWN_BYTES + 1)
    settle(web, claimed, answers=[kept(claimed, body)])
    shown = viewer.get(f"/jobs/{claimed.id}/answers/1").text
    assert shown.startswith("x" * MOST_SHOWN_BYTES + "\n")
    assert "download it" in shown
    whole = viewer.get(f"/jobs/{claimed.id}/answers/1?download")
    assert whole.data == body
    assert whole.headers["Content-Disposition"].startswith("attachment")
    assert whole.headers["Content-Type"] == "application/octet-stream"


def test_a_failed_job_is_retried_once_and_its_answers_stay(
    web: psycopg.Connection, operator: FlaskClient, claimed: Claim, post: Post, notices: Notices
) -> None:
    settle(web, claimed, answers=[kept(claimed, b"paid for")])
    assert notices(operator, post(operator, f"/jobs/{claimed.id}/retry")) == "Sent back."
    assert answers.body(web, claimed.id, 1) == b"paid for"
    refused = notices(operator, post(operator, f"/jobs/{claimed.id}/retry"))
    assert "Nothing was changed" in refused
    assert "This one is pending." in refused


@pytest.mark.parametrize("result", [None, RESULT])
def test_a_fresh_retry_drops_result_and_answers_and_counts_stay_true(
    web: psycopg.Connection,
    operator: FlaskClient,
    claimed: Claim,
    post: Post,
    notices: Notices,
    result: dict[str, Any] | None,
) -> None:
    settle(web, claimed, result, answers=[kept(claimed, b"paid for")])
    said = notices(operator, post(operator, f"/jobs/{claimed.id}/ask-again"))
    assert "The service will be asked again." in said
    one = job_details.see(web, claimed.id)
    assert one is not None
    assert (one.status, one.result, one.attempts) == ("pending", None, 0)
    assert answers.see(web, claimed.id) == []
    assert [(c.status, c.n) for c in tally.read(web)] == [("pending", 1)]


def test_a_fresh_retry_of_a_job_that_has_not_ended_drops_nothing(
    web: psycopg.Connection, operator: FlaskClient, claimed: Claim, post: Post, notices: Notices
) -> None:
    claims.settle(web, [], answers=[kept(claimed, b"paid for")])
    said = notices(operator, post(operator, f"/jobs/{claimed.id}/ask-again"))
    assert "This one is in progress." in said
    assert answers.body(web, claimed.id, 1) == b"paid for"


def test_a_job_of_a_paused_list_waits_for_it(
    web: psycopg.Connection, operator: FlaskClient, claimed: Claim, post: Post, notices: Notices
) -> None:
    settle(web, claimed)
    web.execute("UPDATE list SET state = 'paused'")
    assert "when its list is resumed" in notices(operator, post(operator, f"/jobs/{claimed.id}/retry"))


def test_a_viewer_sees_no_button_and_may_not_retry(
    web: psycopg.Connection, viewer: FlaskClient, operator: FlaskClient, claimed: Claim, post: Post
) -> None:
    settle(web, claimed)
    path = f"/jobs/{claimed.id}"
    assert f'hx-post="{path}/retry"' in operator.get(path).text
    page = viewer.get(path).text
    assert "hx-post" not in page
    assert 'method="post"' not in page
    for act in ("retry", "ask-again"):
        assert post(viewer, f"{path}/{act}").status_code == 403
        assert operator.post(f"{path}/{act}").status_code == 400
    one = job_details.see(web, claimed.id)
    assert one is not None
    assert one.status == "failed"


def test_htmx_is_told_where_to_go_and_what_was_shown_before_is_not_shown_there(
    web: psycopg.Connection, operator: FlaskClient, claimed: Claim, token_of: Callable[[str], str]
) -> None:
    settle(web, claimed)
    headers = {"HX-Request": "true", "X-CSRFToken": token_of(operator.get("/account").text)}
    assert ">Failed<" in operator.get(f"/jobs/{claimed.id}").text
    answer = operator.post(f"/jobs/{claimed.id}/retry", headers=headers)
    assert (answer.status_code, answer.headers["HX-Location"]) == (204, f"/jobs/{claimed.id}")
    assert ">Failed<" not in operator.get(f"/jobs/{claimed.id}").text


def test_only_a_job_that_moves_is_polled(
    web: psycopg.Connection, viewer: FlaskClient, claimed: Claim, expire: Callable[[], None]
) -> None:
    assert f"page=jobs.moving&amp;job={claimed.id}" in viewer.get(f"/jobs/{claimed.id}").text
    moving = f"/panels?page=jobs.moving&job={claimed.id}"
    assert 'id="panel-job"' in viewer.get(moving).text
    settle(web, claimed)
    expire()
    assert "page=jobs.ended" in viewer.get(f"/jobs/{claimed.id}").text
    assert 'id="panel-job"' not in viewer.get(f"/panels?page=jobs.ended&job={claimed.id}").text


def test_hostile_text_is_text(
    web: psycopg.Connection, viewer: FlaskClient, claimed: Claim, hostile: str, is_text: IsText
) -> None:
    web.execute("UPDATE job SET name = %s, extra = %s", (hostile, json.dumps({hostile: hostile})))
    result = {
        "values": {"name": hostile},
        "sources": {"name": {"tag": hostile, "document": hostile}},
        "flags": {"name": [hostile]},
        "notes": [hostile],
    }
    settle(
        web,
        claimed,
        result,
        calls=[call(claimed, hostile, "refused", message=hostile)],
        answers=[kept(claimed, b"x")],
    )
    web.execute("UPDATE answer SET request = %s", (hostile,))
    page = viewer.get(f"/jobs/{claimed.id}").text
    assert is_text(page)
    assert page.count("&lt;script&gt;alert") >= 10
    assert "49" not in page.replace("49h", "")[page.index("panel-job") :].split("</h1>")[0]


def test_a_job_asks_as_many_questions_whatever_it_went_through(
    web: psycopg.Connection,
    viewer: FlaskClient,
    claimed: Claim,
    expire: Callable[[], None],
    statements: list[str],
) -> None:
    def asked() -> int:
        expire()
        statements.clear()
        assert viewer.get(f"/jobs/{claimed.id}").status_code == 200
        return len(statements)

    few = asked()
    many = [call(claimed, f"/{n}") for n in range(400)]
    claims.settle(
        web, [], calls=many, answers=[kept(claimed, b"x", n) for n in range(40)], now=time.monotonic()
    )
    assert asked() <= few
    page = viewer.get(f"/jobs/{claimed.id}").text
    assert page.count('<svg class="wf"') == 300
    assert "Earlier calls are left out" in page


@pytest.mark.parametrize("path", ["/jobs/1", f"/jobs/{2**63 - 1}", f"/jobs/{2**70}", "/jobs/x"])
def test_a_job_that_is_not_there_is_not_found(
    web: psycopg.Connection, viewer: FlaskClient, path: str
) -> None:
    assert viewer.get(path).status_code == 404


def test_a_job_that_was_removed_while_it_was_looked_at_is_said_to_be_gone(
    web: psycopg.Connection, viewer: FlaskClient
) -> None:
    for name in ("job", "job_story", "job_fields", "job_answers"):
        for job in ("1", "x", "9" * 40, "٣"):
            answer = viewer.get(f"/panels/{name}?job={job}")
            assert answer.status_code == 404
            assert "This is not there any more." in answer.text


# The parts that know no database.


def seen(claim_no: int, at: float, waited: int = 0, took: int = 10) -> CallSeen:
    moment = datetime(2026, 11, 30, tzinfo=UTC) + timedelta(seconds=at)
    return CallSeen(
        1, 1, claim_no, uuid4(), None, 1, "k", "/", "usable", 200, None, waited, took, False, 0, moment
    )


@given(
    st.integers(1, 40),
    st.lists(st.tuples(st.integers(1, 40), st.floats(0, 1e5), st.integers(0, 10**6), st.integers(0, 10**6))),
)
def test_every_claim_is_told_once_in_order_and_bars_stay_in_their_box(
    last: int, made: list[tuple[int, float, int, int]]
) -> None:
    calls = [seen(min(no, last), at, waited, took) for no, at, waited, took in sorted(made)]
    told = story(last, calls)
    numbers = [n for one in told for n in _numbers(one)]
    assert numbers == list(range(1, last + 1))
    for one in told:
        for sent in one.sent if isinstance(one, Attempt) else ():
            assert -0.01 <= sent.waits_at <= sent.waits_at + sent.waits <= 100.01
            assert -0.01 <= sent.answers_at <= 100.01
            assert sent.answers >= 0.99


def _numbers(one: Attempt | Quiet) -> list[int]:
    return [one.claim_no] if isinstance(one, Attempt) else list(range(one.first, one.last + 1))


def test_calls_that_were_left_out_are_no_quiet_claims() -> None:
    assert [_numbers(one) for one in story(9, [seen(7, 1.0)], all_calls=False)] == [[7], [8, 9]]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1204512, "1,204,512"),
        (-351200, "(351,200)"),
        (Decimal("-0.50"), "(0.50)"),
        (Decimal("12345.6"), "12,345.6"),
        (True, "yes"),
        ("<b>", "<b>"),
        (0, "0"),
    ],
)
def test_values_are_grouped_and_negative_ones_in_brackets(value: object, text: str) -> None:
    assert fields.shown(value) == text


def test_a_year_before_without_its_field_has_a_row_of_its_own() -> None:
    found = fields.rows(["cash_prior", "debtors", "debtors_prior"], {})
    assert [(row.name, row.prior is not None) for row in found] == [("cash_prior", False), ("debtors", True)]


def test_an_answer_of_another_list_is_told_as_reused_and_counted_apart(
    web: psycopg.Connection, viewer: FlaskClient, claimed: Claim
) -> None:
    reused = replace(call(claimed, "/theirs", "reused", message="the answer that job 7 got"), key_id=None)
    settle(web, claimed, calls=[call(claimed, "/ours"), reused])
    page = viewer.get(f"/jobs/{claimed.id}").text
    assert "1 call, " in page
    assert "1 answer of other jobs reused" in page
    assert "reused, not sent" in page
    assert "the answer that job 7 got" in page
