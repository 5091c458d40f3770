from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.exceptions import NotFound

from webapp import needs, panels
from webapp.panels import PAGES, PANELS, shelf
from webapp.panels.panel import Args, Panel
from webapp.panels.shelf import Shelf
from webapp.questions import Look

Enter = Callable[[str], FlaskClient]
POLL = "/panels?page=dashboard"


def tag(**versions: str) -> str:
    return " ".join(f"{name}:{version}" for name, version in versions.items())


def versions(answer_tag: str) -> dict[str, str]:
    return dict(part.split(":") for part in answer_tag.split())


def sent(text: str) -> set[str]:
    """The panels in an answer to a poll."""
    return set(re.findall(r'<hx-partial hx-target="#panel-([a-z_]+)" hx-swap="outerMorph">', text))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that any connection executes from now on."""
    said: list[str] = []
    execute = psycopg.Cursor.execute

    def note(self: psycopg.Cursor, query: Any, *args: Any, **more: Any) -> psycopg.Cursor:
        said.append(str(query))
        return execute(self, query, *args, **more)

    monkeypatch.setattr(psycopg.Cursor, "execute", note)
    return said


def test_a_page_holds_the_panels_that_its_poll_brings(
    viewer: FlaskClient, a_list: Callable[..., int]
) -> None:
    a_list(3)
    page = viewer.get("/").text
    for name in panels.of_page("dashboard"):
        assert f'id="panel-{name}"' in page
    url, has = re.findall(r'hx-get="([^"]+)" hx-trigger="tick from:body".*? hx-ptag="([^"]+)"', page)[0]
    assert set(versions(has)) == set(panels.of_page("dashboard"))
    answer = viewer.get(url.replace("&amp;", "&"), headers={"HX-PTag": has})
    assert (answer.status_code, answer.data) == (304, b"")


def test_a_poll_brings_only_what_changed(
    viewer: FlaskClient, a_list: Callable[..., int], expire: Callable[[], None]
) -> None:
    a_list(3)
    first = viewer.get(POLL)
    assert sent(first.text) == set(panels.of_page("dashboard"))
    expire()
    has = first.headers["HX-PTag"]
    assert viewer.get(POLL, headers={"HX-PTag": has}).status_code == 304
    a_list(2, done=1)
    expire()
    second = viewer.get(POLL, headers={"HX-PTag": has})
    assert {"counts", "lists"} <= sent(second.text) <= {"counts", "lists", "verdict", "bar", "needs"}
    changed = {n for n, v in versions(second.headers["HX-PTag"]).items() if versions(has)[n] != v}
    assert changed == sent(second.text)


def test_an_unchanged_panel_has_the_same_bytes_at_another_time(
    viewer: FlaskClient,
    web: psycopg.Connection,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    a_worker: Callable[..., object],
    expire: Callable[[], None],
) -> None:
    a_list(30, done=22, failed={"parse_error": 2})
    a_key("CH main")
    a_key("CH trial", state="invalid", last_error="401")
    web.execute("UPDATE account SET rest_until = extract(epoch FROM now()) + 500.5 WHERE name = 'CH main'")
    a_worker(held=3)
    before = {name: viewer.get(f"/panels/{name}").data for name in panels.of_page("dashboard")}
    expire()
    again = {name: viewer.get(f"/panels/{name}").data for name in panels.of_page("dashboard")}
    assert before == again


def test_no_panel_says_ago_or_in(
    viewer: FlaskClient, a_list: Callable[..., int], a_worker: Callable[..., object]
) -> None:
    a_list(30, done=22, failed={"parse_error": 2})
    a_worker()
    for name in panels.of_page("dashboard"):
        text = re.sub(r"<time .*?</time>|<[^>]*>", "", viewer.get(f"/panels/{name}").text)
        assert not re.search(r"\bago\b|\bin \d", text.replace("in 1 h", "")), name


def test_what_a_morph_leaves_alone_has_an_id_of_its_own(
    viewer: FlaskClient, a_list: Callable[..., int]
) -> None:
    a_list(2)
    html = "".join(viewer.get(f"/panels/{name}").text for name in panels.of_page("dashboard"))
    left_alone = re.findall(r"<[^>]* hx-morph-skip[^>]*>", html)
    ids = [re.findall(r' id="([^"]+)"', one)[0] for one in left_alone]  # without, it is taken for a neighbour
    assert len(set(ids)) == len(left_alone) >= 4


def test_as_of_travels_in_a_header_of_every_answer_also_of_304(
    viewer: FlaskClient, web: psycopg.Connection, a_list: Callable[..., int]
) -> None:
    a_list(1)
    first = viewer.get(POLL)
    second = viewer.get(POLL, headers={"HX-PTag": first.headers["HX-PTag"]})
    assert second.status_code == 304
    (now,) = web.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchall()[0]
    for answer in (first, second, viewer.get("/panels/counts")):
        moments = dict(part.split("=") for part in answer.headers["Sluice-As-Of"].split())
        assert abs(float(moments["now"]) - now) < 2
        assert all(float(at) <= float(moments["now"]) + 0.1 for at in moments.values())
    assert b"as of" not in first.data


def test_viewers_of_one_role_share_a_look(
    sign_in: Enter, a_list: Callable[..., int], counted: list[str]
) -> None:
    a_list(1)
    one, other = sign_in("viewer"), sign_in("viewer")
    one.get(POLL)
    other.get("/panels?page=nowhere")  # it is known who asks
    counted.clear()
    other.get(POLL)
    one.get(POLL)
    assert counted == []


def test_roles_do_not_share(sign_in: Enter, web_app: Flask, a_list: Callable[..., int]) -> None:
    a_list(1)
    sign_in("viewer").get(POLL)
    sign_in("operator").get(POLL)
    roles = {role for _, role, _ in web_app.extensions["shelf"]._kept}
    assert roles == {"viewer", "operator"}


def test_threads_that_come_together_look_once(
    web: psycopg.Connection, web_app: Flask, a_list: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_list(1)
    looks, together = [], threading.Barrier(6)

    def count(look: Look, _args: Args) -> dict[str, object]:
        looks.append(look)
        return {"verdict": needs.verdict(look)}

    kept = Shelf({"verdict": replace(PANELS["verdict"], question=count, least_seconds=60)})

    def ask() -> None:
        with web_app.test_request_context():
            together.wait()
            kept.take(("verdict",), {}, "viewer")

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(looks) == 1


@pytest.mark.parametrize("page", list(PAGES))
def test_a_poll_asks_as_many_questions_of_few_jobs_as_of_many_lists(
    viewer: FlaskClient,
    page: str,
    a_list: Callable[..., int],
    a_key: Callable[..., int],
    a_worker: Callable[..., object],
    expire: Callable[[], None],
    counted: list[str],
) -> None:
    def statements() -> int:
        expire()
        counted.clear()
        assert viewer.get(f"/panels?page={page}").status_code == 200
        return len(counted)

    a_list(1)
    a_key("one")
    a_worker()
    few = statements()
    for n in range(25):
        a_list(5, done=2, failed={"parse_error": 1, "not_found": 1})
        a_key(f"key {n}")
        a_worker(held=1)
    assert statements() <= few
    assert few <= 26, "\n".join(counted)


@contextmanager
def broken(web_app: Flask, name: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def fail(_look: Look, _args: Args) -> dict[str, object]:
        raise error

    with monkeypatch.context() as patch:
        patch.setitem(
            web_app.extensions, "shelf", Shelf({**PANELS, name: replace(PANELS[name], question=fail)})
        )
        yield


def test_a_panel_that_cannot_be_read_is_replaced_and_the_rest_is_live(
    viewer: FlaskClient,
    web_app: Flask,
    a_list: Callable[..., int],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    a_list(2, name="the list")
    with broken(web_app, "workers", ValueError("a bug with a secret"), monkeypatch):
        answer = viewer.get(POLL)
        assert answer.status_code == 200
        code = re.findall(r"This panel could not be read\..*\(code ([0-9a-f]{4})\)", answer.text)
        assert len(code) == 1
        assert f"code {code[0]}" in caplog.text
        assert "the list" in answer.text
        assert "a bug with a secret" not in answer.text
        assert viewer.get("/panels/workers").status_code == 500
        has = answer.headers["HX-PTag"]
        assert viewer.get(POLL, headers={"HX-PTag": has}).status_code == 304  # the same words, not new ones
    assert viewer.get("/panels/workers").status_code == 200


def test_a_failed_statement_does_not_take_the_other_panels_with_it(
    viewer: FlaskClient, web_app: Flask, a_list: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_list(2, name="the list")

    def fail(look: Look, _args: Args) -> dict[str, object]:
        look.conn.execute("SELECT no_such_column")
        return {}

    kept = Shelf({**PANELS, "counts": replace(PANELS["counts"], question=fail)})
    monkeypatch.setitem(web_app.extensions, "shelf", kept)
    answer = viewer.get(POLL)
    assert answer.text.count("This panel could not be read.") == 1
    assert "the list" in answer.text


def test_a_panel_of_what_is_not_there_makes_the_page_one_that_is_not_there(
    viewer: FlaskClient, web_app: Flask, a_list: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_list(1)
    with broken(web_app, "workers", NotFound(), monkeypatch):
        assert viewer.get("/").status_code == 404
        assert viewer.get("/panels/workers").status_code == 404
        answer = viewer.get(POLL)  # the page was there before: it says so, and is live
        assert answer.status_code == 200
        assert "This is not there any more." in answer.text


def test_a_lost_database_is_an_error_of_the_poll_not_of_a_panel(
    viewer: FlaskClient, web_app: Flask, a_list: Callable[..., int], monkeypatch: pytest.MonkeyPatch
) -> None:
    a_list(1)
    with broken(web_app, "counts", psycopg.OperationalError("gone"), monkeypatch):
        answer = viewer.get(POLL, headers={"HX-Request": "true"})
    assert answer.status_code == 503
    assert "The database does not answer." in answer.text
    with broken(web_app, "counts", psycopg.errors.QueryCanceled("too slow"), monkeypatch):
        assert viewer.get(POLL).status_code == 200


def test_a_panel_changes_at_most_every_so_many_seconds(
    viewer: FlaskClient, web_app: Flask, a_list: Callable[..., int]
) -> None:
    a_list(1)
    viewer.get(POLL)
    kept = {name: one for (name, _, _), one in web_app.extensions["shelf"]._kept.items()}
    assert {name: one.holds_seconds for name, one in kept.items()} == {
        name: PANELS[name].least_seconds for name in panels.of_page("dashboard")
    }


def test_the_shelf_is_bounded(viewer: FlaskClient, web_app: Flask, a_list: Callable[..., int]) -> None:
    a_list(1)
    for n in range(40):
        viewer.get(f"/panels/chart?range={n}&ignored={n}")
    kept = web_app.extensions["shelf"]._kept
    assert len({args for _, _, args in kept}) == 40
    assert shelf.MOST_KEPT < 1000


def test_what_is_no_argument_of_a_panel_does_not_reach_it(
    viewer: FlaskClient, web_app: Flask, a_list: Callable[..., int]
) -> None:
    a_list(1)
    for n in range(3):
        viewer.get(f"/panels/counts?list={n}")
    assert len(web_app.extensions["shelf"]._kept) == 1


def test_there_is_no_panel_of_another_name(viewer: FlaskClient) -> None:
    assert viewer.get("/panels/nothing").status_code == 404


def test_every_panel_belongs_to_a_page_and_says_what_it_asks() -> None:
    shown = set(panels.EVERYWHERE) | {name for names in PAGES.values() for name in names}
    assert shown == set(PANELS)
    for name, one in PANELS.items():
        assert isinstance(one, Panel)
        assert (one.question.__doc__ or "").strip(), name


def test_the_bar_shows_only_pages_that_are_there_and_where_one_is(
    viewer: FlaskClient, web_app: Flask
) -> None:
    bar = viewer.get("/panels/bar?page=dashboard.empty").text
    for url in re.findall(r'href="([^"]+)"', bar):
        assert viewer.get(url).status_code in (200, 308)
    assert re.findall(r'aria-current="page">(\w+)', bar) == ["Dashboard"]
