"""Lists in the console: a file is looked at before anything runs, and every act says how it ended."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from store import lists, tally
from webapp.pages import list_uploads

AList = Callable[..., int]
TokenOf = Callable[[str], str]
Form = Callable[..., TestResponse]

HOSTILE = "<script>alert(1)</script>\"'&{{7*7}} \u202eevil"
GOOD = b"CompanyNumber;Name\n09355500;Alpha\n9355501;Beta\nSC722766;Gamma\n09355500;Again\nunknown;Delta\n"


@pytest.fixture
def send(operator: FlaskClient, token_of: TokenOf) -> Form:
    """`send("/lists/1/pause", counted=3)`: an operator's form as a browser without scripts sends it."""

    def post(url: str, **values: Any) -> TestResponse:
        token = token_of(operator.get("/lists").text)
        return operator.post(url, data={"csrf_token": token, **values})

    return post


@pytest.fixture
def upload(send: Form) -> Form:
    """`upload(content, name="UK")`: the form of a new list with this file."""

    def post(content: bytes, name: str = "UK", filename: str = "companies.csv", **more: Any) -> TestResponse:
        values = {"name": name, "service": "companies_house", "file": (io.BytesIO(content), filename)}
        return send("/lists/new", **{**values, **more})

    return post


def states(conn: psycopg.Connection) -> dict[str, str]:
    return {one.name: one.state for one in lists.see(conn)}


def statuses(conn: psycopg.Connection) -> dict[str, int]:
    return {one.status: one.n for one in tally.totals(conn)}


def test_an_upload_is_checked_before_anything_runs(
    upload: Form, operator: FlaskClient, web: psycopg.Connection
) -> None:
    answer = upload(GOOD)
    assert answer.status_code == 303
    assert states(web) == {"UK": "paused"}
    page = operator.get(answer.location).text
    for words in (
        "companies.csv",
        "UTF-8, semicolons, heading in line 1",
        "numbers from “CompanyNumber”, names from “Name”",
        "1 duplicate merged, 1 number repaired (such as 9355501 to 09355501 in line 3), 1 line rejected",
        "3 companies",
        "Start 3",
        "is not a company number",
    ):
        assert words in page
    assert statuses(web) == {"pending": 3}


def test_how_a_file_was_read_is_told_for_its_own_list_and_only_as_it_was(
    upload: Form, operator: FlaskClient
) -> None:
    first, other = upload(GOOD).location, upload(GOOD, "Other", "else.csv").location
    read = first.partition("?")[2]
    assert "companies.csv" not in operator.get(f"{other.partition('?')[0]}?{read}").text
    assert "companies.csv" not in operator.get(f"{first}x").text
    assert operator.get(first.partition("?")[0]).status_code == 200


@pytest.mark.parametrize(
    ("content", "filename", "says"),
    [
        (b"", "empty.csv", "empty.csv is empty"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "picture.csv", "is not a text file"),
        (b"animal,sound\ncat,meow\ndog,woof\n", "animals.csv", "has no column of company numbers"),
        (b"company_number\nunknown\n", "none.csv", "names no company"),
        (b"a,b\nno,way\n", "..\\<b>x.csv", "&lt;b&gt;x.csv"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_form_and_nothing_is_kept(
    upload: Form, web: psycopg.Connection, content: bytes, filename: str, says: str
) -> None:
    answer = upload(content, "Kept name", filename)
    assert answer.status_code == 422
    assert says in answer.text
    assert 'value="Kept name"' in answer.text
    assert states(web) == {}


@pytest.mark.parametrize("name", ["", "   ", "x" * 201, "a\nb"])
def test_a_name_that_cannot_be_typed_again_is_refused(
    upload: Form, web: psycopg.Connection, name: str
) -> None:
    assert upload(GOOD, name).status_code == 422
    assert states(web) == {}


def test_a_name_that_is_taken_is_refused_and_the_list_of_that_name_stays_as_it_is(
    upload: Form, web: psycopg.Connection
) -> None:
    upload(GOOD)
    answer = upload(GOOD + b"00000042;New\n")
    assert answer.status_code == 422
    assert "There is a list “UK” already." in answer.text
    assert statuses(web) == {"pending": 3}


def test_a_form_without_a_file_or_of_an_unknown_service_is_refused(
    send: Form, upload: Form, web: psycopg.Connection
) -> None:
    assert "Choose a file." in send("/lists/new", name="UK", service="companies_house").text
    assert upload(GOOD, service="nobody").status_code == 422
    assert states(web) == {}


def test_a_file_of_thirty_percent_bad_rows_is_read_and_each_of_them_has_its_reason(
    upload: Form, operator: FlaskClient, web: psycopg.Connection
) -> None:
    rows = [f"x{n}?" if n % 10 < 3 else f"{n:08}" for n in range(1, 1001)]
    answer = upload("\n".join(["company_number", *rows]).encode())
    page = operator.get(answer.location).text
    assert "Start 700" in page
    assert "300 lines" in page
    assert "the first 20 of 300" in page
    assert page.count("is not a company number") == 20
    taken = operator.get("/lists/1/rejects.csv")
    assert taken.text.count("\r\n") == 301
    assert taken.headers["Content-Disposition"] == 'attachment; filename="UK rejects.csv"'
    assert statuses(web) == {"pending": 700}


def test_a_file_of_more_than_fifty_megabytes_is_refused_and_one_of_a_few_is_read(
    operator: FlaskClient, token_of: TokenOf, web: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = token_of(operator.get("/lists").text)

    def sent(name: str) -> TestResponse:
        values = {"csrf_token": token, "name": name, "service": "companies_house"}
        head = '--x\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n'
        parts = [head % (key, "") + value + "\r\n" for key, value in values.items()]
        parts.append(head % ("file", '; filename="long.csv"') + "company_number,note\n09355500,")
        body = "".join(parts) + "x" * 3_000_000 + "\r\n--x--\r\n"
        return operator.post("/lists/new", data=body, content_type="multipart/form-data; boundary=x")

    assert sent("Long").status_code == 303
    monkeypatch.setattr(list_uploads, "LARGEST_UPLOAD_BYTES", 2_000_000)
    answer = sent("Longer")
    assert answer.status_code == 413
    assert "The file is too large." in answer.text
    assert states(web) == {"Long": "paused"}


def test_other_forms_take_no_large_request(operator: FlaskClient, a_list: AList, send: Form) -> None:
    list_id = a_list(1)
    assert send(f"/lists/{list_id}/pause", more="x" * 1_100_000).status_code == 413


def test_a_start_sets_the_priority_and_runs_the_list(
    upload: Form, send: Form, web: psycopg.Connection
) -> None:
    upload(GOOD)
    answer = send("/lists/1/start", priority="7", when="now")
    assert (answer.status_code, answer.location) == (303, "/lists/1")
    assert [(one.state, one.priority) for one in lists.see(web)] == [("active", 7)]
    assert send("/lists/1/start", priority="9", when="now").status_code == 409
    assert lists.see(web)[0].priority == 7


def test_fields_are_chosen_before_the_start(
    upload: Form, send: Form, operator: FlaskClient, web: psycopg.Connection
) -> None:
    location = upload(GOOD).location
    page = operator.get(location).text
    assert 'name="field" value="shareholder_funds" checked' in page
    chosen = {"fields": "chosen", "field": ["shareholder_funds", "scope"], "require": "shareholder_funds"}
    typed = {"type:shareholder_funds": "money", "unit:shareholder_funds": "GBP", "type:debtors": "integer"}
    assert send("/lists/1/start", priority="0", when="later", **chosen, **typed).status_code == 303
    (one,) = lists.see(web)
    assert (one.fields, one.required) == (["shareholder_funds", "scope"], ["shareholder_funds"])
    assert one.types == {"shareholder_funds": "money GBP"}
    page = " ".join(operator.get("/lists/1").text.split())
    assert 'shareholder_funds <span class="mute">money GBP</span>' in page, "as the list states it"
    assert 'scope <span class="mute">text</span>' in page, "as the service has it"
    again = operator.get("/lists/1/start").text
    assert 'name="field" value="debtors">' in again
    assert 'value="GBP"' in again


@pytest.mark.parametrize(
    ("chosen", "says"),
    [
        ({}, "Choose at least one field."),
        ({"field": "scope", "require": "debtors"}, "“debtors” is required and not among the fields."),
        ({"field": "debtors", "unit:debtors": "<b>"}, "debtors: “&lt;b&gt;” is no unit."),
        ({"field": "nix"}, "companies_house has no field “nix”."),
    ],
)
def test_fields_that_cannot_be_show_the_form_again_as_it_was_filled_in(
    upload: Form, send: Form, web: psycopg.Connection, chosen: dict[str, str], says: str
) -> None:
    upload(GOOD)
    before = lists.see(web)
    answer = send("/lists/1/start", priority="0", when="now", fields="chosen", **chosen)
    assert answer.status_code == 422
    assert says in answer.text
    if "require" in chosen:
        assert 'name="require" value="debtors" aria-label="debtors is required" checked' in answer.text
    assert lists.see(web) == before


def test_a_list_can_wait_for_its_start(
    upload: Form, send: Form, operator: FlaskClient, web: psycopg.Connection
) -> None:
    upload(GOOD)
    assert send("/lists/1/start", priority="-3", when="later").status_code == 303
    assert [(one.state, one.priority) for one in lists.see(web)] == [("paused", -3)]
    assert "Check and start…" in operator.get("/lists/1").text


@pytest.mark.parametrize("priority", ["", "high", "1001", "1.5"])
def test_a_start_with_a_priority_that_is_none_shows_the_form_again(
    upload: Form, send: Form, web: psycopg.Connection, priority: str
) -> None:
    upload(GOOD)
    assert send("/lists/1/start", priority=priority, when="now").status_code == 422
    assert states(web) == {"UK": "paused"}


def test_a_list_can_start_later_be_due_and_use_what_others_were_answered(
    upload: Form, send: Form, operator: FlaskClient, web: psycopg.Connection
) -> None:
    upload(GOOD)
    times = {"start_at": "2998-12-24T18:00", "due_by": "2999-01-01T00:00"}
    send("/lists/1/start", priority="0", reuse_days="7", when="now", **times)
    (one,) = lists.see(web)
    assert (one.state, one.reuse_seconds) == ("active", 7 * 86400)
    assert one.start_at == datetime(2998, 12, 24, 18, tzinfo=UTC)
    assert one.due_by == datetime(2999, 1, 1, tzinfo=UTC)
    page = operator.get("/lists/1").text
    for words in ("Set to start at 2998-12-24 18:00:00 UTC. 3 jobs will run.", "starts", "too early to say"):
        assert words in page
    assert "those of other lists are used up to 7 d 0 h" in page


def test_what_a_list_that_waits_is_set_to_is_in_its_form(
    upload: Form, send: Form, operator: FlaskClient
) -> None:
    upload(GOOD)
    times = {"start_at": "2998-12-24T18:00", "due_by": "2999-01-01T00:00"}
    send("/lists/1/start", priority="0", reuse_days="7", when="later", **times)
    page = operator.get("/lists/1/start").text
    for value in ("2998-12-24T18:00", "2999-01-01T00:00", "7"):
        assert f'value="{value}"' in page


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"due_by": "2020-01-01T00:00"}, "cannot be due in the past"),
        ({"start_at": "2999-01-01T00:00", "due_by": "2998-01-01T00:00"}, "must be due after its start"),
        ({"start_at": "soon"}, "Not a valid datetime value."),
        ({"reuse_days": "-1"}, "Give a number from 0"),
    ],
)
def test_times_that_make_no_sense_show_the_form_again(
    upload: Form, send: Form, web: psycopg.Connection, values: dict[str, str], says: str
) -> None:
    upload(GOOD)
    answer = send("/lists/1/start", priority="0", when="now", **values)
    assert answer.status_code == 422
    assert says in answer.text
    assert states(web) == {"UK": "paused"}


def test_a_list_past_its_due_time_is_late(
    operator: FlaskClient, a_list: AList, web: psycopg.Connection
) -> None:
    list_id = a_list(3, due_by=datetime(2026, 1, 1, tzinfo=UTC))
    assert ": is late" in operator.get(f"/lists/{list_id}").text
    assert ": is late" in operator.get("/lists").text


def test_an_upload_is_deleted_only_before_its_start(
    upload: Form, send: Form, web: psycopg.Connection
) -> None:
    upload(GOOD)
    upload(GOOD, "Started")
    send("/lists/2/start", priority="0", when="now")
    assert send("/lists/1/discard").status_code == 303
    assert send("/lists/2/discard").status_code == 409
    assert states(web) == {"Started": "active"}


def test_the_check_page_of_a_started_list_is_its_own_page(operator: FlaskClient, a_list: AList) -> None:
    list_id = a_list(3, done=1)
    answer = operator.get(f"/lists/{list_id}/start")
    assert (answer.status_code, answer.location) == (303, f"/lists/{list_id}")


def test_pause_and_resume_say_what_they_did_and_refuse_what_is_not_theirs(
    send: Form, operator: FlaskClient, a_list: AList, web: psycopg.Connection
) -> None:
    url = f"/lists/{a_list(3, done=1)}"
    assert send(f"{url}/resume").status_code == 409
    assert send(f"{url}/pause").location == url
    assert "Paused." in operator.get(url).text
    assert lists.see(web)[0].state == "paused"
    refused = send(f"{url}/pause")
    assert refused.status_code == 409
    assert "Only an active list can be paused. This one is paused." in refused.text
    send(f"{url}/resume")
    assert "Resumed. 2 jobs can run." in operator.get(url).text


def test_an_act_by_htmx_says_so_in_its_place_and_looks_at_the_panels(
    operator: FlaskClient, token_of: TokenOf, a_list: AList
) -> None:
    url = f"/lists/{a_list(3)}/pause"
    headers = {"X-CSRFToken": token_of(operator.get("/lists").text), "HX-Request": "true"}
    done, refused = (operator.post(url, headers=headers) for _ in range(2))
    assert (done.status_code, done.headers["HX-Retarget"], done.headers["HX-Trigger"]) == (
        200,
        "#notice",
        "tick",
    )
    assert "Paused." in done.text
    assert (refused.status_code, refused.headers["HX-Retarget"]) == (409, "#notice")
    assert "<html" not in done.text + refused.text


def test_cancel_counts_first_and_says_what_changed_meanwhile(
    send: Form, operator: FlaskClient, a_list: AList, web: psycopg.Connection
) -> None:
    list_id = a_list(10, done=2)
    assert "Cancel 8 pending jobs?" in operator.get(f"/lists/{list_id}/cancel").text
    assert statuses(web)["pending"] == 8
    web.execute("UPDATE job SET status = 'cancelled', ended_at = now() WHERE company = '00000009'")
    send(f"/lists/{list_id}/cancel", counted=8)
    assert "7 jobs were cancelled. 1 had changed meanwhile." in operator.get(f"/lists/{list_id}").text
    assert send(f"/lists/{list_id}/cancel", counted=0).status_code == 409
    assert operator.get(f"/lists/{list_id}/cancel").status_code == 303


@pytest.mark.parametrize("act", ["pause", "resume", "cancel", "start", "discard"])
def test_a_viewer_may_look_and_not_act(
    viewer: FlaskClient, token_of: TokenOf, a_list: AList, web: psycopg.Connection, act: str
) -> None:
    list_id = a_list(3, failed={"parse_error": 1})
    page = viewer.get(f"/lists/{list_id}").text
    everything = page + viewer.get("/lists").text
    for button in ("Pause", "Resume", "Cancel…", "Retry 1…", "New list"):
        assert button not in everything
    assert "parse_error" in page
    answer = viewer.post(f"/lists/{list_id}/{act}", data={"csrf_token": token_of(page)})
    assert answer.status_code == 403
    assert lists.see(web)[0].state == "active"


def test_a_viewer_uploads_nothing(viewer: FlaskClient, token_of: TokenOf, web: psycopg.Connection) -> None:
    token = token_of(viewer.get("/lists").text)
    assert viewer.get("/lists/new").status_code == 403
    assert viewer.post("/lists/new", data={"csrf_token": token}).status_code == 403


def test_no_act_is_taken_without_a_token(
    operator: FlaskClient, a_list: AList, web: psycopg.Connection
) -> None:
    list_id = a_list(3)
    for act in ("pause", "cancel"):
        assert operator.post(f"/lists/{list_id}/{act}").status_code == 400
    assert operator.post("/lists/new", data={"name": "UK"}).status_code == 400
    assert lists.see(web)[0].state == "active"


def test_a_name_is_text_on_every_page(operator: FlaskClient, a_list: AList) -> None:
    list_id = a_list(4, done=1, failed={"<b>cause</b>": 1}, name=HOSTILE)
    pages = ["/lists", f"/lists/{list_id}", f"/lists/{list_id}/cancel", f"/failures/retry?list={list_id}"]
    pages += ["/failures", f"/jobs?list={list_id}", "/jobs?cause=%3Cb%3Ecause%3C/b%3E"]
    for url in pages:
        page = operator.get(url)
        assert page.status_code == 200, url
        assert "<script>alert" not in page.text, url
        assert "<b>cause" not in page.text, url
        assert "&lt;script&gt;alert(1)" in page.text, url


@pytest.mark.parametrize("url", ["/lists/77", "/lists/77/start", "/lists/77/cancel", "/lists/99999999999"])
def test_a_list_that_is_not_there_is_no_page(operator: FlaskClient, url: str) -> None:
    assert operator.get(url).status_code == 404


def test_a_page_asks_as_much_of_many_lists_as_of_one(
    viewer: FlaskClient, a_list: AList, count_of: Callable[[Callable[[], Any]], int]
) -> None:
    first = a_list(5, done=1, failed={"parse_error": 1})
    one = [count_of(lambda url=url: viewer.get(url)) for url in ("/lists", f"/lists/{first}")]  # type: ignore[misc]
    for _ in range(5):
        a_list(5, done=1, failed={"parse_error": 1, "not_found": 2})
    many = [count_of(lambda url=url: viewer.get(url)) for url in ("/lists", f"/lists/{first}")]  # type: ignore[misc]
    assert many == one
    assert max(one) <= 22


def test_the_panels_of_a_list_that_is_deleted_say_so(
    viewer: FlaskClient, a_list: AList, web: psycopg.Connection, expire: Callable[[], None]
) -> None:
    list_id = a_list(3)
    page = viewer.get(f"/lists/{list_id}").text
    lists.delete(web, list_id)
    expire()
    poll = re.findall(r'hx-get="(/panels[^"]+)"', page)[0].replace("&amp;", "&")
    answer = viewer.get(poll, headers={"HX-Request": "true"})
    assert "This list is gone." in answer.text
    assert "could not be read" not in answer.text
