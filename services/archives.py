"""Files as people have them -> the documents inside: gzip, archives in archives, bad members."""

from __future__ import annotations

import gzip
import io
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

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
_UNPACKING: Final = (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, ValueError)


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


class _Refused(Exception):
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
            raise _Refused(
                "too_large", f"Unpacked it exceeds the {MEMBER_BYTES_ALLOWED // MEGABYTE} MB allowed."
            )
        self.left -= unpacked_bytes
        if self.left < 0:
            raise _Refused(
                "too_large", f"It grows more than {RATIO_ALLOWED} times when unpacked, as no filing does."
            )


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
    except _Refused as refused:
        yield Refusal(name, refused.cause, refused.message)


def _below(depth: int) -> int:
    if depth >= DEPTH_ALLOWED:
        raise _Refused("too_large", f"Archives lie more than {DEPTH_ALLOWED} deep in one another.")
    return depth + 1


def _members(name: str, data: bytes, budget: _Budget, depth: int) -> Iterator[Document | Refusal]:
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except _UNPACKING as error:
        raise _Refused("parse_error", f"The archive cannot be opened ({error}).") from None
    with archive:
        members = archive.infolist()
        if any(member.filename == _OFFICE for member in members):
            raise _Refused("parse_error", "It is an Office document, not a filing.")
        for member in members:
            if not member.is_dir() and not _NOT_ACCOUNTS.search(member.filename):
                yield from _member(archive, member, f"{name}/{member.filename}", budget, depth)
            if budget.left < 0:
                return


def _member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, budget: _Budget, depth: int
) -> Iterator[Document | Refusal]:
    try:
        with archive.open(member) as stream:
            content = stream.read(MEMBER_BYTES_ALLOWED + 1)
        budget.spend(len(content))
    except _Refused as refused:
        yield Refusal(name, refused.cause, refused.message)
    except _UNPACKING as error:
        yield Refusal(name, "parse_error", f"The archive's member cannot be unpacked ({error}).")
    else:
        yield from _documents(name, content, budget, depth)


def _gunzipped(data: bytes, budget: _Budget) -> bytes:
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            content = stream.read(MEMBER_BYTES_ALLOWED + 1)
    except _UNPACKING as error:
        raise _Refused("parse_error", f"The file cannot be unpacked ({error}).") from None
    budget.spend(len(content))
    return content
