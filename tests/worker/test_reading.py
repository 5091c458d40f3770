"""Files of a list's folder: below the root, and nothing else."""

from __future__ import annotations

import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from services.extraction import CallFailed
from worker import reading
from worker.reading import Files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """`root/uk/a.html`, `root/uk/pack.zip` with three documents, and a secret beside the root."""
    (tmp_path / "secret").write_text("s3cret")
    folder = tmp_path / "root" / "uk"
    folder.mkdir(parents=True)
    (folder / "a.html").write_bytes(b"<a/>")
    with zipfile.ZipFile(folder / "pack.zip", "w") as archive:
        for name in ("one.html", "../two.html", "/three.html"):
            archive.writestr(name, f"<{name}>")
    return tmp_path / "root"


def cause(files: Files, member: str, folder: str = "uk") -> str:
    with pytest.raises(CallFailed) as error:
        files.read(folder, member)
    return error.value.cause


def test_a_file_and_a_member_of_an_archive_are_read(root: Path) -> None:
    files = Files(root)
    assert files.read("uk", "a.html") == b"<a/>"
    assert files.read(".", "uk/a.html") == b"<a/>"
    assert files.read("uk", "pack.zip/one.html") == b"<one.html>"


def test_names_in_an_archive_lead_nowhere_on_disk(root: Path) -> None:
    files = Files(root)
    assert files.read("uk", "pack.zip/../two.html") == b"<../two.html>"
    assert files.read("uk", "pack.zip//three.html") == b"</three.html>"


@pytest.mark.parametrize("member", ["../../secret", "../../../../../../etc/passwd", "/etc/passwd"])
def test_nothing_outside_the_root_is_read(root: Path, member: str) -> None:
    assert cause(Files(root), member) == "not_available"
    assert cause(Files(root), "secret", folder="..") == "not_available"
    assert cause(Files(root), "passwd", folder="/etc") == "not_available"


def test_a_link_that_leads_out_is_not_followed(root: Path) -> None:
    (root / "uk" / "out.html").symlink_to(root.parent / "secret")
    (root / "uk" / "etc").symlink_to("/etc")
    assert cause(Files(root), "out.html") == "not_available"
    assert cause(Files(root), "etc/passwd") == "not_available"


def test_a_worker_without_a_root_reads_nothing(root: Path) -> None:
    assert cause(Files(None), "a.html") == "not_available"


def test_what_is_gone_or_no_file_is_not_available(root: Path) -> None:
    files = Files(root)
    for member in ("b.html", "pack.zip/b.html", "b.zip/one.html"):
        assert cause(files, member) == "not_available"
    assert cause(files, "a.html/one.html") == "parse_error"
    assert cause(files, "uk", folder=".") == "not_available"


def test_a_pipe_that_never_ends_is_no_file(root: Path) -> None:
    os.mkfifo(root / "uk" / "pipe.html")
    assert cause(Files(root), "pipe.html") == "not_available"


def test_a_file_of_any_size_costs_no_more_than_what_is_allowed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MEMBER_BYTES_ALLOWED", 3)
    assert cause(Files(root), "a.html") == "too_large"


def test_an_archive_that_was_replaced_is_read_anew(root: Path) -> None:
    files, pack = Files(root), root / "uk" / "pack.zip"
    assert files.read("uk", "pack.zip/one.html") == b"<one.html>"
    with zipfile.ZipFile(pack.with_suffix(".new"), "w") as archive:
        archive.writestr("one.html", "another and longer")
    pack.with_suffix(".new").replace(pack)
    assert files.read("uk", "pack.zip/one.html") == b"another and longer"


def test_many_threads_read_more_archives_than_stay_open(root: Path) -> None:
    for n in range(reading.ARCHIVES_OPEN * 2):
        with zipfile.ZipFile(root / f"{n}.zip", "w") as archive:
            archive.writestr("a.html", str(n) * 10_000)
    files = Files(root)
    with ThreadPoolExecutor(8) as threads:
        asked = [n % (reading.ARCHIVES_OPEN * 2) for n in range(200)]
        found = threads.map(lambda n: files.read(".", f"{n}.zip/a.html"), asked)
        assert [data[:1].decode() for data in found] == [str(n) for n in asked]
