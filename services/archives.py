"""Files as people have them -> the documents inside: gzip, archives in archives, bad members."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

MEGABYTE: Final = 1024 * 1024
DEPTH_ALLOWED: Final = 4
MEMBER_BYTES_ALLOWED: Final = 128 * MEGABYTE
RATIO_ALLOWED: Final = 100
"""Accounts shrink to a twentieth; what shrinks to less than a hundredth is made to fill a disk."""
BYTES_WITHOUT_QUESTION: Final = 64 * MEGABYTE

_ZIP: Final = (b"PK\x03\x04", b"PK\x05\x06")
_GZIP: Final = b"\x1f\x8b"
_OFFICE: Final = "[Content_Types].xml"
_NOT_ACCOUNTS: Final = re.compile(
    r"(?:\A|/)(?:__MACOSX/|\._|\.DS_Store|cic34/)|_(?:cal|def|lab|pre|ref)\.xml\Z"
    r"|\.(?:xsd|css|js|json|jpe?g|png|gif|svg|pdf|txt|csv|xlsx?)\Z",
    re.IGNORECASE,
)
_UNPACKING: Final = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error),
    *(OSError, EOFError, RuntimeError, ValueError, OverflowError),
)


@dataclass(frozen=True, slots=True)
class Document:
    """The bytes of one document; `name` leads through the archives it lies in."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file or member that gives no document. `cause`: `too_large` or `parse_error`."""

    name: str
    cause: str
    message: str


class BadMember(Exception):
    """A file or member that gives no bytes; `cause` as of a `Refusal`."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message


class _Budget:
    """What may still be unpacked, for all archives within one file together."""

    def __init__(self, packed_bytes: int) -> None:
        self.left = BYTES_WITHOUT_QUESTION + RATIO_ALLOWED * packed_bytes

    def spend(self, unpacked_bytes: int) -> None:
        if unpacked_bytes > MEMBER_BYTES_ALLOWED:
            raise BadMember(
                "too_large",
                f"Unpacked it exceeds the {MEMBER_BYTES_ALLOWED // MEGABYTE} MB that what lies in an archive "
                "may have; an archive that lies on disk by itself may have any size.",
            )
        self.left -= unpacked_bytes
        if self.left < 0:
            raise BadMember(
                "too_large", f"It grows more than {RATIO_ALLOWED} times when unpacked, as no filing does."
            )


def may_be_filing(name: str) -> bool:
    """False for what lies beside filings: schemas, linkbases, pictures, the CIC report, `__MACOSX`."""
    return not _NOT_ACCOUNTS.search(name)


def names(name: str, file: BinaryIO) -> Iterator[str | Refusal]:
    """What `documents` would name in a file, without unpacking it; only archives in archives are read.

    `file` can be of any size: of an archive its directory is read, and nothing else.
    """
    yield from _names(name, file, depth=0)


def is_archive(file: BinaryIO) -> bool:
    """Whether its content is an archive's, whatever its name."""
    file.seek(0)
    return file.read(4).startswith(_ZIP)


class Archive:
    """An archive whose documents are read one by one, by the names that `names` gave them."""

    def __init__(self, file: BinaryIO | Path, depth: int = 0) -> None:
        """A path's file is open as long as this is in use. Raises `BadMember`: it is none, or damaged."""
        self._zip = _archive(file)
        self._depth = depth
        self._last: tuple[str, Archive] | None = None  # of the archives within, the one read last

    def read(self, path: str) -> bytes:
        """The bytes of a document; `path` without the archive's own name. Raises `BadMember`, `KeyError`."""
        parts = path.split("/")
        for length in range(len(parts), 0, -1):  # the longest that is a member
            name = "/".join(parts[:length])
            info = self._zip.NameToInfo.get(name)
            if info is not None and not name.endswith("/"):
                if length == len(parts):
                    return _unpacked(self._zip, info, _Budget(info.compress_size))
                return self._within(name, info).read("/".join(parts[length:]))
        raise KeyError(path)

    def _within(self, name: str, info: zipfile.ZipInfo) -> Archive:
        last = self._last
        if last is None or last[0] != name:
            content = _unpacked(self._zip, info, _Budget(info.compress_size))
            last = self._last = name, Archive(io.BytesIO(content), _below(self._depth))
        return last[1]


def documents(name: str, data: bytes) -> Iterator[Document | Refusal]:
    """Every document in a file, one at a time. Content decides what is an archive, never the name.

    Left out: `__MACOSX`, the CIC report beside the accounts (`cic34/`), schemas, pictures, linkbases.
    """
    yield from _documents(name, data, _Budget(len(data)), depth=0)


def _documents(name: str, data: bytes, budget: _Budget, depth: int) -> Iterator[Document | Refusal]:
    try:
        if data.startswith(_ZIP):
            yield from _members(name, data, budget, _below(depth))
        elif data.startswith(_GZIP):
            yield from _documents(name, _gunzipped(data, budget), budget, _below(depth))
        else:
            yield Document(name, data)
    except BadMember as refused:
        yield Refusal(name, refused.cause, refused.message)


def _below(depth: int) -> int:
    if depth >= DEPTH_ALLOWED:
        raise BadMember("too_large", f"Archives lie more than {DEPTH_ALLOWED} deep in one another.")
    return depth + 1


def _members(name: str, data: bytes, budget: _Budget, depth: int) -> Iterator[Document | Refusal]:
    with _archive(io.BytesIO(data)) as archive:
        for info in _filings(archive):
            try:
                content = _unpacked(archive, info, budget)
            except BadMember as refused:
                yield Refusal(f"{name}/{info.filename}", refused.cause, refused.message)
            else:
                yield from _documents(f"{name}/{info.filename}", content, budget, depth)
            if budget.left < 0:
                return


def _names(name: str, file: BinaryIO, depth: int) -> Iterator[str | Refusal]:
    if not is_archive(file):
        yield name
        return
    try:
        with _archive(file) as archive:
            below = _below(depth)
            for info in _filings(archive):
                yield from _names_of(archive, info, f"{name}/{info.filename}", below)
    except BadMember as refused:
        yield Refusal(name, refused.cause, refused.message)


def _names_of(
    archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, depth: int
) -> Iterator[str | Refusal]:
    if not info.filename.lower().endswith(".zip"):
        yield name
        return
    try:
        content = _unpacked(archive, info, _Budget(info.compress_size))
    except BadMember as refused:
        yield Refusal(name, refused.cause, refused.message)
    else:
        yield from _names(name, io.BytesIO(content), depth)


def _archive(file: BinaryIO | Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(file)
    except _UNPACKING as error:
        raise BadMember("parse_error", f"The archive cannot be opened ({error}).") from None


def _filings(archive: zipfile.ZipFile) -> Iterator[zipfile.ZipInfo]:
    """The members that may be filings."""
    if _OFFICE in archive.NameToInfo:
        raise BadMember("parse_error", "It is an Office document, not a filing.")
    for info in archive.infolist():
        if not info.filename.endswith("/") and may_be_filing(info.filename):
            yield info


def _unpacked(archive: zipfile.ZipFile, info: zipfile.ZipInfo, budget: _Budget) -> bytes:
    try:
        with archive.open(info) as stream:
            content = stream.read(MEMBER_BYTES_ALLOWED + 1)
    except _UNPACKING as error:
        raise BadMember("parse_error", f"The archive's member cannot be unpacked ({error}).") from None
    budget.spend(len(content))
    return content


def _gunzipped(data: bytes, budget: _Budget) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            content = stream.read(MEMBER_BYTES_ALLOWED + 1)
    except _UNPACKING as error:
        raise BadMember("parse_error", f"The file cannot be unpacked ({error}).") from None
    budget.spend(len(content))
    return content
