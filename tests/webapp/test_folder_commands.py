"""A folder or a bulk archive of filings becomes a list by one command."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from click.testing import Result

from bench.accounts import accounts, file_name

Run = Callable[..., Result]
Db = psycopg.Connection


@pytest.fixture
def filings(tmp_path: Path) -> Path:
    """`filings/a.html`, `filings/notes.pdf`, `filings/day/pack.zip` with two filings and a bad one."""
    day = tmp_path / "filings" / "day"
    day.mkdir(parents=True)
    (day.parent / "a.html").write_bytes(accounts(0))
    (day.parent / "notes.pdf").write_bytes(b"%PDF")
    with zipfile.ZipFile(day / "pack.zip", "w") as pack:
        for n in (1, 2):
            pack.writestr(file_name(n), accounts(n))
        pack.writestr("broken_CIC.zip", b"PK\x03\x04 and no more")
    return day.parent


@pytest.fixture
def run_here(run_with: Callable[..., Run], dsn: str, master_key: str, filings: Path) -> Run:
    """Commands with `filings` as the root."""
    return run_with(DATABASE_URL=dsn, SLUICE_MASTER_KEYS=master_key, SLUICE_FILINGS_ROOT=str(filings))


def bring_in(run: Run, what: Path, name: str = "Filings") -> Result:
    return run("lists", "import", what, "--name", name, "--service", "filings_folder")


def members(conn: Db) -> list[str]:
    return [name for (name,) in conn.execute("SELECT company FROM job ORDER BY line")]


def test_every_filing_of_a_folder_is_a_job(run_here: Run, filings: Path, committed: Db) -> None:
    result = bring_in(run_here, filings)
    assert result.stdout.splitlines() == [
        "Made “Filings”: 3 new filings.",
        "1 other file left out, 1 file rejected.",
        "  day/pack.zip/broken_CIC.zip: The archive cannot be opened (File is not a zip file).",
        "  All of them: flask lists rejects Filings",
    ]
    assert "no worker" not in result.stderr
    assert "key" not in result.stderr
    pack = [f"day/pack.zip/{file_name(n)}" for n in (1, 2)]
    assert members(committed) == ["a.html", *pack]


def test_one_archive_is_a_list_of_its_members(run_here: Run, filings: Path, committed: Db) -> None:
    assert bring_in(run_here, filings / "day" / "pack.zip").exit_code == 0
    assert members(committed) == [f"pack.zip/{file_name(n)}" for n in (1, 2)]
    assert committed.execute("SELECT options FROM list").fetchall() == [({"folder": "day"},)]


def test_the_same_folder_again_adds_only_what_is_new(run_here: Run, filings: Path) -> None:
    bring_in(run_here, filings)
    assert "Nothing changed" in bring_in(run_here, filings).stdout
    (filings / "b.html").write_bytes(accounts(7))
    assert "Added to “Filings”: 1 new filing, 3 there already." in bring_in(run_here, filings).stdout


def test_a_list_of_one_folder_takes_none_of_another(run_here: Run, filings: Path) -> None:
    bring_in(run_here, filings)
    result = bring_in(run_here, filings / "day")
    assert result.exit_code == 1
    assert "is a list of another folder" in result.stderr


def test_nothing_outside_the_root_becomes_a_list(
    run_here: Run, run: Run, filings: Path, tmp_path: Path, committed: Db
) -> None:
    (tmp_path / "other.html").write_bytes(accounts(3))
    (filings / "link.html").symlink_to(tmp_path / "other.html")
    for what in (tmp_path / "other.html", filings / "link.html", filings / ".." / "other.html"):
        result = bring_in(run_here, what)
        assert result.exit_code == 1
        assert "lies outside SLUICE_FILINGS_ROOT" in result.stderr
    assert "SLUICE_FILINGS_ROOT is not set" in bring_in(run, filings).stderr
    assert members(committed) == []


def test_a_folder_without_filings_is_refused_and_nothing_is_stored(
    run_here: Run, filings: Path, committed: Db
) -> None:
    (filings / "empty").mkdir()
    assert "holds no filing" in bring_in(run_here, filings / "empty").stderr
    assert bring_in(run_here, filings / "gone").exit_code == 1
    assert committed.execute("SELECT count(*) FROM list").fetchall() == [(0,)]


def test_no_key_is_added_for_what_is_read_without_one(run_here: Run) -> None:
    result = run_here("keys", "add", "filings_folder", "--label", "x", stdin=b"secret\n")
    assert result.exit_code == 1
    assert "read without a key" in result.stderr
