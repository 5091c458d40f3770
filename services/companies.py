"""Company numbers as people write them and spreadsheets damage them, made into what a service wants.

Every function refuses rather than guesses: `BadNumber` says what is wrong with which text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_INVISIBLE = re.compile(r"[\s\x00\u00ad\u200b-\u200f\u202a-\u202e\u2060\ufeff]+")
_QUOTES = "\"'`´‘’“”"
_WHOLE = re.compile(r"([0-9]+)[.,]0+")
_SCIENTIFIC = re.compile(r"([0-9])(?:[.,]([0-9]+))?E\+?([0-9]{1,3})")
_CIK = re.compile(r"(?:CIK)?[:#=]?([0-9]+)")
_TICKER = re.compile(r"[A-Z][A-Z0-9]{0,6}(-[A-Z0-9]{1,3})?")
_UK_CHARACTERS = 8
_CIK_DIGITS = 10
_LONGEST_CHARACTERS = 1_000
_SHOWN_CHARACTERS = 60


class BadNumber(ValueError):
    """The text is not a company number. The message is a sentence for the person who wrote the text."""


def uk_number(text: str) -> str:
    """The 8 characters under which Companies House knows the company, such as 09355500 or SC722766.

    Blanks and case do not matter, zeros that a spreadsheet dropped are put back. Raises `BadNumber`.
    Source: Companies House, company number format (digits, or letters and digits, always 8).
    """
    written = _without_guards(text)
    if re.fullmatch(r"[A-Z0-9]{8}", written) and written.strip("0"):
        return written
    digits = _whole_number(written, text)
    if digits is None:
        raise BadNumber(_why_no_uk_number(written, text))
    if not digits.strip("0"):
        raise BadNumber(f"{_shown(text)} is no company number: it is zero.")
    if len(digits) > _UK_CHARACTERS:
        raise BadNumber(f"{_shown(text)} has {len(digits)} digits; a company number has at most 8.")
    return digits.zfill(_UK_CHARACTERS)


def cik(text: str) -> str:
    """The SEC's Central Index Key as digits without leading zeros: 320193 for CIK0000320193.

    Raises `BadNumber`. Source: SEC, "EDGAR application programming interfaces" (a CIK has 10 digits).
    """
    written = _without_guards(text)
    match = _CIK.fullmatch(written)
    digits = match[1] if match else _whole_number(written, text)
    if digits is None:
        raise BadNumber(f"{_shown(text)} is not a CIK: 1 to 10 digits, such as 320193 or CIK0000320193.")
    if len(digits) > _CIK_DIGITS:
        raise BadNumber(f"{_shown(text)} has {len(digits)} digits; a CIK has at most 10.")
    if not digits.strip("0"):
        raise BadNumber(f"{_shown(text)} is no CIK: it is zero.")
    return digits.lstrip("0")


def sec_identify(text: str) -> str:
    """A CIK as digits, or a ticker as the SEC's list writes it: BRK-B for brk.b. Raises `BadNumber`."""
    written = _without_guards(text)
    if re.match(r"[0-9]|CIK[:#=]?[0-9]", written):
        return cik(text)
    ticker = written.replace(".", "-")
    if _TICKER.fullmatch(ticker) and not _has_inner_blank(text):
        return ticker
    raise BadNumber(f"{_shown(text)} is neither a CIK (1 to 10 digits) nor a ticker such as AAPL or BRK.B.")


def identify_noting_repair(identify: Callable[[str], str], text: str) -> tuple[str, bool]:
    """The number, and whether more was done than to drop blanks, leading zeros or `CIK` and to fix case.

    That is, whether a spreadsheet had changed the number: dropped its zeros, made it a decimal or
    scientific number, or wrapped it to keep it text. Raises what `identify` raises.
    """
    number = identify(text)
    plain = _plain(text)
    if plain == number:
        return number, False
    return number, re.sub(r"^(CIK[:#=]?)?0*", "", plain.replace(".", "-")) != number


def _plain(text: str) -> str:
    return _INVISIBLE.sub("", text).upper()


def _without_guards(text: str) -> str:
    """Without blanks and what keeps a spreadsheet from reading digits as a number: ="…", '…"""
    if len(text) > _LONGEST_CHARACTERS:
        raise BadNumber(f"{_shown(text)} is {len(text):,} characters long; that is no number.")
    plain = _plain(text)
    written = plain.removeprefix("=").strip(_QUOTES)
    if not written:
        raise BadNumber(f"{_shown(text)} holds no number." if plain else "The number is blank.")
    return written


def _whole_number(written: str, text: str) -> str | None:
    """The digits of a number, None when it is none. A scientific one must still have all its digits."""
    if written.isascii() and written.isdigit():
        return written
    if match := _WHOLE.fullmatch(written):
        return match[1]
    if match := _SCIENTIFIC.fullmatch(written):
        first, decimals, exponent = match[1], match[2] or "", int(match[3])
        if len(decimals) >= exponent and not decimals[exponent:].strip("0"):
            return first + decimals[:exponent]
        raise BadNumber(
            f"{_shown(text)} was shortened by a spreadsheet and has lost digits; "
            "format the column as text, enter the number again and save the file."
        )
    return None


def _why_no_uk_number(written: str, text: str) -> str:
    if re.fullmatch(r"[A-Z]{2}[0-9]{1,5}", written):
        return (
            f"{_shown(text)} has {len(written)} of 8 characters; "
            f"if zeros are missing after the letters, write {written[:2]}{written[2:]:0>6}."
        )
    return f"{_shown(text)} is not a company number: 8 letters and digits, such as 09355500 or SC722766."


def _has_inner_blank(text: str) -> bool:
    return len(text.split()) > 1


def _shown(text: str) -> str:
    clean = " ".join(_INVISIBLE.sub(" ", text[: 2 * _SHOWN_CHARACTERS]).split())
    return repr(clean if len(clean) <= _SHOWN_CHARACTERS else clean[:_SHOWN_CHARACTERS] + "…")
