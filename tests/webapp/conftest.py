"""What tests of commands and of the console can ask for: both on a database of their own.

Jobs end without a worker process; in the console's database there is somebody of each role.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest
from click.testing import Result
from cryptography.fernet import Fernet
from flask import Flask
from flask.testing import FlaskClient
from playwright.sync_api import Browser, Page, sync_playwright
from psycopg import sql
from werkzeug.serving import BaseWSGIServer, make_server

from store import claims, database, jobs, keys, limits, lists, people, settings, tally, workers
from store.claims import Settlement
from store.jobs import NewJob
from store.lists import NewList
from store.people import Role
from store.states import Outcome, Status
from store.vault import Vault
from store.workers import Identity
from webapp import create_app
from webapp.panels import PANELS
from webapp.panels.shelf import Shelf

ROOT = Path(__file__).resolve().parents[2]
SECRET = "a secret of the tests, long enough"
PASSWORD = "correct horse battery"
# Everything but people and what the migrations made.
TABLES = """
list, job, reject, tally, tally_minute, tally_delta, worker, key, allowance, account, service, answer, call,
alert, alert_rule, delivery, sign_in_try"""
_number = count(1)

Run = Callable[..., Result]
Finished = subprocess.CompletedProcess[str]


@pytest.fixture
def master_key() -> str:
    return Fernet.generate_key().decode()


@pytest.fixture
def run_with() -> Callable[..., Run]:
    """`run_with(NAME=value)("lists", "status")`: commands in this process under these settings.

    What a command raises beside an exit code fails the test.
    """

    def under(**environ: str) -> Run:
        app = create_app(settings.read(environ))

        def run(*arguments: str | Path, stdin: bytes | None = None) -> Result:
            result = app.test_cli_runner().invoke(args=[str(part) for part in arguments], input=stdin)
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            return result

        return run

    return under


@pytest.fixture
def run(run_with: Callable[..., Run], dsn: str, master_key: str) -> Run:
    """Commands on this test's database, with a master key."""
    return run_with(DATABASE_URL=dsn, SLUICE_MASTER_KEYS=master_key)


@pytest.fixture
def flask() -> Callable[..., Finished]:
    """`flask("doctor", DATABASE_URL=…)`: the real command as a process, with only these settings."""

    def start(*arguments: str | Path, stdin: str = "", **environ: str) -> Finished:
        clean = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return subprocess.run(
            [sys.executable, "-m", "flask", *map(str, arguments)],
            cwd=ROOT,
            env=clean | environ,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return start


@pytest.fixture
def committed(dsn: str) -> Iterator[psycopg.Connection]:
    """A connection to this test's database."""
    with database.connect(dsn, "test") as conn:
        yield conn


@pytest.fixture
def companies(tmp_path: Path) -> Path:
    """Three companies, a duplicate, a number without its zero, and a line that is no company."""
    file = tmp_path / "companies.csv"
    file.write_text(
        "CompanyNumber,Name\n09355500,Alpha\n9355501,Beta\nSC722766,Gamma\n09355500,Again\nunknown,Delta\n"
    )
    return file


@pytest.fixture
def end_jobs(committed: psycopg.Connection) -> Callable[[str, Mapping[str, str]], int]:
    """`end_jobs(service, results)` ends what can run of the service as a worker would; returns how many.

    `results` has JSON text by company, which is complete; a company without one fails with `not_found`.
    """
    who = Identity(uuid4(), "test · 0001", "test", 1, "0", None, ["companies_house", "sec_edgar"], 8)
    workers.register(committed, who, 60)

    def settlement(claim: claims.Claim, results: Mapping[str, str]) -> Settlement:
        how: dict[str, Any] = {"status": Status.FAILED, "cause": "not_found", "message": "Nobody knows it."}
        if claim.company in results:
            how = {"status": Status.DONE, "outcome": Outcome.COMPLETE, "result": results[claim.company]}
        return Settlement(claim.id, claim.worker, claim.claim_no, **how)

    def end_jobs(service: str, results: Mapping[str, str]) -> int:
        held = claims.claim(committed, who.id, service, None, n=100, soon_seconds=1.0).claims
        claims.settle(committed, [settlement(claim, results) for claim in held])
        return len(held)

    return end_jobs


@pytest.fixture(scope="session")
def web_dsn(make_database: Callable[[], str]) -> str:
    """The database of the console under test, with one person of each role."""
    dsn = make_database()
    with database.connect(dsn, "test") as conn:
        for role in Role:
            who = people.add(conn, f"{role}@example.com", role)
            people.use_link(conn, people.make_link(conn, who.id), PASSWORD)
    return dsn


@pytest.fixture(scope="session")
def web_app(web_dsn: str) -> Iterator[Flask]:
    """One app for all tests that do not change it."""
    app = create_app(
        settings.read(
            {
                "DATABASE_URL": web_dsn,
                "SLUICE_SECRET_KEY": SECRET,
                "SLUICE_MASTER_KEYS": Fernet.generate_key().decode(),
            }
        )
    )
    yield app
    app.extensions["database"].close()


@pytest.fixture
def web(web_dsn: str, web_app: Flask) -> Iterator[psycopg.Connection]:
    """A connection to the console's database, empty but for people and for a monitor that looked just now.

    Nothing is on the panels' shelf.
    """
    with database.connect(web_dsn, "test") as conn:
        conn.execute(f"TRUNCATE {TABLES} RESTART IDENTITY CASCADE")
        conn.execute("UPDATE monitor SET looked_at = now(), channels = '{}'")
        web_app.extensions["shelf"] = Shelf(PANELS)
        web_app.extensions["believed"].clear()
        yield conn


def csrf_of(page: str) -> str:
    found = re.search(r'name="csrf_token"[^>]*value="([^"]+)"|"X-CSRFToken": "([^"]+)"', page)
    assert found, "the page has no CSRF token"
    return found[1] or found[2]


@pytest.fixture(scope="session")
def token_of() -> Callable[[str], str]:
    """`token_of(page)`: the CSRF token of a page's form."""
    return csrf_of


@pytest.fixture
def sign_in(web: psycopg.Connection, web_app: Flask) -> Callable[[str], FlaskClient]:
    """`sign_in("viewer")`: a browser in which the person of this role has just signed in."""

    def enter(role: str) -> FlaskClient:
        client = web_app.test_client()
        token = csrf_of(client.get("/sign-in").text)
        form = {"email": f"{role}@example.com", "password": PASSWORD, "csrf_token": token}
        assert client.post("/sign-in", data=form).status_code == 303
        return client

    return enter


@pytest.fixture
def viewer(sign_in: Callable[[str], FlaskClient]) -> FlaskClient:
    return sign_in("viewer")


@pytest.fixture
def operator(sign_in: Callable[[str], FlaskClient]) -> FlaskClient:
    return sign_in("operator")


@pytest.fixture
def a_list(web: psycopg.Connection) -> Callable[..., int]:
    """`a_list(size, done=…, failed={cause: n})`: a list of so many companies, some of them ended."""

    def make(size: int = 0, done: int = 0, failed: dict[str, int] | None = None, **more: Any) -> int:
        name = more.pop("name", f"list {next(_number)}")
        new = NewList(name, more.pop("service", "companies_house"), fields=["name"], **more)
        list_id = lists.create(web, new)
        with web.transaction():
            jobs.enqueue(web, list_id, (NewJob(f"{line:08}", line=line) for line in range(1, size + 1)))
        end(web, list_id, "done", "complete", None, done)
        for cause, n in (failed or {}).items():
            end(web, list_id, "failed", None, cause, n)
        while tally.fold(web):
            pass
        return list_id

    return make


END = (
    """
WITH chosen AS (
    SELECT id FROM job WHERE list_id = %(list_id)s AND status = 'pending' ORDER BY id LIMIT %(n)s),
moved AS (
    UPDATE job j SET status = %(status)s, outcome = %(outcome)s, cause = %(cause)s, ended_at = now(),
        result = CASE WHEN %(status)s = 'done' THEN '{"values": {}}'::jsonb END
    FROM chosen WHERE j.id = chosen.id
    RETURNING j.list_id, 'pending' AS was, NULL AS was_outcome, NULL AS was_cause,
              j.status, j.outcome, j.cause),
"""
    + f"""{tally.COUNTED}
SELECT count(*) FROM moved
"""
)


def end(
    conn: psycopg.Connection, list_id: int, status: str, outcome: str | None, cause: str | None, n: int
) -> None:
    values = {"list_id": list_id, "status": status, "outcome": outcome, "cause": cause, "n": n}
    conn.execute(END, values)


@pytest.fixture
def expire(web_app: Flask) -> Callable[[], None]:
    """Calling it makes everything on the shelf too old, as time does."""

    def now() -> None:
        kept = web_app.extensions["shelf"]._kept
        for key, one in kept.items():
            kept[key] = replace(one, holds_seconds=-1.0)

    return now


@pytest.fixture
def a_key(web: psycopg.Connection) -> Callable[..., int]:
    """`a_key("CH main", "600/5m", state=…, last_error=…)`: a key; returns its id."""

    def make(label: str, limit: str = "600/5m", service: str = "companies_house", **columns: Any) -> int:
        vault = Vault([Fernet.generate_key().decode()])
        with web.transaction():
            key_id = keys.add(
                web, vault, service=service, label=label, secret=label, limits=[limits.parse(limit)]
            )
        for column, value in columns.items():
            statement = sql.SQL("UPDATE key SET {} = %s WHERE id = %s").format(sql.Identifier(column))
            web.execute(statement, (value, key_id))
        return key_id

    return make


@pytest.fixture
def a_worker(web: psycopg.Connection) -> Callable[..., UUID]:
    """`a_worker(held=8)`: a worker that beat just now; returns its id."""

    def make(services: tuple[str, ...] = ("companies_house", "sec_edgar"), held: int = 0) -> UUID:
        new = uuid4()
        who = Identity(new, f"app-1 · {new.hex[-4:]}", "app-1", 4711, "0", None, services, 8)
        workers.register(web, who, 30.0)
        web.execute("UPDATE worker SET held = %s WHERE id = %s", (held, new))
        return new

    return make


@pytest.fixture
def post(token_of: Callable[[str], str]) -> Callable[..., Any]:
    """`post(client, path, **form)`: what a plain form with the page's token sends; gives the answer."""

    def send(client: FlaskClient, path: str, **form: str) -> Any:
        token = token_of(client.get("/account").text)
        return client.post(path, data={"csrf_token": token, **form})

    return send


@pytest.fixture
def notices(expire: Callable[[], None]) -> Callable[[FlaskClient, Any], str]:
    """`notices(client, answer)`: what the page says that an act led to."""

    def said(client: FlaskClient, answer: Any) -> str:
        assert answer.status_code == 303, answer.text
        page = client.get(answer.headers["Location"])
        assert page.status_code == 200
        return " ".join(re.findall(r'<div class="notice">.*?<span>(.*?)</span>', page.text))

    return said


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that is sent from now on."""
    sent: list[str] = []
    execute = psycopg.Cursor.execute

    def counted(self: Any, query: Any, *more: Any, **named: Any) -> Any:
        sent.append(str(query))
        return execute(self, query, *more, **named)

    monkeypatch.setattr(psycopg.Cursor, "execute", counted)
    return sent


HOSTILE = '<script>alert("&amp;")</script>{{ 7*7 }}\u202e'


@pytest.fixture(scope="session")
def hostile() -> str:
    """Text that would run, be computed or steer, were it not shown as text."""
    return HOSTILE


@pytest.fixture(scope="session")
def is_text() -> Callable[[str], bool]:
    """`is_text(page)`: the hostile text is on the page, and only as text."""
    return lambda page: "<script>alert" not in page and "&lt;script&gt;alert(&#34;&amp;amp;" in page


CHROMIUM = Path("/usr/bin/chromium")
QUIET = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """A real browser without a window."""
    if not CHROMIUM.exists():
        if os.environ.get("CI"):
            pytest.fail(f"{CHROMIUM} is not there")
        pytest.skip(f"{CHROMIUM} is not there")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*QUIET, "--no-first-run"])
        yield browser
        browser.close()


class Served:
    """A web server in a thread that can be stopped and started again on the same port."""

    def __init__(self, app: Flask) -> None:
        self._app = app
        self._server: BaseWSGIServer | None = None
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self._server = make_server("127.0.0.1", self.port, self._app, threaded=True)
        self.port = self._server.port
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None


@pytest.fixture
def serve() -> Iterator[Callable[[Flask], Served]]:
    """`serve(app)`: the app behind a real port."""
    servers: list[Served] = []

    def begin(app: Flask) -> Served:
        servers.append(Served(app))
        return servers[-1]

    yield begin
    for server in servers:
        server.stop()


@pytest.fixture
def served(web: psycopg.Connection, web_app: Flask, serve: Callable[[Flask], Served]) -> Served:
    """The console under test behind a real port."""
    return serve(web_app)


@pytest.fixture
def open_page(chromium: Browser, served: Served) -> Iterator[Callable[..., Page]]:
    """`open_page("/", "viewer", width=360, theme="dark")`: a browser of its own in which this role signed in.

    What goes to its console, and what its policy forbids, is in `page.said`.
    """
    contexts = []

    def enter(
        path: str = "/", role: str = "viewer", width: int = 1280, theme: str = "light", base: str = served.url
    ) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if theme == "dark" else "light",
            timezone_id="Europe/London",
        )
        contexts.append(context)
        page = context.new_page()
        page.said = said = []  # type: ignore[attr-defined]
        page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.goto(f"{base}/sign-in?next={path}")
        page.fill("#email", f"{role}@example.com")
        page.fill("#password", PASSWORD)
        page.click("button")
        page.wait_for_url(base + path)
        return page

    yield enter
    for context in contexts:
        context.close()


@pytest.fixture
def count_of(monkeypatch: pytest.MonkeyPatch, web_app: Flask) -> Callable[[Callable[[], object]], int]:
    """`count_of(act)`: how many statements the act executes when nothing is on the shelf."""
    said = 0
    execute = psycopg.Cursor.execute

    def note(self: psycopg.Cursor, *args: Any, **more: Any) -> psycopg.Cursor:
        nonlocal said
        said += 1
        return execute(self, *args, **more)

    def count_of(act: Callable[[], object]) -> int:
        nonlocal said
        web_app.extensions["shelf"] = Shelf(PANELS)
        web_app.extensions["believed"].clear()
        said = 0
        with monkeypatch.context() as patch:
            patch.setattr(psycopg.Cursor, "execute", note)
            act()
        return said

    return count_of
