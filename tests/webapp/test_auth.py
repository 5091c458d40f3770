from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.routing import Rule

from store import database, people, settings, sign_ins
from store.people import Role
from webapp import access, create_app

SECRET = "a secret of the tests, long enough"
PASSWORD = "correct horse battery"
UUID = "00000000-0000-4000-8000-000000000001"
SAFE = {"GET", "HEAD", "OPTIONS"}
Enter = Callable[[str], FlaskClient]
TokenOf = Callable[[str], str]


def routes(app: Flask) -> Iterator[tuple[Rule, str, str]]:
    """Every rule with a path that it matches, and one of its methods that is not HEAD or OPTIONS."""
    for rule in app.url_map.iter_rules():
        arguments = {name: "1" if name.endswith("id") or name == "n" else "x" for name in rule.arguments}
        arguments |= {"worker_id": UUID} if "worker_id" in arguments else {}
        with app.test_request_context():
            built = app.url_map.bind("").build(rule.endpoint, arguments)
        for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
            yield rule, built, method


def mark_of(app: Flask, rule: Rule) -> object:
    return getattr(app.view_functions[rule.endpoint], "access", None)


# Closed by default.


def test_nobody_sees_anything_before_signing_in(web: psycopg.Connection, web_app: Flask) -> None:
    client = web_app.test_client()
    seen = 0
    for rule, path, method in routes(web_app):
        if mark_of(web_app, rule) == "public":
            continue
        answer = client.open(path, method=method)
        if path.startswith("/panels"):
            assert (answer.status_code, "You were signed out." in answer.text) == (401, True), path
        else:
            assert answer.status_code == 302, path
            assert answer.location.startswith("/sign-in"), path
        seen += 1
    assert seen > 3


def test_few_views_are_public(web_app: Flask) -> None:
    public = {rule.endpoint for rule, _, _ in routes(web_app) if mark_of(web_app, rule) == "public"}
    signing_in = {"sign_in", "try_to_sign_in", "open_link", "use_link"}
    assert public == {
        "static",
        "health.alive",
        "health.ready",
        *(f"signing_in.{view}" for view in signing_in),
    }


def test_every_view_that_changes_something_states_a_role(web_app: Flask) -> None:
    for rule, _, method in routes(web_app):
        if method not in SAFE:
            assert mark_of(web_app, rule) is not None, f"{rule.endpoint} has no @needs(Role.…) and no @public"


def test_a_viewer_can_look_but_not_change(viewer: FlaskClient, web_app: Flask) -> None:
    for rule, path, method in routes(web_app):
        needed = mark_of(web_app, rule)
        if isinstance(needed, Role) and needed is not Role.VIEWER:
            answer = viewer.open(path, method=method)
            assert answer.status_code == 403, path
            assert f"You can look but not change. Ask an administrator for the {needed} role." in answer.text


def test_a_view_without_a_mark_refuses_changes_even_to_an_administrator(
    web: psycopg.Connection, web_dsn: str, token_of: TokenOf
) -> None:
    app = create_app(settings.read({"DATABASE_URL": web_dsn, "SLUICE_SECRET_KEY": SECRET}))
    app.add_url_rule("/forgotten", "forgotten", lambda: "changed", methods=["GET", "POST"])
    client = app.test_client()
    form = {"email": "administrator@example.com", "password": PASSWORD}
    form["csrf_token"] = token_of(client.get("/sign-in").text)
    client.post("/sign-in", data=form)
    token = token_of(client.get("/account").text)
    assert client.get("/forgotten").text == "changed"
    assert client.post("/forgotten", data={"csrf_token": token}).status_code == 403
    app.extensions["database"].close()


def test_every_form_refuses_a_missing_token(sign_in: Enter, web_app: Flask) -> None:
    for rule, path, method in routes(web_app):
        if method not in SAFE:
            client = web_app.test_client() if mark_of(web_app, rule) == "public" else sign_in("administrator")
            answer = client.open(path, method=method)
            assert answer.status_code == 400, path
            assert "This form is too old." in answer.text


# Signing in.


def test_one_comes_back_to_the_page_that_was_asked_for(
    web: psycopg.Connection, web_app: Flask, token_of: TokenOf
) -> None:
    client = web_app.test_client()
    asked = client.get("/account?tab=1&x=2")
    page = client.get(asked.location)
    form = {"email": " Viewer@Example.com ", "password": PASSWORD, "csrf_token": token_of(page.text)}
    entered = client.post(asked.location, data=form)
    assert (entered.status_code, entered.location) == (303, "/account?tab=1&x=2")
    assert client.get("/account").status_code == 200


@pytest.mark.parametrize(
    "given",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "\\\\evil",
        "javascript:alert(1)",
        "",
        None,
    ],
)
def test_nobody_is_sent_to_another_site(given: str | None) -> None:
    assert access.where_to(given) == "/"


def test_a_wrong_email_and_a_wrong_password_are_answered_alike(
    web: psycopg.Connection, web_app: Flask, token_of: TokenOf
) -> None:
    client = web_app.test_client()
    token = token_of(client.get("/sign-in").text)
    said = set()
    for email, password in (
        ("viewer@example.com", "wrong"),
        ("nobody@example.com", PASSWORD),
        ("no email", "x"),
        ("nul\x00@example.com", "x"),
    ):
        answer = client.post("/sign-in", data={"email": email, "password": password, "csrf_token": token})
        assert answer.status_code == 422
        said.add(re.findall(r'role="alert">([^<]*)', answer.text)[0])
    assert said == {"Email or password is not right."}


def test_many_people_of_one_office_sign_in_without_a_wait(web: psycopg.Connection) -> None:
    for n in range(sign_ins.FREE_OF_ADDRESS + sign_ins.FREE_OF_EMAIL):
        assert sign_ins.attempt(web, f"person{n}@example.com", "203.0.113.9") == 0
        sign_ins.succeeded(web, f"person{n}@example.com", "203.0.113.9")


def test_a_right_password_takes_back_its_own_try_and_no_wrong_one(web: psycopg.Connection) -> None:
    wrong, waits = 0, 0.0
    while not waits and wrong < 2 * sign_ins.FREE_OF_ADDRESS:
        waits = sign_ins.attempt(web, f"guessed{wrong}@example.com", "203.0.113.9")
        wrong += 1
        if sign_ins.attempt(web, "own@example.com", "203.0.113.9") == 0:
            sign_ins.succeeded(web, "own@example.com", "203.0.113.9")
    assert wrong <= sign_ins.FREE_OF_ADDRESS + 1


def test_after_too_many_tries_even_the_right_password_must_wait(
    web: psycopg.Connection, web_app: Flask, token_of: TokenOf
) -> None:
    for _ in range(sign_ins.FREE_OF_BOTH):
        assert sign_ins.attempt(web, "viewer@example.com", "127.0.0.1") == 0
    client = web_app.test_client()  # another process would do: the tries are in the database
    form = {"email": "viewer@example.com", "password": PASSWORD}
    form["csrf_token"] = token_of(client.get("/sign-in").text)
    answer = client.post("/sign-in", data=form)
    assert answer.status_code == 422
    assert re.search(r"Too many tries\. Wait [1-5](\.\d)? s\.", answer.text)
    web.execute("UPDATE sign_in_try SET wait_until = now()")
    assert client.post("/sign-in", data=form).status_code == 303
    assert sign_ins.attempt(web, "viewer@example.com", "127.0.0.1") == 0


def test_waits_double_and_end(web: psycopg.Connection) -> None:
    waits = []
    for _ in range(sign_ins.FREE_OF_BOTH + 12):
        sign_ins.attempt(web, "a@b", "::1")
        row = web.execute(
            "SELECT extract(epoch FROM wait_until - last_at)::float8"
            " FROM sign_in_try WHERE subject LIKE 'a@b from%'"
        ).fetchone()
        waits.append(round(row[0] if row else -1))
        web.execute("UPDATE sign_in_try SET wait_until = now()")
    free = sign_ins.FREE_OF_BOTH - 1
    assert waits[:free] == [0] * free
    assert waits[free : free + 4] == [5, 10, 20, 40]
    assert waits[-1] == sign_ins.LONGEST_WAIT_SECONDS


def test_one_address_does_not_lock_a_person_out_everywhere(web: psycopg.Connection) -> None:
    for _ in range(sign_ins.FREE_OF_BOTH + 3):
        sign_ins.attempt(web, "viewer@example.com", "203.0.113.1")
    assert sign_ins.attempt(web, "viewer@example.com", "203.0.113.1") > 0
    assert sign_ins.attempt(web, "viewer@example.com", "203.0.113.2") == 0


def test_guessing_one_password_for_many_people_is_slowed(web: psycopg.Connection) -> None:
    for n in range(sign_ins.FREE_OF_ADDRESS):
        assert sign_ins.attempt(web, f"{n}@example.com", "203.0.113.1") == 0
    assert sign_ins.attempt(web, "another@example.com", "203.0.113.1") > 0


# Sessions.


def test_a_session_ends_after_twelve_hours(viewer: FlaskClient) -> None:
    with viewer.session_transaction() as session:
        session["at"] = time.time() - access.SESSION_SECONDS - 1
    assert viewer.get("/account").location == "/sign-in?next=/account"
    assert "You were signed out after 12 hours." in viewer.get("/sign-in").text


def test_polling_does_not_lengthen_a_session(viewer: FlaskClient) -> None:
    assert "Set-Cookie" not in viewer.get("/panels?page=account").headers


def test_signing_out_ends_this_session_and_everywhere_ends_all(sign_in: Enter, token_of: TokenOf) -> None:
    here, there, elsewhere = sign_in("viewer"), sign_in("viewer"), sign_in("viewer")
    here.post("/sign-out", data={"csrf_token": token_of(here.get("/account").text)})
    assert here.get("/account").status_code == 302
    assert there.get("/account").status_code == 200
    form = {"csrf_token": token_of(there.get("/account").text)}
    assert there.post("/account/sign-out-everywhere", data=form).location == "/sign-in"
    assert elsewhere.get("/account").status_code == 302


def test_who_is_removed_or_may_less_is_so_at_once(
    web: psycopg.Connection, web_app: Flask, token_of: TokenOf
) -> None:
    who = people.add(web, "short@example.com", Role.OPERATOR)
    client = web_app.test_client()
    link = f"/link/{people.make_link(web, who.id)}"
    form = {"password": PASSWORD, "again": PASSWORD, "csrf_token": token_of(client.get(link).text)}
    assert client.post(link, data=form).location == "/"
    assert "operator" in client.get("/account").text
    people.set_role(web, who.id, Role.VIEWER)
    assert "viewer" in client.get("/account").text
    people.remove(web, who.id)
    assert client.get("/account").status_code == 302


@pytest.mark.parametrize(
    ("base", "secure", "name"),
    [
        ("http://127.0.0.1:8000", False, "sluice"),
        ("http://localhost", False, "sluice"),
        ("http://[::1]:8000", False, "sluice"),
        ("https://sluice.example.com", True, "__Host-sluice"),
        ("http://sluice.example.com", True, "__Host-sluice"),
        ("http://127.0.0.1.example.com", True, "__Host-sluice"),
    ],
)
def test_the_cookie_is_for_https_alone_but_on_this_machine(
    web: psycopg.Connection, web_app: Flask, base: str, secure: bool, name: str
) -> None:
    cookie = web_app.test_client().get("/sign-in", base_url=base).headers["Set-Cookie"]
    assert cookie.startswith(f"{name}=")
    assert ("; Secure;" in cookie) is secure
    assert "; HttpOnly;" in cookie
    assert cookie.endswith("SameSite=Lax")


@pytest.mark.parametrize(("proxies", "address"), [("0", "127.0.0.1"), ("1", "203.0.113.9")])
def test_who_asked_is_believed_of_as_many_proxies_as_were_set(
    web: psycopg.Connection, web_dsn: str, token_of: TokenOf, proxies: str, address: str
) -> None:
    environ = {"DATABASE_URL": web_dsn, "SLUICE_SECRET_KEY": SECRET, "TRUSTED_PROXIES": proxies}
    app = create_app(settings.read(environ))
    client = app.test_client()
    form = {"email": "x@example.com", "password": "x", "csrf_token": token_of(client.get("/sign-in").text)}
    client.post("/sign-in", data=form, headers={"X-Forwarded-For": "198.51.100.1, 203.0.113.9"})
    found = web.execute("SELECT subject FROM sign_in_try WHERE subject LIKE 'address %'").fetchall()
    assert found == [(f"address {address}",)]
    app.extensions["database"].close()


# One-time links.


@pytest.fixture
def newcomer(web: psycopg.Connection) -> Iterator[people.Person]:
    who = people.add(web, "newcomer@example.com", Role.OPERATOR)
    yield who
    people.remove(web, who.id)


def test_a_link_sets_a_password_once(
    web: psycopg.Connection, web_app: Flask, token_of: TokenOf, newcomer: people.Person
) -> None:
    link = f"/link/{people.make_link(web, newcomer.id)}"
    client = web_app.test_client()
    for _ in range(3):  # a mail scanner that looks at it uses nothing up
        page = client.get(link)
        assert page.status_code == 200
    form = {"password": "another horse", "again": "another horse", "csrf_token": token_of(page.text)}
    assert client.post(link, data=form).status_code == 303
    assert client.get("/account").status_code == 200
    again = web_app.test_client()
    assert again.get(link).status_code == 410
    assert people.with_password(web, "newcomer@example.com", "another horse") is not None
    assert people.use_link(web, link.rpartition("/")[2], "a third password") is None


@pytest.mark.parametrize(
    ("password", "again", "words"),
    [
        ("short", "short", "A password has 12 to 200 characters."),
        ("aaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaa", "too easy to guess"),
        ("newcomer@example.com", "newcomer@example.com", "too easy to guess"),
        ("another horse", "another house", "The two are not the same."),
    ],
)
def test_a_bad_password_leaves_the_link_good(
    web: psycopg.Connection,
    web_app: Flask,
    token_of: TokenOf,
    newcomer: people.Person,
    password: str,
    again: str,
    words: str,
) -> None:
    link = f"/link/{people.make_link(web, newcomer.id)}"
    client = web_app.test_client()
    form = {"password": password, "again": again, "csrf_token": token_of(client.get(link).text)}
    answer = client.post(link, data=form)
    assert answer.status_code == 422
    assert words in answer.text
    assert client.get(link).status_code == 200


def test_a_new_link_or_a_day_makes_a_link_void(web: psycopg.Connection, newcomer: people.Person) -> None:
    first = people.make_link(web, newcomer.id)
    second = people.make_link(web, newcomer.id)
    assert people.of_link(web, first) is None
    assert people.of_link(web, second) == newcomer
    web.execute("UPDATE one_time_link SET expires_at = now() WHERE person_id = %s", (newcomer.id,))
    assert people.of_link(web, second) is None
    assert people.use_link(web, second, PASSWORD) is None


def test_a_new_password_ends_the_sessions_of_the_old_one(
    web: psycopg.Connection, newcomer: people.Person
) -> None:
    people.use_link(web, people.make_link(web, newcomer.id), PASSWORD)
    assert people.of_session(web, newcomer.id, newcomer.session_no) is None
    assert people.of_session(web, newcomer.id, newcomer.session_no + 1) is not None


def test_the_database_holds_neither_password_nor_token(
    web: psycopg.Connection, newcomer: people.Person
) -> None:
    token = people.make_link(web, newcomer.id)
    people.use_link(web, token, "another horse")
    row = web.execute(
        "SELECT person::text || one_time_link::text FROM person JOIN one_time_link ON person_id = id"
        " WHERE email = 'newcomer@example.com'"
    ).fetchone()
    assert row is not None
    assert "argon2id" in row[0]
    assert "another horse" not in row[0]
    assert token not in row[0]


# The command line.


def test_people_are_added_linked_listed_and_removed_on_the_command_line(
    web: psycopg.Connection, web_dsn: str
) -> None:
    environ = {"DATABASE_URL": web_dsn, "PUBLIC_URL": "https://sluice.example.com/"}
    runner = create_app(settings.read(environ)).test_cli_runner()
    added = runner.invoke(args=["users", "add", "New@Example.com", "--role", "operator"])
    assert added.exit_code == 0
    token = re.findall(r"^https://sluice\.example\.com/link/(\S+)$", added.output, re.MULTILINE)[0]
    assert people.of_link(web, token) == people.find(web, "new@example.com")
    again = runner.invoke(args=["users", "add", "new@example.com", "--role", "viewer"])
    assert (again.exit_code, "already" in again.output) == (1, True)
    assert "/link/" in runner.invoke(args=["users", "link", "new@example.com"]).output
    assert people.of_link(web, token) is None
    listed = runner.invoke(args=["users", "list"])
    assert "never; has no password yet" in listed.output
    assert '"role": "operator"' in runner.invoke(args=["users", "list", "--json"]).output
    assert runner.invoke(args=["users", "remove", "new@example.com"]).output == "Removed new@example.com.\n"
    gone = runner.invoke(args=["users", "remove", "new@example.com"])
    assert (gone.exit_code, gone.output.count("\n")) == (1, 1)


def test_a_link_leads_to_this_machine_unless_it_is_set(web: psycopg.Connection, web_dsn: str) -> None:
    runner = create_app(settings.read({"DATABASE_URL": web_dsn, "PORT": "8123"})).test_cli_runner()
    output = runner.invoke(args=["users", "add", "here@example.com", "--role", "viewer"]).output
    assert "http://127.0.0.1:8123/link/" in output
    runner.invoke(args=["users", "remove", "here@example.com"])


def test_roles_include_those_before_them() -> None:
    assert Role.ADMINISTRATOR.allows(Role.OPERATOR)
    assert Role.OPERATOR.allows(Role.VIEWER)
    assert not Role.VIEWER.allows(Role.OPERATOR)
    assert not Role.OPERATOR.allows(Role.ADMINISTRATOR)


def test_impossible_people_are_refused_by_the_table(conn: psycopg.Connection) -> None:
    for column, value in (("email", "Upper@example.com"), ("role", "root"), ("password", "plain text")):
        row = {"email": "a@b.c", "role": "viewer", "password": None, column: value}
        with pytest.raises(psycopg.errors.CheckViolation), conn.transaction():
            conn.execute(
                "INSERT INTO person (email, role, password) VALUES (%(email)s, %(role)s, %(password)s)", row
            )


def test_somebody_is_seen_at_most_every_few_minutes(web_dsn: str, web: psycopg.Connection) -> None:
    who = people.find(web, "viewer@example.com")
    assert who is not None
    web.execute("UPDATE person SET seen_at = NULL WHERE id = %s", (who.id,))
    with database.connect(web_dsn, "test") as conn:
        for _ in range(2):
            people.of_session(conn, who.id, who.session_no)
    first = people.find(web, "viewer@example.com")
    assert first is not None
    assert first.seen_at is not None
    people.of_session(web, who.id, who.session_no)
    assert people.find(web, "viewer@example.com") == first
