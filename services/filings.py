"""Filings as files: documents, gzip, archives within archives -> one dictionary of plain values for each document."""

from __future__ import annotations

import gzip
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import PurePosixPath
from typing import Any, Final

from services.extraction import Scalar, Source, Value
from services.ixbrl import Fact, Filing, Unreadable, read
from services.uk_accounts import Accounts, Period, latest, normalise, padded_number

MEMBERS_ALLOWED: Final = 100_000
DEPTH_ALLOWED: Final = 3
MEMBER_BYTES_ALLOWED: Final = 128 * 1024 * 1024
RATIO_ALLOWED: Final = 200
"""Text shrinks to a hundredth at best; what shrinks further is made to fill a disk."""
RATIO_MATTERS_FROM_BYTES: Final = 16 * 1024 * 1024

_ZIP, _GZIP = b"PK\x03\x04", b"\x1f\x8b"
_EMPTY_ZIP: Final = b"PK\x05\x06"
_NUMBER_IN_NAME: Final = re.compile(r"Prod\d+_\d+_([A-Za-z0-9]{1,8})_(?:\d{8})(?!\d)")
_CIC_IN_NAME: Final = re.compile(r"CIC[-_]([A-Za-z0-9]{1,8})(?![A-Za-z0-9])")
_SKIPPED: Final = re.compile(r"(?:\A|/)(?:__MACOSX/|\._|\.DS_Store|cic34/)", re.IGNORECASE)
_NOT_FILINGS: Final = frozenset({".xsd", ".css", ".js", ".json", ".jpg", ".jpeg", ".png", ".gif", ".xlsx", ".pdf", ".txt"})
_LINKBASE: Final = re.compile(r"_(?:cal|def|lab|pre|ref)\.xml\Z", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Refused(Exception):
    cause: str
    message: str


def read_file(name: str, data: bytes, with_facts: bool = False) -> Iterator[dict[str, Any]]:
    """One dictionary for each document in a file; numbers are texts, so that JSON keeps them exact.

    `{"file", "cause", "message", columns of the latest year…, "periods", "flags"}` and `"facts"` when asked.
    `cause` is None, or a code of `services.causes`: `parse_error`, `no_facts`, `too_large`. One bad member
    never stops an archive. Nothing is raised.
    """
    yield from _documents(name, data, with_facts, depth=0)


def _documents(name: str, data: bytes, with_facts: bool, depth: int) -> Iterator[dict[str, Any]]:
    try:
        if data.startswith((_ZIP, _EMPTY_ZIP)):
            yield from _archive(name, data, with_facts, depth)
        elif data.startswith(_GZIP):
            yield from _documents(name, _gunzipped(data, depth), with_facts, depth + 1)
        else:
            yield _document(name, data, with_facts)
    except _Refused as refused:
        yield _failed(name, refused.cause, refused.message)


def _archive(name: str, data: bytes, with_facts: bool, depth: int) -> Iterator[dict[str, Any]]:
    if depth >= DEPTH_ALLOWED:
        raise _Refused("too_large", f"Archives are nested more than {DEPTH_ALLOWED} deep.")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if len(members) > MEMBERS_ALLOWED:
                raise _Refused("too_large", f"The archive has more than {MEMBERS_ALLOWED} members.")
            for member in members:
                if _holds_filing(member.filename):
                    yield from _member(archive, member, name, with_facts, depth)
    except (zipfile.BadZipFile, ValueError, OSError, EOFError, NotImplementedError) as error:
        raise _Refused("parse_error", f"The archive cannot be opened ({error}).") from None


def _member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, outer: str, with_facts: bool, depth: int
) -> Iterator[dict[str, Any]]:
    name = f"{outer}/{member.filename}"
    try:
        content = _unpacked(archive, member)
    except _Refused as refused:
        yield _failed(name, refused.cause, refused.message)
        return
    yield from _documents(name, content, with_facts, depth + 1)


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    """The member's bytes; never more than allowed, whatever its header claims."""
    _check_size(member.file_size, member.compress_size)
    try:
        with archive.open(member) as stream:
            content = stream.read(MEMBER_BYTES_ALLOWED + 1)
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, RuntimeError, NotImplementedError) as error:
        raise _Refused("parse_error", f"The archive's member cannot be unpacked ({error}).") from None
    _check_size(len(content), member.compress_size)
    return content


def _gunzipped(data: bytes, depth: int) -> bytes:
    if depth >= DEPTH_ALLOWED:
        raise _Refused("too_large", f"Archives are nested more than {DEPTH_ALLOWED} deep.")
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            content = stream.read(MEMBER_BYTES_ALLOWED + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise _Refused("parse_error", f"The file cannot be unpacked ({error}).") from None
    _check_size(len(content), len(data))
    return content


def _check_size(unpacked: int, packed: int) -> None:
    if unpacked > MEMBER_BYTES_ALLOWED:
        raise _Refused("too_large", f"Unpacked it is larger than the {MEMBER_BYTES_ALLOWED // 1024**2} MB allowed.")
    if unpacked > RATIO_MATTERS_FROM_BYTES and unpacked > RATIO_ALLOWED * max(packed, 1):
        raise _Refused("too_large", f"It grows more than {RATIO_ALLOWED} times when unpacked, as no filing does.")
