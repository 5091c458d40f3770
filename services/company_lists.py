"""A list of companies from a file as people upload it. Nothing is dropped silently."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from services.companies import BadNumber, identify_noting_repair
from services.list_columns import Columns, Identify, Layout, layout
from services.sheets import Row, Sheet, UnusableFile, sheets

__all__ = ["Columns", "CompanyList", "Listed", "Reject", "Repair", "UnusableFile", "read_companies"]

MOST_ROWS = 1_000_000
_SAMPLE_ROWS = 1_000
_REPAIRS_KEPT = 100
_REJECT_CHARACTERS = 2_000
_HEADERS_SHOWN = 12
_HEADER_CHARACTERS = 40
LONGEST_NAME = 1_000
_NOTHING: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class Listed:
    """A company and the line it is from. `extra`: the cells of the other columns that are not blank."""

    line: int
    number: str
    name: str | None
    extra: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reject:
    """A line that names no company. `text` is the line's cells, cut at 2,000 characters."""

    line: int
    text: str
    reason: str


@dataclass(frozen=True, slots=True)
class Repair:
    """A number that a spreadsheet had changed, as it was written and as it was meant."""

    line: int
    written: str
    number: str


@dataclass(slots=True)
class CompanyList:
    """What a file holds: every row is a company, a reject, blank, or merged into an earlier equal number.

    `merged` and `repaired` count rows; `repairs` are the first hundred. `cut` counts names of more than 1,000
    characters, of which the rest is left out: often a quotation mark is missing. `headers` names all
    columns and `columns` says which were used: changed and handed back to `read_companies`, it replaces
    the guess.
    `header_line` is None for a table without a heading; `delimiter` is blank for a workbook.
    """

    encoding: str
    delimiter: str
    sheet: str
    header_line: int | None
    headers: tuple[str, ...]
    columns: Columns
    companies: list[Listed] = field(default_factory=list)
    rejects: list[Reject] = field(default_factory=list)
    merged: int = 0
    repaired: int = 0
    repairs: list[Repair] = field(default_factory=list)
    cut: int = 0
    first_cut_line: int | None = None

    @property
    def number_columns(self) -> tuple[str, ...]:
        """The headings of the columns that the numbers are from, the preferred one first."""
        return tuple(self.headers[i] for i in self.columns.number)

    @property
    def name_column(self) -> str | None:
        """The heading of the column that the names are from."""
        return None if self.columns.name is None else self.headers[self.columns.name]


def read_companies(
    data: bytes,
    filename: str,
    identify: Identify,
    columns: Columns | None = None,
    identify_name: Identify | None = None,
) -> CompanyList:
    """The companies of a CSV, TSV or XLSX file, in the file's order, each number once.

    `identify` is the service's: it makes what people write a number or raises `BadNumber`; so does
    `identify_name` with a company's name, where a line has no number. Of a workbook the first visible
    worksheet with such a column is read. Raises `UnusableFile` with a sentence for people when
    the file is empty, no table, without a usable column, or longer than a million rows.
    """
    problem: UnusableFile | None = None
    for sheet in sheets(data, filename):
        rows = (row for row in sheet.rows if _is_filled(row[1]))
        head = list(itertools.islice(rows, _SAMPLE_ROWS))
        if not head:
            continue
        plan = layout([cells for _, cells in head], identify, by_name=identify_name is not None)
        used = columns or plan.columns
        if used is None:
            problem = problem or _no_column(filename, plan.headers)
            continue
        result = _begin(sheet, head, plan, used)
        body = head if plan.heading is None else head[plan.heading + 1 :]
        _add_rows(result, itertools.chain(body, rows), (identify, identify_name), filename)
        return result
    raise problem or UnusableFile(f"{filename} is empty.")


def _begin(sheet: Sheet, head: list[Row], plan: Layout, columns: Columns) -> CompanyList:
    header_line = None if plan.heading is None else head[plan.heading][0]
    result = CompanyList(sheet.encoding, sheet.delimiter, sheet.name, header_line, plan.headers, columns)
    for line, cells in head[: plan.heading or 0]:
        result.rejects.append(Reject(line, _text(cells, sheet.delimiter), "The line is above the heading."))
    return result


def _add_rows(
    result: CompanyList,
    rows: Iterable[Row],
    identifies: tuple[Identify, Identify | None],
    filename: str,
) -> None:
    seen: set[str] = set()
    for line, cells in rows:
        if len(result.companies) + len(result.rejects) + result.merged >= MOST_ROWS:
            raise UnusableFile(f"{filename} has more than {MOST_ROWS:,} rows; split it into several lists.")
        written = _first_filled(cells, result.columns.number)
        try:
            number, repaired = _identified(written, cells, result.columns, identifies)
        except BadNumber as bad:
            result.rejects.append(Reject(line, _text(cells, result.delimiter), str(bad)))
            continue
        if repaired:
            result.repaired += 1
            if len(result.repairs) < _REPAIRS_KEPT:
                result.repairs.append(Repair(line, written.strip(), number))
        if number in seen:
            result.merged += 1
            continue
        seen.add(number)
        result.companies.append(_listed(line, number, cells, result))
    if not result.companies and not result.rejects:
        raise UnusableFile(f"{filename} has a heading but no companies below it.")


def _identified(
    written: str, cells: list[str], columns: Columns, identifies: tuple[Identify, Identify | None]
) -> tuple[str, bool]:
    """The number, else the name where the service finds companies by name; and whether it was repaired."""
    identify, identify_name = identifies
    if written or identify_name is None or columns.name is None:
        return identify_noting_repair(identify, written)
    return identify_name(_first_filled(cells, (columns.name,))), False


def _listed(line: int, number: str, cells: list[str], result: CompanyList) -> Listed:
    used = (*result.columns.number[:1], result.columns.name)
    extra = {
        _header(result.headers, i): cell.strip()
        for i, cell in enumerate(cells)
        if i not in used and cell and not cell.isspace()
    }
    name = "" if result.columns.name is None else _first_filled(cells, (result.columns.name,)).strip()
    if len(name) > LONGEST_NAME:
        result.cut += 1
        result.first_cut_line = result.first_cut_line or line
        name = name[: LONGEST_NAME - 1] + "…"
    return Listed(line, number, name or None, extra or _NOTHING)


def _header(headers: tuple[str, ...], position: int) -> str:
    """A row may be longer than all rows that the headers were made from."""
    return headers[position] if position < len(headers) else f"column {position + 1}"


def _first_filled(cells: list[str], positions: Iterable[int]) -> str:
    for i in positions:
        if i < len(cells) and cells[i] and not cells[i].isspace():
            return cells[i]
    return ""


def _is_filled(cells: list[str]) -> bool:
    return any(cell and not cell.isspace() for cell in cells)


def _text(cells: list[str], delimiter: str) -> str:
    text = (delimiter or "\t").join(cells).strip()
    return text if len(text) <= _REJECT_CHARACTERS else text[: _REJECT_CHARACTERS - 1] + "…"


def _no_column(filename: str, headers: tuple[str, ...]) -> UnusableFile:
    shown = ", ".join(f"“{header[:_HEADER_CHARACTERS]}”" for header in headers[:_HEADERS_SHOWN])
    more = f" and {len(headers) - _HEADERS_SHOWN} more" if len(headers) > _HEADERS_SHOWN else ""
    return UnusableFile(
        f"{filename} has no column of company numbers. Its columns are {shown}{more}. "
        "Looked for a heading such as company_number, CompanyNumber, cik or ticker, "
        "then for a column that holds mostly company numbers."
    )
