"""`flask keys`: a secret goes in and never comes out."""

from __future__ import annotations

import json
from collections.abc import Callable

import psycopg
import pytest
from click.testing import Result
from cryptography.fernet import Fernet

Run = Callable[..., Result]

SECRET = b"s3cret-4f9a1c"
SEC = "sec_edgar"


def assert_refused(result: Result, says: str) -> None:
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr


def test_a_secret_is_in_no_output_and_no_column(
    run: Run, committed: psycopg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    outputs = [
        run("keys", "add", "companies_house", "--label", "main", stdin=b"  " + SECRET + b" \r\n").output,
        run("keys", "add", "companies_house", "--label", "again", stdin=SECRET).output,
        run("keys", "add", SEC, "--label", "bad", stdin=SECRET).output,
        run("keys", "list").output,
        run("keys", "list", "--json").output,
        run("keys", "disable", "companies_house", "main").output,
        run("doctor").output,
    ]
    assert "This secret is there already: key “main”" in outputs[1]
    for text in [*outputs, caplog.text, _dump(committed)]:
        assert SECRET.decode() not in text


def _dump(conn: psycopg.Connection) -> str:
    names = conn.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
    return "".join(str(conn.execute(f'SELECT t::text FROM "{name}" t').fetchall()) for (name,) in names)


def test_without_limits_a_key_has_the_usual_ones_of_its_service(run: Run) -> None:
    added = run("keys", "add", "companies_house", "--label", "main", stdin=SECRET)
    assert added.stdout.splitlines()[0] == "Limits: 600/5m, the usual ones of Companies House."
    assert "Saved. This was the last time the secret could be seen. Fingerprint …" in added.stdout
    assert json.loads(run("keys", "list", "--json").stdout) == [
        {
            "service": "companies_house",
            "label": "main",
            "account": "main",
            "key_set": None,
            "fingerprint": added.stdout.strip()[-5:-1],
            "state": "active",
            "rest_seconds": 0.0,
            "limits": ["600/5m"],
            "used": [0],
            "calls_last_hour": 0,
            "rate_limited_last_hour": 0,
            "last_error": None,
        }
    ]


def test_limits_account_and_key_set_are_kept_as_given(run: Run) -> None:
    more = ("--limit", "10/s", "--limit", "2000/day", "--account", "firm", "--set", "night")
    assert run("keys", "add", "companies_house", "--label", "a", *more, stdin=SECRET).exit_code == 0
    (key,) = json.loads(run("keys", "list", "--json").stdout)
    assert (key["account"], key["key_set"], key["limits"]) == ("firm", "night", ["10/s", "2000/day"])
    assert "0 of 10/s, 0 of 2000/day" in run("keys", "list").stdout


def test_where_limits_hold_for_all_keys_together_new_keys_join_the_account_that_is_there(run: Run) -> None:
    add = ("keys", "add", SEC, "--label")
    first = run(*add, "one", "--limit", "5/s", stdin=b"Example Ltd one@example.com")
    assert "All keys of sec_edgar will share them." in first.stdout
    second = run(*add, "two", stdin=b"Example Ltd two@example.com")
    assert "Limits: 5/s, shared with “one”" in second.stdout
    keys = json.loads(run("keys", "list", "--json").stdout)
    assert {key["account"] for key in keys} == {"all keys"}
    third = run(*add, "three", "--limit", "8/s", stdin=b"Example Ltd three@example.com")
    assert_refused(third, "has 5/s, and its keys share them")


@pytest.mark.parametrize(
    ("arguments", "secret", "says"),
    [
        (
            ("companies_house", "--label", "x", "--limit", "abc"),
            SECRET,
            "“abc” is not a limit. Write calls per",
        ),
        (("companies_house", "--label", "x"), b" \n", "The secret is empty"),
        (("companies_house", "--label", "x"), b"two\nlines", "A Companies House key has no blanks"),
        (("companies_house", "--label", "x"), b"\xff\xfe\x00", "The secret is not text"),
        (("companies_house", "--label", "x"), b"x" * 10_001, "longer than 10,000"),
        ((SEC, "--label", "x"), b"Example Ltd", "The SEC wants an email address"),
        (
            ("nix", "--label", "x"),
            SECRET,
            "There is no service “nix”. Services: companies_house",
        ),
        (("companies_house", "--label", " "), SECRET, "The label is blank"),
    ],
)
def test_a_wrong_key_is_refused_in_one_line_and_not_added(
    run: Run, arguments: tuple[str, ...], secret: bytes, says: str
) -> None:
    assert_refused(run("keys", "add", *arguments, stdin=secret), says)
    assert json.loads(run("keys", "list", "--json").stdout) == []


def test_without_a_master_key_no_secret_is_asked_for(run_with: Callable[..., Run], dsn: str) -> None:
    run = run_with(DATABASE_URL=dsn)
    assert_refused(
        run("keys", "add", "companies_house", "--label", "x", stdin=SECRET), "SLUICE_MASTER_KEYS is not set"
    )


def test_a_key_is_disabled_and_enabled_by_its_label(run: Run) -> None:
    run("keys", "add", "companies_house", "--label", "main", stdin=SECRET)
    disabled = run("keys", "disable", "companies_house", "main")
    assert disabled.stdout.startswith("Disabled.")
    assert "no usable key of companies_house is left" in disabled.stderr
    assert "is disabled already" in run("keys", "disable", "companies_house", "main").stdout
    assert "is in use again; it was disabled" in run("keys", "enable", "companies_house", "main").stdout
    assert "is in use already" in run("keys", "enable", "companies_house", "main").stdout
    assert_refused(run("keys", "enable", "companies_house", "typo"), "no key “typo”. Its keys: “main”.")


def test_doctor_says_what_is_wrong_and_what_to_do(
    run: Run, run_with: Callable[..., Run], dsn: str, committed: psycopg.Connection
) -> None:
    fresh = run("doctor")
    assert fresh.exit_code == 1
    assert "!!  workers     No worker is running. Start one: python -m worker" in fresh.stdout
    assert "!!  keys        No service has a usable key." in fresh.stdout
    run("keys", "add", "companies_house", "--label", "main", stdin=SECRET)
    other = run_with(DATABASE_URL=dsn, SLUICE_MASTER_KEYS=Fernet.generate_key().decode())
    assert (
        "!!  secrets     1 stored key cannot be opened: “main” of companies_house." in other("doctor").stdout
    )
    committed.execute(
        "INSERT INTO worker (id, name, host, pid, version, services, slots, lease_until)"
        " VALUES (gen_random_uuid(), 'w', 'h', 1, '0', '{}', 1, now() + interval '1 minute')"
    )
    well = run("doctor")
    assert well.exit_code == 0
    assert "!!" not in well.stdout
    committed.execute("UPDATE worker SET lease_until = now() - interval '1 second'")
    assert "!!  workers" in run("doctor").stdout
    committed.execute("UPDATE alembic_version SET version_num = '0000'")
    assert "!!  schema" in run("doctor").stdout


def test_doctor_shows_no_password(run_with: Callable[..., Run]) -> None:
    result = run_with(DATABASE_URL="postgresql://sluice:hunter2@127.0.0.1:1/sluice")("doctor")
    assert result.exit_code == 1
    assert "!!  database" in result.stdout
    assert "hunter2" not in result.output


def test_after_reseal_the_old_master_key_is_not_needed(
    run: Run, run_with: Callable[..., Run], dsn: str, master_key: str
) -> None:
    run("keys", "add", "companies_house", "--label", "main", stdin=SECRET)
    new = Fernet.generate_key().decode()
    alone = run_with(DATABASE_URL=dsn, SLUICE_MASTER_KEYS=new)
    assert_refused(alone("keys", "reseal"), "Nothing was changed.")
    both = run_with(DATABASE_URL=dsn, SLUICE_MASTER_KEYS=f"{new},{master_key}")
    assert both("keys", "reseal").stdout == "1 secret encrypted with the first master key.\n"
    assert "cannot be opened" not in alone("doctor").stdout
    assert "cannot be opened" in run("doctor").stdout


def test_a_key_gets_another_secret_from_standard_input_and_is_in_use(
    run: Run, committed: psycopg.Connection
) -> None:
    run("keys", "add", "companies_house", "--label", "main", stdin=b"before")
    committed.execute("UPDATE key SET state = 'invalid', last_error = 'no'")
    done = run("keys", "rotate", "companies_house", "main", stdin=b" " + SECRET + b"\n")
    assert "“main” has a new secret and is in use; it was invalid." in done.output
    assert SECRET.decode() not in done.output + _dump(committed)
    (key,) = json.loads(run("keys", "list", "--json").stdout)
    assert (key["state"], key["last_error"]) == ("active", None)
    assert f"Fingerprint …{key['fingerprint']}" in done.output


def test_a_secret_that_cannot_replace_another_is_refused_in_one_line(run: Run) -> None:
    for label, secret in (("main", b"one"), ("other", b"two")):
        run("keys", "add", "companies_house", "--label", label, stdin=secret)
    rotate = ("keys", "rotate", "companies_house")
    assert_refused(run(*rotate, "main", stdin=b"two"), "“other” of the same service has this secret")
    assert_refused(run(*rotate, "main", stdin=b"one"), "“main” has this secret already")
    assert_refused(run(*rotate, "main", stdin=b" "), "The secret is empty")
    assert_refused(run(*rotate, "gone", stdin=SECRET), "has no key “gone”")


@pytest.mark.parametrize(
    ("service", "limits", "usual"),
    [
        (SEC, ["11/s"], "8/s"),
        (SEC, ["8/s", "400/m"], None),
        ("companies_house", ["10/s"], "600/5m"),
        ("companies_house", ["10/s", "600/5m"], None),
        ("companies_house", ["601/5m"], "600/5m"),
        ("companies_house", ["2/s"], None),
    ],
)
def test_a_limit_above_the_usual_one_is_warned_of_and_kept(
    run: Run, service: str, limits: list[str], usual: str | None
) -> None:
    options = [part for limit in limits for part in ("--limit", limit)]
    secret = b"Example Ltd data@example.com" if service == SEC else SECRET
    added = run("keys", "add", service, "--label", "main", *options, stdin=secret)
    assert added.exit_code == 0
    assert ("above the usual limit" in added.stderr) == (usual is not None)
    assert f", {usual}: it may" in added.stderr or usual is None
    (key,) = json.loads(run("keys", "list", "--json").stdout)
    assert key["limits"] == limits
