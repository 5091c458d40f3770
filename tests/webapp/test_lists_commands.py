"""`flask lists`, as a person at a terminal and a program in a pipe use it."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import stat
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

import openpyxl
import psycopg
import pytest
from click.testing import Result

from store import claims, database, lists, rejects, workers
from store.workers import Identity
from webapp.commands import progress

Run = Callable[..., Result]
EndJobs = Callable[[str, Mapping[str, str]], int]

UK = "companies_house"
ALPHA = '{"values": {"entity_current_legal_name": "=ALPHA()", "shareholder_funds": -577.50}, "flags": {}}'


def import_list(run: Run, file: Path, *more: str, name: str = "UK") -> Result:
    return run("lists", "import", file, "--name", name, "--service", UK, *more)


def add_key(run: Run) -> None:
    assert run("keys", "add", UK, "--label", "main", stdin=b"s3cret\n").exit_code == 0


def test_an_import_accounts_for_every_line(run: Run, companies: Path) -> None:
    result = import_list(run, companies)
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "Read companies.csv: UTF-8, commas, heading in line 1,"
        " numbers from “CompanyNumber”, names from “Name”.",
        "Made “UK”: 3 new companies.",
        "1 duplicate merged, 1 number repaired (such as 9355501 to 09355501 in line 3), 1 line rejected.",
        "  line 6: 'unknown' is not a company number: 8 letters and digits, such as 09355500 or SC722766.",
        "  All of them: flask lists rejects UK",
    ]


def test_the_same_file_again_changes_nothing_and_says_so(
    run: Run, companies: Path, committed: psycopg.Connection
) -> None:
    import_list(run, companies)
    before = _everything(committed)
    again = import_list(run, companies)
    assert again.exit_code == 0
    assert "Nothing changed: all 3 companies are in “UK” already." in again.stdout
    assert _everything(committed) == before


def _everything(conn: psycopg.Connection) -> list[object]:
    tables = ("list", "job", "reject", "tally_delta")
    return [conn.execute(f"SELECT t::text FROM {name} t ORDER BY 1").fetchall() for name in tables]


def test_a_longer_file_adds_only_what_is_new(run: Run, companies: Path) -> None:
    import_list(run, companies)
    companies.write_text(companies.read_text() + "00000042,New\n")
    assert "Added to “UK”: 1 new company, 3 there already." in import_list(run, companies).stdout


def test_a_list_without_a_usable_key_warns_that_its_jobs_will_wait(run: Run, companies: Path) -> None:
    assert "no usable key of companies_house" in import_list(run, companies).stderr
    add_key(run)
    assert import_list(run, companies).stderr == ""


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\x01\x02\x03\x04\x05\x06\x07\x08", "is not a text file"),
        (b"animal,sound\ncat,meow\ndog,woof\n", "has no column of company numbers"),
        (b"CompanyNumber\nfoo\nbar\n", "names no company: 2 lines rejected"),
    ],
    ids=["empty", "not text", "no usable column", "only bad rows"],
)
def test_an_unusable_file_is_refused_in_one_line_and_nothing_is_stored(
    run: Run, tmp_path: Path, committed: psycopg.Connection, content: bytes, says: str
) -> None:
    file = tmp_path / "list.csv"
    file.write_bytes(content)
    result = import_list(run, file)
    assert_refused(result, says)
    assert committed.execute("SELECT count(*) FROM list").fetchone() == (0,)


def assert_refused(result: Result, says: str) -> None:
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr


def test_an_import_that_breaks_halfway_leaves_nothing(
    run: Run, companies: Path, committed: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise psycopg.OperationalError("server closed the connection\nunexpectedly")

    monkeypatch.setattr(rejects, "keep", broken)
    assert_refused(import_list(run, companies), "connection to the database was lost: server closed the")
    for table in ("list", "job", "reject", "tally_delta"):
        assert committed.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)


def test_thirty_percent_bad_rows_are_all_kept_with_reasons(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "list.csv"
    rows = [f"{n:08}" if n % 10 < 7 else f"=bad {n}" for n in range(1, 201)]
    file.write_text("CompanyNumber\n" + "\n".join(rows) + "\n")
    result = import_list(run, file)
    assert "140 new companies" in result.stdout
    assert "60 lines rejected" in result.stdout
    assert result.stdout.count("  line ") == 5
    rejected = list(csv.DictReader(io.StringIO(run("lists", "rejects", "UK").stdout)))
    assert len(rejected) == 60
    assert rejected[0]["line"] == "8"
    assert rejected[0]["content"] == "'=bad 7"
    assert "is not a company number" in rejected[0]["reason"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--service", "nix"), "no service “nix”. Services: companies_house, filings_folder"),
        (
            ("--service", "sec_edgar", "--option", "nix=1"),
            "no option “nix”. Options: frequency, year, periods, as.",
        ),
        (("--service", "sec_edgar", "--option", "as=x"), "it must be latest or first"),
        (
            ("--service", "sec_edgar", "--option", "year=21"),
            "year is “21”: it must be latest or a year",
        ),
        (("--service", "sec_edgar", "--option", "periods=99"), "it must be a number from 1 to 40"),
        (
            ("--service", UK, "--option", "made_up_to=31/12/23"),
            "it must be latest, a balance sheet",
        ),
        (("--service", "sec_edgar", "--option", "first"), "write NAME=VALUE"),
        (("--service", "sec_edgar", "--field", "turnover"), "no field “turnover”. Fields: entity_name, cik,"),
    ],
)
def test_an_unknown_word_is_refused_with_the_valid_ones(
    run: Run, companies: Path, arguments: tuple[str, ...], says: str
) -> None:
    assert_refused(run("lists", "import", companies, "--name", "x", *arguments), says)


def test_a_file_that_is_not_there_is_named(run: Run, tmp_path: Path) -> None:
    assert_refused(import_list(run, tmp_path / "nix.csv"), "nix.csv: No such file or directory.")
    assert_refused(import_list(run, tmp_path), "Is a directory.")


def test_fields_and_options_are_stored_and_a_list_of_others_is_not_overwritten(
    run: Run, companies: Path, committed: psycopg.Connection
) -> None:
    chosen = ("--field", "shareholder_funds", "--field", "balance_sheet_date", "--priority", "7")
    assert import_list(run, companies, *chosen, "--option", "made_up_to=2020-03-31").exit_code == 0
    stored = committed.execute("SELECT fields, required, options, priority FROM list").fetchone()
    fields = ["shareholder_funds", "balance_sheet_date"]
    assert stored == (fields, ["balance_sheet_date", "shareholder_funds"], {"made_up_to": "2020-03-31"}, 7)
    assert_refused(import_list(run, companies), "of other options: made_up_to=2020-03-31")


def test_a_series_is_stored_as_columns_and_its_dates_are_dates_in_a_workbook(
    run: Run, tmp_path: Path, committed: psycopg.Connection, end_jobs: EndJobs
) -> None:
    file = tmp_path / "us.csv"
    file.write_text("Company\nApple Inc.\nBest Buy Co\nN/A\n")
    chosen = ("--field", "period_end", "--field", "report_url", "--option", "periods=2")
    result = run("lists", "import", file, "--name", "US", "--service", "sec_edgar", *chosen)
    assert result.stdout.splitlines() == [
        "Read us.csv: UTF-8, commas, heading in line 1, names from “Company”.",
        "Made “US”: 2 new companies.",
        "0 duplicates merged, 0 numbers repaired, 1 line rejected.",
        "  line 4: 'N/A' is no company's name.",
        "  All of them: flask lists rejects US",
    ]
    stored = committed.execute("SELECT fields, required FROM list").fetchone()
    fields = ["period_end", "period_end_prior", "report_url", "report_url_prior"]
    assert stored == (fields, ["period_end"])
    day = '{"values": {"period_end": "2024-12-31", "period_end_prior": "2023-12-31"}, "flags": {}}'
    run("keys", "add", "sec_edgar", "--label", "us", stdin=b"Example Ltd data@example.com\n")
    assert end_jobs("sec_edgar", {"APPLE INC.": day}) == 2
    book = tmp_path / "us.xlsx"
    assert run("lists", "export", "US", "-o", book, "--format", "xlsx").exit_code == 0
    heading, first = list(openpyxl.load_workbook(book)["Companies"].iter_rows(values_only=True))[:2]
    assert first[heading.index("period_end_prior")] == datetime(2023, 12, 31)  # noqa: DTZ001 - a day


def test_required_fields_and_types_are_chosen_with_the_fields(
    run: Run, companies: Path, committed: psycopg.Connection
) -> None:
    fields = ("--field", "shareholder_funds:money:GBP", "--field", "debtors:integer")
    assert import_list(run, companies, *fields, "--require", "debtors").exit_code == 0
    (one,) = lists.see(committed, "UK")
    assert (one.fields, one.required) == (["shareholder_funds", "debtors"], ["debtors"])
    assert one.types == {"shareholder_funds": "money GBP", "debtors": "integer"}
    assert_refused(import_list(run, companies, *fields), "of other required fields: debtors.")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--field", "debtors:float"), "debtors: “float” is no type. Types: text, number,"),
        (("--field", "debtors:money:pounds"), "debtors: “pounds” is no currency."),
        (("--field", "debtors", "--require", "turnover"), "“turnover” is required and not among the fields."),
    ],
)
def test_a_field_that_cannot_be_is_refused(
    run: Run, companies: Path, arguments: tuple[str, ...], says: str
) -> None:
    assert_refused(import_list(run, companies, *arguments), says)


def test_hostile_text_breaks_no_output(run: Run, tmp_path: Path, end_jobs: EndJobs) -> None:
    file = tmp_path / "li\x1b[2Jst.csv"
    hostile = "\"=cmd|' /C calc'!A1\n\u202e<script>alert(1)</script>\u2028\x7f ' ; DROP TABLE job; --\""
    file.write_text(f"CompanyNumber,Name\n09355500,{hostile}\n\u202e\x7fbad,\x7f\n")
    name = "'; DROP TABLE job; -- <b>“\u202e日本”</b>"
    add_key(run)
    imported = import_list(run, file, name=name)
    end_jobs(UK, {"09355500": ALPHA})
    for result in (imported, run("lists", "status"), run("lists", "status", name)):
        assert result.exit_code == 0
        assert all(line.isprintable() for line in result.output.splitlines())
    assert json.loads(run("lists", "status", name, "--json").stdout)[0]["name"] == name
    exported = list(csv.DictReader(io.StringIO(run("lists", "export", name).stdout, newline="")))
    assert exported[0]["name"].startswith("'=cmd|")
    assert exported[0]["entity_current_legal_name"] == "'=ALPHA()"
    assert exported[0]["shareholder_funds"] == "-577.50"


def test_status_counts_rows_outcomes_and_causes(run: Run, companies: Path, end_jobs: EndJobs) -> None:
    add_key(run)
    import_list(run, companies)
    assert end_jobs(UK, {"09355500": ALPHA}) == 3
    (told,) = json.loads(run("lists", "status", "--json").stdout)
    assert told.pop("start_at") <= f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    assert [told] == [
        {
            "name": "UK",
            "service": UK,
            "state": "active",
            "rows": {"pending": 0, "in_progress": 0, "done": 1, "failed": 2, "cancelled": 0},
            "outcomes": {"complete": 1, "partial": 0, "empty": 0},
            "causes": {"not_found": 2},
            "rejects": 1,
            "due_by": None,
        }
    ]
    detail = run("lists", "status", "UK").stdout
    assert "Done            1  1 complete" in detail
    assert "not_found     2  The service knows no such company.  Retry will not help" in detail
    assert run("lists", "status").stdout.splitlines()[1].split() == f"UK {UK} active 0 0 1 2 0 1".split()


def test_no_lists_says_how_to_make_one(run: Run) -> None:
    assert "No lists yet." in run("lists", "status").stdout
    assert json.loads(run("lists", "status", "--json").stdout) == []


def test_retry_sends_failed_jobs_back_all_or_by_cause(run: Run, companies: Path, end_jobs: EndJobs) -> None:
    add_key(run)
    import_list(run, companies)
    end_jobs(UK, {"09355500": ALPHA})
    assert_refused(run("lists", "retry", "UK", "--cause", "typo"), "Failed jobs have: not_found.")
    assert (
        "No job of “UK” has failed for pdf_only" in run("lists", "retry", "UK", "--cause", "pdf_only").stdout
    )
    assert run("lists", "retry", "UK", "--cause", "not_found").stdout == "2 jobs sent back.\n"
    assert "nothing was changed" in run("lists", "retry", "UK").stdout
    assert end_jobs(UK, {}) == 2


def test_a_list_is_paused_resumed_and_cancelled(run: Run, companies: Path) -> None:
    import_list(run, companies)
    assert run("lists", "pause", "UK").stdout == "Paused.\n"
    assert run("lists", "pause", "UK").stdout == "“UK” is paused already.\n"
    assert "the list is paused" in import_list(run, companies).stderr
    assert run("lists", "resume", "UK").stdout == "Resumed. 3 jobs waiting to run.\n"
    assert "Cancelled 3 pending jobs. Results stay." in run("lists", "cancel", "UK").stdout
    assert_refused(run("lists", "pause", "UK"), "“UK” is cancelled. Only an active list can be paused.")
    assert run("lists", "resume", "UK").stdout == "Resumed. 3 jobs waiting to run.\n"


@pytest.mark.parametrize("command", ["status", "retry", "pause", "resume", "cancel", "rejects", "export"])
def test_an_unknown_list_is_refused_with_those_there_are(run: Run, companies: Path, command: str) -> None:
    import_list(run, companies)
    assert_refused(run("lists", command, "nix"), "There is no list “nix”. There is: UK.")


def test_an_export_goes_to_standard_output_or_appears_whole(
    run: Run, companies: Path, tmp_path: Path, end_jobs: EndJobs
) -> None:
    add_key(run)
    import_list(run, companies)
    end_jobs(UK, {"09355500": ALPHA})
    file = tmp_path / "out.csv"
    said = run("lists", "export", "UK", "-o", file)
    assert said.stdout.startswith("Wrote 3 jobs as of ")
    assert file.read_bytes() == run("lists", "export", "UK").stdout_bytes
    assert file.read_text().splitlines()[1].startswith("09355500,Alpha,done,complete,,,'=ALPHA()")
    assert stat.S_IMODE(file.stat().st_mode) & stat.S_IRUSR
    assert [path.name for path in tmp_path.iterdir() if path != companies] == ["out.csv"]


def test_a_csv_begins_with_a_byte_order_mark_when_it_is_asked_for(
    run: Run, companies: Path, tmp_path: Path
) -> None:
    import_list(run, companies)
    plain = run("lists", "export", "UK").stdout_bytes
    assert not plain.startswith(codecs.BOM_UTF8)
    assert run("lists", "export", "UK", "--bom").stdout_bytes == codecs.BOM_UTF8 + plain
    file = tmp_path / "out.csv"
    assert run("lists", "export", "UK", "--bom", "-o", file).exit_code == 0
    assert file.read_bytes() == codecs.BOM_UTF8 + plain
    assert_refused(run("lists", "export", "UK", "--bom", "--format", "jsonl"), "Only CSV may begin with")


def test_a_failed_export_leaves_the_old_file_and_nothing_beside_it(
    run: Run, companies: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_list(run, companies)
    file = tmp_path / "out.xlsx"
    file.write_text("old")
    monkeypatch.setattr("webapp.exports.MOST_ROWS", 2)
    assert_refused(run("lists", "export", "UK", "-o", file), "A worksheet holds 2 rows and this list has 3.")
    assert file.read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 2
    assert_refused(run("lists", "export", "UK", "-o", tmp_path / "nix" / "out.csv"), "There is no directory")


def test_an_export_never_replaces_a_device(run: Run, companies: Path, tmp_path: Path) -> None:
    import_list(run, companies)
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    assert run("lists", "export", "UK", "-o", link).exit_code == 0
    assert not Path("/dev/null").is_file()
    assert link.is_symlink()


def test_waiting_ends_with_the_list_and_shows_what_came_of_it(
    run: Run,
    companies: Path,
    end_jobs: EndJobs,
    committed: psycopg.Connection,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[int] = []
    monkeypatch.setattr(progress, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    looked = progress.counts

    def count(conn: psycopg.Connection, one: lists.ListSeen) -> progress.Counts:
        looks.append(one.id)
        if len(looks) == 2:
            end_jobs(UK, {"09355500": ALPHA})
        if len(looks) == 3:
            lists.finish(committed)
        return looked(conn, one)

    monkeypatch.setattr(progress, "counts", count)
    add_key(run)
    result = import_list(run, companies, "--wait")
    assert result.exit_code == 0
    lines = [line[10:] for line in result.stdout.splitlines() if "ended:" in line]
    assert lines == [
        "0 of 3 jobs ended: 0 done, 0 failed, 0 in progress",
        "3 of 3 jobs ended: 1 done, 2 failed, 0 in progress",
    ]
    assert "UK: companies_house, finished, 3 jobs" in result.stdout


def test_waiting_without_a_worker_says_so_and_ends_when_the_list_is_cancelled(
    run: Run, companies: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: run("lists", "cancel", "UK"))
    result = import_list(run, companies, "--wait")
    assert "no worker is running" in result.stderr
    assert "UK: companies_house, cancelled, 3 jobs" in result.stdout


def test_an_older_schema_is_refused_with_what_to_do(run: Run, committed: psycopg.Connection) -> None:
    committed.execute("UPDATE alembic_version SET version_num = '0000'")
    assert_refused(
        run("lists", "status"),
        f"schema is 0000, this program needs {database.SCHEMA}. Stop the workers, then: flask db",
    )
    committed.execute("DELETE FROM alembic_version")
    assert_refused(run("keys", "list"), "no tables of Sluice yet. Create them: flask db upgrade")


def test_a_name_that_was_cut_is_told(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "list.csv"
    file.write_text(f"CompanyNumber,Name\n09355500,{'x' * 1500}\n")
    assert (
        "1 name cut after 1,000 characters (the first in line 2), 0 lines rejected"
        in import_list(run, file).stdout
    )


def test_an_import_says_when_it_starts_is_due_and_what_it_keeps(
    run: Run, companies: Path, committed: psycopg.Connection
) -> None:
    add_key(run)
    asked = ("--start-at", "2998-12-24 18:00", "--due-by", "2999-01-01T00:00+01:00", "--reuse", "7d")
    result = import_list(run, companies, *asked, "--keep", "90d", "--priority", "3")
    assert "nothing of it runs before 2998-12-24 18:00:00 UTC" in result.stderr
    (one,) = lists.see(committed)
    assert (one.start_at, one.due_by) == (
        datetime(2998, 12, 24, 18, tzinfo=UTC),
        datetime(2998, 12, 31, 23, tzinfo=UTC),
    )
    assert (one.reuse_seconds, one.keep_days, one.priority) == (7 * 86_400, 90, 3)
    again = import_list(run, companies, "--priority", "4", "--keep", "30d", "--due-by", "2999-01-01")
    for stays in ("priority stays 3", "keep stays 90 days", "due time stays 2998-12-31 23:00:00 UTC"):
        assert f"the list is there already, and its {stays}." in again.stderr


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        (("--start-at", "tomorrow"), "--start-at is “tomorrow”: it must be a time such as"),
        (("--due-by", "2020-01-01"), "cannot be due in the past"),
        (("--start-at", "2999-01-02", "--due-by", "2999-01-01"), "must be due after its start"),
        (("--reuse", "7"), "--reuse is “7”"),
        (("--reuse", "3651d"), "at most 3650d"),
        (("--keep", "12h"), "--keep is “12h”: it must be whole days"),
    ],
)
def test_times_that_make_no_sense_are_refused_and_nothing_is_stored(
    run: Run, companies: Path, committed: psycopg.Connection, asked: tuple[str, ...], says: str
) -> None:
    result = import_list(run, companies, *asked)
    assert result.exit_code == 1
    assert says in result.stderr
    assert lists.see(committed) == []


def test_a_fresh_retry_and_a_refresh_drop_what_was_kept(
    run: Run, companies: Path, committed: psycopg.Connection, end_jobs: EndJobs
) -> None:
    add_key(run)
    import_list(run, companies)
    assert run("lists", "refresh", "UK").stdout.startswith("No job of “UK” has ended")
    end_jobs(UK, {"09355500": ALPHA})
    keep = """INSERT INTO answer (job_id, fingerprint, occurrence, service, request, status, body, body_bytes)
              SELECT id, 'q', 1, 'companies_house', '/', 200, '', 0 FROM job"""
    committed.execute(keep)
    kept = "SELECT j.status FROM answer a JOIN job j ON j.id = a.job_id"
    assert run("lists", "retry", "UK", "--fresh").stdout.startswith("2 jobs sent back.")
    assert committed.execute(kept).fetchall() == [("done",)]
    assert run("lists", "refresh", "UK").stdout.startswith(
        "1 job sent back. The service will be asked again."
    )
    assert committed.execute(kept).fetchall() == []


def test_status_says_in_one_line_why_nothing_moves(
    run: Run, companies: Path, committed: psycopg.Connection
) -> None:
    def why() -> str:
        lines = run("lists", "status", "UK").stdout.splitlines()
        found = [line.strip() for line in lines if "Nothing moves" in line]
        assert len(found) <= 1
        return found[0].removeprefix("Nothing moves: ") if found else ""

    import_list(run, companies)
    assert why() == "no worker is running. Start one: python -m worker"
    who = Identity(uuid4(), "test · 0001", "test", 1, "0", None, [UK], 8)
    workers.register(committed, who, 60)
    assert why() == f"there is no key of {UK}. Add one: flask keys add {UK} --label NAME"
    add_key(run)
    assert why() == ""
    committed.execute("UPDATE account SET rest_until = extract(epoch FROM now()) + 900")
    assert re.fullmatch(r"keys rest until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", why())
    committed.execute("UPDATE account SET rest_until = 0")
    committed.execute("UPDATE key SET state = 'invalid'")
    assert why() == f"no key of {UK} is usable. See why: flask keys list"
    committed.execute("UPDATE key SET state = 'active'")
    committed.execute("UPDATE service SET rest_until = now() + interval '15 minutes'")
    assert why().startswith("the service rests until 2")
    committed.execute("UPDATE job SET run_at = now() + interval '1 day'")
    assert why().startswith("its first job starts at 2")
    run("lists", "pause", "UK")
    assert why() == "the list is paused. To go on: flask lists resume UK"
    committed.execute("UPDATE list SET state = 'active'")
    committed.execute("UPDATE job SET run_at = now()")
    committed.execute("UPDATE service SET rest_until = now()")
    claims.claim(committed, who.id, UK, None, n=1, soon_seconds=5.0)
    assert why() == ""
