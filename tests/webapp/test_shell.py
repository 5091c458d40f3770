from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from flask import Flask, abort
from flask.testing import FlaskClient
from flask.typing import ResponseReturnValue

from store import database, settings
from store.people import Role
from webapp import create_app
from webapp.access import needs, public
from webapp.answers import go_to, look_again
from webapp.panels.polling import render_page

ROOT = Path(__file__).resolve().parents[2]
SECRET = "a secret of the tests, long enough"
NOWHERE = "postgresql://nobody@127.0.0.1:1/nothing"
HTMX = {"HX-Request": "true"}


@pytest.fixture
def app(web_dsn: str) -> Iterator[Flask]:
    """An app that a test may add views to."""
    app = create_app(settings.read({"DATABASE_URL": web_dsn, "SLUICE_SECRET_KEY": SECRET}))
    app.config["WTF_CSRF_ENABLED"] = False
    yield app
    app.extensions["database"].close()


# Health.


def test_the_process_is_healthy_without_a_database() -> None:
    client = create_app(settings.read({"DATABASE_URL": NOWHERE, "SLUICE_SECRET_KEY": SECRET})).test_client()
    assert client.get("/healthz").json == {"status": "ok"}
    answer = client.get("/readyz")
    assert answer.status_code == 503
    parts = {"database": "does not answer", "schema": "unknown", "monitor": "unknown"}
    assert answer.json == {"status": "not ready", **parts}


def test_it_is_ready_with_the_schema_of_this_program_alone(
    web: psycopg.Connection, web_app: Flask, make_database: Callable[[], str]
) -> None:
    assert web_app.test_client().get("/readyz").json == {
        "status": "ok",
        "database": "ok",
        "schema": database.SCHEMA,
        "monitor": "looked 0 s ago",
    }
    web.execute("UPDATE monitor SET looked_at = now() - interval '90 seconds'")
    late = web_app.test_client().get("/readyz")
    assert late.status_code == 200
    assert late.json == {**late.json, "monitor": "looked 90 s ago"}  # type: ignore[dict-item]
    web.execute("UPDATE monitor SET looked_at = NULL")
    assert web_app.test_client().get("/readyz").json["monitor"] == "never looked"  # type: ignore[index]
    dsn = make_database()
    with database.connect(dsn, "test") as conn:
        conn.execute("UPDATE alembic_version SET version_num = '0000'")
        client = create_app(settings.read({"DATABASE_URL": dsn, "SLUICE_SECRET_KEY": SECRET})).test_client()
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert "flask db upgrade" in answer.json["schema"]  # type: ignore[index]
        assert "flask db upgrade" in client.get("/link/x").text
        conn.execute("UPDATE alembic_version SET version_num = %s", (database.SCHEMA,))
        assert client.get("/readyz").status_code == 200
    client.application.extensions["database"].close()


# The secret.


def test_without_a_secret_every_page_is_refused_with_what_to_do() -> None:
    client = create_app(settings.read({})).test_client()
    for path in ("/", "/sign-in", "/healthz"):
        answer = client.get(path)
        assert answer.status_code == 503
        assert "SLUICE_SECRET_KEY is not set" in answer.text


def test_a_web_server_without_a_secret_ends_in_one_line_and_commands_do_not_need_one() -> None:
    environ = {"PATH": "/usr/bin:/bin", "FLASK_APP": "wsgi", "DATABASE_URL": NOWHERE}
    served = subprocess.run(
        [sys.executable, "-c", "import wsgi"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert served.returncode == 4  # gunicorn stops on it, and starts again what ends otherwise
    assert re.fullmatch(r"Error: SLUICE_SECRET_KEY is not set: [^\n]*\n", served.stderr)
    command = subprocess.run(
        [sys.executable, "-m", "flask", "users", "--help"],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert command.returncode == 0


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(settings.BadSetting, match="SLUICE_SECRET_KEY has 5 characters"):
        settings.read({"SLUICE_SECRET_KEY": "short"})
    assert "secret" not in repr(settings.read({"SLUICE_SECRET_KEY": SECRET}))


@pytest.mark.parametrize(
    ("name", "text"),
    [("PUBLIC_URL", "sluice.example.com"), ("TRUSTED_PROXIES", "-1"), ("TRUSTED_PROXIES", "x")],
)
def test_wrong_settings_of_the_console_are_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(settings.BadSetting, match=f"^{name} is {text}: it must be"):
        settings.read({name: text})


# When something is not as it should be.


def test_a_page_that_breaks_says_a_code_that_is_in_the_log_and_nothing_else(
    app: Flask, caplog: pytest.LogCaptureFixture
) -> None:
    @app.get("/breaks/<secret>")
    @public
    def breaks(secret: str) -> str:
        raise ValueError(secret)

    answer = app.test_client().get("/breaks/inside")
    assert answer.status_code == 500
    (code,) = re.findall(r"It is logged as ([0-9a-f]{4})\. Nothing was changed\.", answer.text)
    assert f"(code {code})" in caplog.text
    assert "inside" not in answer.text


def test_a_lost_database_is_said_in_words_and_no_connection_is_lost_with_it(
    sign_in: Callable[[str], FlaskClient], web: psycopg.Connection
) -> None:
    client = sign_in("viewer")
    web.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'sluice web' AND datname = current_database()"
    )
    assert client.get("/account").status_code == 200  # what broke between two pages is not noticed
    lost = create_app(settings.read({"DATABASE_URL": NOWHERE, "SLUICE_SECRET_KEY": SECRET})).test_client()
    answer = lost.get("/link/x")
    assert answer.status_code == 503
    assert "The database does not answer." in answer.text
    assert "nobody@" not in answer.text


@pytest.mark.parametrize(
    ("status", "words"), [(404, "There is no such page."), (413, "The file is too large.")]
)
def test_htmx_gets_a_notice_where_notices_are(app: Flask, status: int, words: str) -> None:
    @app.get("/refuses")
    @public
    def refuses() -> str:
        abort(status)

    page = app.test_client().get("/refuses")
    assert (page.status_code, "<html" in page.text, words in page.text) == (status, True, True)
    notice = app.test_client().get("/refuses", headers=HTMX)
    assert (notice.status_code, "<html" in notice.text, words in notice.text) == (status, False, True)
    assert (notice.headers["HX-Retarget"], notice.headers["HX-Reswap"]) == ("#notice", "innerHTML")


def test_an_answer_to_another_method_says_which_are_allowed(viewer: FlaskClient) -> None:
    answer = viewer.get("/sign-out")
    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]


def test_success_is_told_to_htmx_by_a_header_and_to_a_plain_form_by_303(app: Flask) -> None:
    @app.post("/acts")
    @public
    def acts() -> ResponseReturnValue:
        return go_to("/lists/5")

    @app.post("/stays")
    @public
    def stays() -> ResponseReturnValue:
        return look_again()

    client = app.test_client()
    plain, htmx = client.post("/acts"), client.post("/acts", headers=HTMX)
    assert (plain.status_code, plain.location) == (303, "/lists/5")
    assert (htmx.status_code, htmx.headers["HX-Location"]) == (204, "/lists/5")
    plain, htmx = client.post("/stays", headers={"Referer": "/x"}), client.post("/stays", headers=HTMX)
    assert (plain.status_code, plain.location) == (303, "/x")
    assert (htmx.status_code, htmx.headers["HX-Trigger"]) == (204, "tick")


def test_a_new_page_is_found_in_the_bar_and_is_closed_without_a_word(
    app: Flask, web: psycopg.Connection, token_of: Callable[[str], str]
) -> None:
    @app.get("/lists")
    def show() -> str:
        return render_page("account/page.html", "lists")

    @app.post("/lists/delete")
    @needs(Role.ADMINISTRATOR)
    def delete() -> str:
        return "deleted"

    client = app.test_client()
    assert client.get("/lists").location == "/sign-in?next=/lists"
    client.post("/sign-in", data={"email": "operator@example.com", "password": "correct horse battery"})
    assert '<a href="/lists" aria-current="page">Lists</a>' in client.get("/lists").text
    assert client.post("/lists/delete").status_code == 403
