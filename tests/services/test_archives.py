"""Archives of any size: what is in them is named without unpacking, and read one document at a time."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.archives import (
    MEMBER_BYTES_ALLOWED,
    Archive,
    BadMember,
    Document,
    Refusal,
    documents,
    names,
)


def packed(members: Mapping[str, bytes]) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return whole.getvalue()


INNER = packed({"CIC-1/accounts/a.xhtml": b"<inner/>", "CIC-1/cic34/report.xhtml": b"<report/>"})
PACK = packed({"one.html": b"<one/>", "deep/x_CIC.zip": INNER, "a.xsd": b"<schema/>", "odd.zip": b"<html/>"})


def test_the_documents_of_a_pack_are_named_as_reading_it_whole_names_them() -> None:
    found = list(names("pack.zip", io.BytesIO(PACK)))
    assert found == [
        "pack.zip/one.html",
        "pack.zip/deep/x_CIC.zip/CIC-1/accounts/a.xhtml",
        "pack.zip/odd.zip",
    ]
    assert found == [one.name for one in documents("pack.zip", PACK)]


def test_each_named_document_is_read_as_reading_the_pack_whole_reads_it() -> None:
    archive = Archive(io.BytesIO(PACK))
    for one in documents("pack.zip", PACK):
        assert isinstance(one, Document)
        assert archive.read(one.name.removeprefix("pack.zip/")) == one.data


@given(
    st.dictionaries(
        st.text("abc/.é", min_size=1, max_size=8).filter(lambda n: n[-1] != "/"), st.binary(max_size=9)
    )
)
def test_whatever_the_names_are_what_is_named_can_be_read(members: dict[str, bytes]) -> None:
    data = packed(members)
    archive = Archive(io.BytesIO(data))
    for name in names("p.zip", io.BytesIO(data)):
        assert isinstance(name, str)
        assert archive.read(name.removeprefix("p.zip/")) == members[name.removeprefix("p.zip/")]


def test_what_is_not_in_the_archive_is_a_key_error() -> None:
    archive = Archive(io.BytesIO(PACK))
    for name in ("two.html", "deep", "deep/x_CIC.zip/two", "one.html/x"):
        with pytest.raises((KeyError, BadMember)):
            archive.read(name)


def test_a_damaged_archive_is_refused_by_its_name() -> None:
    assert [type(one) for one in names("p.zip", io.BytesIO(PACK[:-30]))] == [Refusal]
    with pytest.raises(BadMember, match="cannot be opened"):
        Archive(io.BytesIO(PACK[:-30]))


def test_a_member_that_is_damaged_is_one_bad_member() -> None:
    data = bytearray(packed({"bad.html": b"x" * 5000, "good.html": b"<good/>"}))
    at = data.index(b"bad.html") + len(b"bad.html")
    data[at : at + 8] = b"\xff" * 8
    archive = Archive(io.BytesIO(bytes(data)))
    with pytest.raises(BadMember, match="cannot be unpacked"):
        archive.read("bad.html")
    assert archive.read("good.html") == b"<good/>"


def test_an_encrypted_member_is_one_bad_member() -> None:
    data = bytearray(packed({"a.html": b"<a/>"}))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + flags] |= 1
    with pytest.raises(BadMember, match="cannot be unpacked"):
        Archive(io.BytesIO(bytes(data))).read("a.html")


@pytest.mark.parametrize("size", [MEMBER_BYTES_ALLOWED + 1, 100 * 1024 * 1024])
def test_a_member_that_unpacks_to_a_bomb_is_too_large(size: int) -> None:
    archive = Archive(io.BytesIO(packed({"bomb.html": bytes(size)})))
    with pytest.raises(BadMember) as error:
        archive.read("bomb.html")
    assert error.value.cause == "too_large"


def test_a_large_archive_in_an_archive_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    inner = packed({"a.html": random.Random(7).randbytes(3_000)})
    data = packed({"month.zip": inner, "one.html": b"<one/>"})
    monkeypatch.setattr("services.archives.MEMBER_BYTES_ALLOWED", 2_000)
    refused, kept = names("pack.zip", io.BytesIO(data))
    assert isinstance(refused, Refusal)
    assert (refused.name, refused.cause) == ("pack.zip/month.zip", "too_large")
    assert "an archive that lies on disk by itself may have any size." in refused.message
    assert kept == "pack.zip/one.html"
    read = [one for one in documents("pack.zip", data) if isinstance(one, Refusal)]
    assert read == [refused]
    with pytest.raises(BadMember, match="by itself may have any size"):
        Archive(io.BytesIO(data)).read("month.zip/a.html")
    monkeypatch.setattr("services.archives.MEMBER_BYTES_ALLOWED", 3_000)
    assert list(names("month.zip", io.BytesIO(inner))) == ["month.zip/a.html"], "of any size on its own"


def test_archives_too_deep_in_one_another_are_refused() -> None:
    data, path = packed({"a.html": b"<a/>"}), "a.html"
    for _ in range(6):
        data, path = packed({"x.zip": data}), f"x.zip/{path}"
    assert [type(one) for one in names("p.zip", io.BytesIO(data))] == [Refusal]
    with pytest.raises(BadMember, match="deep"):
        Archive(io.BytesIO(data)).read(path)
