"""A CIK for a ticker or a name, by the SEC's own list of the companies whose shares are traded."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Generator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from services.extraction import Answer, Asked, Failed, Get

TICKERS: Final = Get("/files/company_tickers.json", host="www", shared_seconds=86_400)
"""Made anew every night (SEC, "Accessing EDGAR data"), so one answer does for a day and every company."""

_OK: Final = 200
_NAMED: Final = 5
_WITHOUT_TICKER: Final = " A company whose shares are not traded is not in it: ask for it by its CIK."
_STATE: Final = re.compile(
    r"\s*[/\\][A-Za-z]{2,4}[/\\]?\s*$"
)  # the SEC tells namesakes apart: "ACE LTD /DE/"
_DROPPED: Final = re.compile(r"['’.`]|\(.*?\)")
_LEGAL_FORMS: Final = frozenset(
    {"inc", "incorporated", "corp", "corporation", "co", "company", "ltd", "limited", "plc", "llc", "lp"}
    | {"sa", "ag", "nv", "se", "spa", "ab", "asa", "oyj"}
)


@dataclass(frozen=True, slots=True)
class Found:
    """A company, and whether it was found by nothing but its name."""

    cik: str
    by_name: bool = False


@dataclass(frozen=True, slots=True)
class Listed:
    """The list, by ticker and by what is left of a name (`name_key`): CIK to the name as the SEC has it."""

    tickers: dict[str, str]
    names: dict[str, dict[str, str]]


def find_cik(asked: str) -> Generator[Asked, Any, Found | Failed]:
    """The CIK of a ticker or of a company's name; one call, none when it is a CIK already.

    A name must be the listed one but for case, signs and legal form, and nobody else's: nothing is guessed.
    """
    if asked.isdigit():
        return Found(asked)
    answer: Answer = yield TICKERS
    if answer.status != _OK:
        return Failed("not_available", f"The SEC's list of tickers could not be read ({answer.status}).")
    try:
        listed = _listed(answer.body)
    except ValueError as error:
        return Failed("parse_error", f"The SEC's list of tickers cannot be read: {error}")
    if asked in listed.tickers:
        return Found(listed.tickers[asked])
    return _by_name(asked, listed)


def _by_name(asked: str, listed: Listed) -> Found | Failed:
    found = listed.names.get(name_key(asked), {})
    exact = [cik for cik, name in found.items() if _letters(name) == _letters(asked)]
    ciks = exact if len(exact) == 1 else list(found)
    if len(ciks) > 1:
        some = ", ".join(f"{cik} ({name})" for cik, name in sorted(found.items())[:_NAMED])
        return Failed("not_found", f"Several companies are called {asked}: {some}. Ask for one by its CIK.")
    return (
        Found(ciks[0], by_name=True)
        if ciks
        else Failed("not_found", f"The SEC's list of tickers has no {asked}.{_WITHOUT_TICKER}")
    )


def _letters(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))


def name_key(name: str) -> str:
    """What two ways to write one company's name have in common: `waltdisney` for `The Walt Disney Co.`"""
    plain = unicodedata.normalize("NFKD", _STATE.sub("", name)).casefold().replace("&", " and ")
    words = re.findall(r"[^\W_]+", _DROPPED.sub("", plain))
    if len(words) > 1 and words[0] == "the":
        del words[0]
    while len(words) > 1 and (words[-1] in _LEGAL_FORMS or words[-1] == "and"):
        del words[-1]
    return "".join(words)


@lru_cache(maxsize=1)
def _listed(body: bytes) -> Listed:
    """Read once for all companies: ten thousand entries take longer than anything else about a ticker."""
    found = Answer(_OK, body).json()
    tickers: dict[str, str] = {}
    names: dict[str, dict[str, str]] = defaultdict(dict)
    for entry in found.values() if isinstance(found, dict) else ():
        number = str(entry.get("cik_str")).lstrip("0") if isinstance(entry, dict) else ""
        if not number.isdigit():
            continue
        ticker, title = entry.get("ticker"), entry.get("title")
        if isinstance(ticker, str):
            tickers.setdefault(ticker, number)
        if isinstance(title, str) and (key := name_key(title)):
            names[key][number] = title
    return Listed(tickers, dict(names))
