"""Which column of an uploaded table holds the company's number and which its name."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from services.companies import BadNumber

# Headings in the order in which they are believed, as `_word` writes them.
_CIK_WORDS = ("cik", "cikstr", "cikcode", "ciknumber", "cikno", "centralindexkey")
_TICKER_WORDS = ("ticker", "tickersymbol", "stockticker", "symbol", "stocksymbol")
_NUMBER_WORDS = (
    "companynumber", "companieshousenumber", "companieshouseregisterednumber", "companiesregistrationnumber",
    "companyregistrationnumber", "companyregisterednumber", "companyregnumber", "companyregno", "companyno",
    "companynum", "companyid", "registeredcompanynumber", "registrationnumber", "registerednumber",
    "registrationno", "registeredno", "regnumber", "regno", "crn", *_CIK_WORDS, *_TICKER_WORDS,
    "number", "numero", "numerodentreprise", "nummer", "companycode",
)  # fmt: skip
_NAME_WORDS = (
    "companyname", "entityname", "entitycurrentlegalname", "entitycurrentlegalorregisteredname", "legalname",
    "registeredname", "organisationname", "organizationname", "businessname", "suppliername", "issuername",
    "name", "company", "organisation", "organization", "issuer", "title", "societe", "raisonsociale",
    "denomination", "nom", "nomdelasociete", "firma", "firmenname", "unternehmen",
)  # fmt: skip
_HEADING_WITHIN_ROWS = 20
_HEADING_CHARACTERS = 80
_MOST = 0.5
_ALMOST_ALL = 0.9

Identify = Callable[[str], str]
Cells = Sequence[str]


@dataclass(frozen=True, slots=True)
class Columns:
    """Positions from 0. The first of `number` that is not blank in a row holds the company's number.

    `number` is empty where companies are named only.
    """

    number: tuple[int, ...]
    name: int | None


@dataclass(frozen=True, slots=True)
class Layout:
    """`heading` is the position of the heading among the rows, None without one; `headers` are unique."""

    heading: int | None
    headers: tuple[str, ...]
    columns: Columns | None


def layout(rows: Sequence[Cells], identify: Identify, by_name: bool = False) -> Layout:
    """Heading and columns of a table, guessed from its first rows (none of them blank).

    The number is found by its heading, else by content: most cells identify, and it has the most
    different ones. The name is found by its heading, else it is the first other column of words.
    `columns` is None when there is no such number; `headers` are then the first row's cells. With `by_name`
    a name will do, and a column headed as one is believed before words that look like tickers.
    """
    width = max(map(len, rows))
    heading = _heading(rows, identify)
    words = [_word(_cell(rows[heading], i)) if heading is not None else "" for i in range(width)]
    body = rows if heading is None else rows[heading + 1 :]
    contents = [_content([_cell(row, i) for row in body], identify) for i in range(width)]
    number = _number_columns(words, contents)
    if by_name and (not number or _are_words(number, words, body)):
        name = _name_column(words, contents, ())
        if name is not None and (not number or words[name] in _NAME_WORDS):
            headers = _headers(rows[heading] if heading is not None else (), width)
            return Layout(heading, headers, Columns((), name))
    if not number:
        return Layout(heading, _headers(rows[heading or 0], width), None)
    headers = _headers(rows[heading] if heading is not None else (), width)
    return Layout(heading, headers, Columns(number, _name_column(words, contents, number)))


def _heading(rows: Sequence[Cells], identify: Identify) -> int | None:
    for position, row in enumerate(rows[:_HEADING_WITHIN_ROWS]):
        for i, cell in enumerate(row):
            above = [_cell(earlier, i) for earlier in rows[:position]]
            if _word(cell) in _NUMBER_WORDS and not any(_identifies(identify, text) for text in above):
                return position
    if any(_word(cell) in _NAME_WORDS for cell in rows[0]):
        return 0
    contents = [_content([_cell(row, i) for row in rows], identify) for i in range(len(rows[0]))]
    number = _best(contents)
    first = rows[0][number].strip() if number is not None else ""
    if not any(map(str.isalpha, first)) or any(map(str.isdigit, first)) or first.startswith("#"):
        return None
    below = [_cell(row, number or 0) for row in rows[1:]]
    with_digits = sum(any(map(str.isdigit, cell)) for cell in below)
    return 0 if not _identifies(identify, first) or with_digits > _MOST * len(below) else None


@dataclass(frozen=True, slots=True)
class _Content:
    """Shares of a column's cells that are not blank, and how many different ones identify."""

    identified: float
    worded: float
    different: int
    mean_length: float


def _content(cells: Cells, identify: Identify) -> _Content:
    filled = [cell for cell in cells if cell.strip()]
    if not filled:
        return _Content(0, 0, 0, 0)
    numbers = [cell for cell in filled if _identifies(identify, cell)]
    worded = sum(any(map(str.isalpha, cell)) for cell in filled)
    return _Content(
        len(numbers) / len(filled),
        worded / len(filled),
        len(set(numbers)),
        sum(map(len, filled)) / len(filled),
    )


def _number_columns(words: Sequence[str], contents: Sequence[_Content]) -> tuple[int, ...]:
    named = sorted((_NUMBER_WORDS.index(word), i) for i, word in enumerate(words) if word in _NUMBER_WORDS)
    filled = [i for _, i in named if contents[i].identified]
    best = _best(contents)
    if not filled:
        return (best,) if best is not None else tuple(i for _, i in named[:1])
    tickers = [i for i in filled if words[filled[0]] in _CIK_WORDS and words[i] in _TICKER_WORDS]
    return (filled[0], *tickers)  # a company without a CIK in the list still has its ticker


def _are_words(number: tuple[int, ...], words: Sequence[str], body: Sequence[Cells]) -> bool:
    """Found by content alone, and not as numbers and tickers are written: in capitals, each only once."""
    if any(words[i] in _NUMBER_WORDS for i in number):
        return False
    cells = [cell for row in body if (cell := _cell(row, number[0]).strip())]
    return len(set(cells)) < _ALMOST_ALL * len(cells) or any(cell != cell.upper() for cell in cells)


def _best(contents: Sequence[_Content]) -> int | None:
    likely = [i for i, content in enumerate(contents) if content.identified >= _MOST]
    return max(likely, key=lambda i: (contents[i].different, contents[i].mean_length), default=None)


def _name_column(words: Sequence[str], contents: Sequence[_Content], number: tuple[int, ...]) -> int | None:
    others = [i for i in range(len(words)) if i not in number]
    named = sorted((_NAME_WORDS.index(words[i]), i) for i in others if words[i] in _NAME_WORDS)
    if named:
        return named[0][1]
    return next((i for i in others if contents[i].worded >= _MOST), None)


def _headers(heading: Cells, width: int) -> tuple[str, ...]:
    """Unique and never blank: a blank heading is named by its place, a repeated one is counted."""
    names: list[str] = []
    for i in range(width):
        name = wanted = " ".join(_cell(heading, i).replace("\ufeff", "").split()) or f"column {i + 1}"
        again = 1
        while name in names:
            again += 1
            name = f"{wanted} {again}"
        names.append(name)
    return tuple(names)


def _identifies(identify: Identify, text: str) -> bool:
    try:
        identify(text)
    except BadNumber:
        return False
    return True


def _word(heading: str) -> str:
    """Without case, accents, blanks and signs: `companynumber` for ` Company_Number`."""
    plain = unicodedata.normalize("NFKD", heading[:_HEADING_CHARACTERS]).casefold()
    return "".join(letter for letter in plain if letter.isalnum())


def _cell(row: Cells, position: int) -> str:
    return row[position] if position < len(row) else ""
