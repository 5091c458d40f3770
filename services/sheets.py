"""Files as people upload them, read as rows of text: any encoding, any delimiter, or an Excel workbook.

What a file is, is seen in its bytes and never in its name. A damaged quote never swallows the lines after it.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
import sys
import warnings
import zipfile
import zlib
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, time
from typing import Any

import openpyxl
from openpyxl.utils.exceptions import InvalidFileException

Row = tuple[int, list[str]]

# The module's own limit of 131,072 characters a cell holds for the whole process; real exports exceed it.
csv.field_size_limit(sys.maxsize)

_DELIMITERS = "\t;|,"  # on a tie the rarer in running text wins
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NOT_TABLES = (
    (b"%PDF", "a PDF"),
    (b"\xd0\xcf\x11\xe0", "an old or password-protected Excel file (save it as .xlsx without a password)"),
    (b"\x1f\x8b", "a compressed file (unpack it first)"),
    (b"PK", "a ZIP archive and no Excel workbook (unpack it first)"),
)
_UNDEFINED_IN_CP1252 = bytes([0x81, 0x8D, 0x8F, 0x90, 0x9D])
_CONTROL = re.compile(r"[\x01-\x08\x0e-\x19\x1b-\x1f]")
_SAMPLE_BYTES = 1 << 16
_SAMPLE_ROWS = 200
_CHECKED_BYTES = 1 << 20
_UNPACKED_BYTES = 1 << 29
_LARGEST_EXACT_FLOAT = 1e15
_BROKEN_WORKBOOK = (
    InvalidFileException, zipfile.BadZipFile, zlib.error, KeyError, IndexError, ValueError, TypeError,
    AttributeError, OSError, EOFError, RuntimeError, SyntaxError,
)  # fmt: skip


class UnusableFile(ValueError):
    """No list can be read from the file. The message is a sentence for the person who uploaded it."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One table. `rows` gives (line, cells) once, blank rows too; lines count from 1 as an editor does.

    `delimiter` is blank and `name` is the worksheet's for a workbook.
    """

    rows: Iterator[Row]
    encoding: str
    delimiter: str = ""
    name: str = ""


def sheets(data: bytes, filename: str) -> Iterator[Sheet]:
    """The tables of a file: one for text, every visible worksheet for a workbook. Raises `UnusableFile`."""
    if not data.strip(b"\0\t\n\r \xef\xbb\xbf\xfe\xff"):
        raise UnusableFile(f"{filename} is empty.")
    if data.startswith(b"PK\x03\x04") and b"xl/workbook" in data:
        return _worksheets(data, filename)
    for signature, what in _NOT_TABLES:
        if data.startswith(signature):
            raise UnusableFile(f"{filename} is {what}; upload a CSV, a TSV or an Excel workbook.")
    return iter([_text_sheet(data, filename)])


def _text_sheet(data: bytes, filename: str) -> Sheet:
    encoding = _encoding(data)
    head = data[:_SAMPLE_BYTES].decode(encoding, errors="replace")
    noise = len(_CONTROL.findall(head)) + head.count("\ufffd") + max(0, head.count("\0") - len(head) // 10)
    if noise > 1 + len(head) // 50:
        raise UnusableFile(f"{filename} is not a text file; upload a CSV, a TSV or an Excel workbook.")
    lines = io.TextIOWrapper(io.BytesIO(data), encoding=encoding, errors="replace", newline="")
    stated = re.match(r"sep=(.)\s*[\r\n]", head.lstrip("\ufeff"), re.IGNORECASE)
    delimiter = stated[1] if stated else _delimiter(head)
    rows = records(lines, delimiter)
    return Sheet(itertools.islice(rows, 1, None) if stated else rows, encoding, delimiter)


def _encoding(data: bytes) -> str:
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return name
    head = data[:_SAMPLE_BYTES]
    even, odd, half = head[::2].count(0), head[1::2].count(0), len(head) // 2
    if max(even, odd) * 3 > half and min(even, odd) * 20 < half:
        return "utf-16-le" if odd > even else "utf-16-be"
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(data), _CHECKED_BYTES):
            decoder.decode(data[start : start + _CHECKED_BYTES])
    except UnicodeDecodeError:
        undefined = any(byte in data for byte in _UNDEFINED_IN_CP1252)
        return "latin-1" if undefined else "cp1252"
    return "utf-8"


def _delimiter(head: str) -> str:
    """The delimiter that cuts most of the first rows into the same number of cells, more than one."""
    lines = head.splitlines(keepends=True)
    if len(lines) > 1:
        lines = lines[:-1]  # perhaps cut in the middle
    best, best_share = ",", 0.0
    for delimiter in _DELIMITERS:
        rows = itertools.islice((row for _, row in records(iter(lines), delimiter) if row), _SAMPLE_ROWS)
        widths = Counter(len(row) for row in rows)
        even = max((count for width, count in widths.items() if width > 1), default=0)
        if even > best_share * widths.total():
            best, best_share = delimiter, even / widths.total()
    return best


class _Lines:
    """Feeds a csv reader and keeps the lines of the record being read, so that they can be given back."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = iter(lines)
        self._again: deque[str] = deque()
        self.first = 1
        self.record: list[str] = []

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        line = self._again.popleft() if self._again else next(self._lines).replace("\0", "")
        self.record.append(line)
        return line

    def begin_record(self) -> None:
        self.first += len(self.record)
        self.record = []

    def keep_only_first(self) -> str:
        self._again.extendleft(reversed(self.record[1:]))
        del self.record[1:]
        return self.record[0]


def records(lines: Iterable[str], delimiter: str) -> Iterator[Row]:
    """(first line, cells) of each record. Where quoting is damaged, that one line is read as it stands."""
    feed = _Lines(lines)
    reader = csv.reader(feed, delimiter=delimiter, skipinitialspace=True, strict=True)
    while True:
        feed.begin_record()
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error:
            row = _damaged(feed.keep_only_first(), delimiter)
        yield feed.first, row


def _damaged(line: str, delimiter: str) -> list[str]:
    """Here a quoted cell ends only where a delimiter or the line's end follows its closing quote."""
    end = re.escape(delimiter)
    cell = re.compile(rf'\s*"(.*?)"\s*(?={end}|$)|([^{end}]*)')
    line, cells, at = line.strip("\r\n"), [], 0
    while at <= len(line) and (match := cell.match(line, at)):
        cells.append(match[2].strip().strip('"') if match[1] is None else match[1].replace('""', '"'))
        at = match.end() + 1
    return cells


def _worksheets(data: bytes, filename: str) -> Iterator[Sheet]:
    broken = UnusableFile(
        f"{filename} looks like an Excel workbook but cannot be read; save it again as CSV."
    )
    try:
        unpacked = sum(member.file_size for member in zipfile.ZipFile(io.BytesIO(data)).infolist())
        pages = _visible_pages(data) if unpacked <= _UNPACKED_BYTES else None
    except _BROKEN_WORKBOOK as error:
        raise broken from error
    if pages is None:
        raise UnusableFile(f"{filename} unpacks to {unpacked >> 20} MB; save it as CSV instead.")
    for page in pages:
        page.reset_dimensions()  # some programs write a wrong size, and the rest would be lost
        yield Sheet(_page_rows(page.iter_rows(values_only=True), broken), "xlsx", name=page.title)


def _visible_pages(data: bytes) -> list[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and extensions, which hold no data
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    return [page for page in book.worksheets if page.sheet_state == "visible"]


def _page_rows(rows: Iterator[tuple[object, ...]], broken: UnusableFile) -> Iterator[Row]:
    try:
        for number, row in enumerate(rows, start=1):
            yield number, [_cell_text(value) for value in row]
    except _BROKEN_WORKBOOK as error:
        raise broken from error


def _cell_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_EXACT_FLOAT:
        return str(int(value))
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    return str(value).replace("\0", "")
