"""Company numbers as people write them and spreadsheets damage them, made into what a service wants.

Every function refuses rather than guesses: `BadNumber` says what is wrong with which text.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_INVISIBLE = re.compile(r"[\s\x00\u00ad\u200b-\u200f\u202a-\u202e\u2060\ufeff]+")
_QUOTES = "\"'`´‘’“”"
_WHOLE = re.compile(r"([0-9]+)[.,]0+")
_GROUPED = re.compile(r"([0-9]{1,3}(?:(['’.,])[0-9]{3})(?:\2[0-9]{3})*)(?:[.,]0{1,2})?")
_DAY = re.compile(
    r"[0-9]{1,4}[-/.][0-9]{1,2}[-/.][0-9]{1,4}(?:00:00:00)?|[0-9]{1,2}-[A-Z]{3}(?:-[0-9]{2,4})?|[A-Z]{3}-[0-9]{2,4}"
)
_MONTHS = frozenset(["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"])
_SCIENTIFIC = re.compile(r"([0-9])(?:[.,]([0-9]+))?E\+?([0-9]{1,3})")
_CIK = re.compile(r"(?:CIK)?[:#=]?([0-9]+)")
_TICKER = re.compile(r"[A-Z][A-Z0-9]{0,6}(-[A-Z0-9]{1,3})?")
_LEI = re.compile(r"[A-Z0-9]{18}[0-9]{2}")
_LETTER = re.compile(r"[^\W\d_]")
_NO_NAME = re.compile(r"#?N/?A!?|#[A-Z/0!?]+|NONE|NULL|NAN", re.IGNORECASE)
_UK_CHARACTERS = 8
_CIK_DIGITS = 10
_LONGEST_CHARACTERS = 1_000
_LONGEST_NAME_CHARACTERS = 200
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
        why = f"{_shown(text)} is not a CIK: 1 to 10 digits, such as 320193 or CIK0000320193."
        raise BadNumber(_why_another_kind(written, text) or why)
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
    ticker = re.sub(r"\.|(?<=[A-Z0-9]{2})/", "-", written)
    if _TICKER.fullmatch(ticker) and not _has_inner_blank(text) and not _is_day(written):
        return ticker
    why = f"{_shown(text)} is neither a CIK (1 to 10 digits) nor a ticker such as AAPL or BRK.B."
    raise BadNumber(_why_another_kind(written, text) or why)


def sec_name(text: str) -> str:
    """A company's name for a look-up by name: as given, in capitals, with single blanks.

    Raises `BadNumber` for what is no name: blank, too long, no letters, or a spreadsheet's N/A.
    """
    shown = "".join(character if character.isprintable() else " " for character in text)
    name = " ".join(shown.split()).strip(_QUOTES).strip().upper()
    if len(name) > _LONGEST_NAME_CHARACTERS:
        raise BadNumber(f"{_shown(text)} is {len(name):,} characters long; that is no company's name.")
    if len(_LETTER.findall(name)) < 2 or _NO_NAME.fullmatch(name):  # noqa: PLR2004 - one letter is no name
        raise BadNumber(f"{_shown(text)} is no company's name." if name else "Number and name are blank.")
    return name


def lei(text: str) -> str:
    """The 20 characters of a legal entity identifier whose check digits are right.

    Blanks and case do not matter. Raises `BadNumber`. Source: ISO 17442, check digits by ISO 7064 MOD 97-10:
    with letters as 10 to 35 the whole is a number that leaves 1 when divided by 97.
    """
    written = _without_guards(text)
    if not _LEI.fullmatch(written):
        raise BadNumber(f"{_shown(text)} is not an LEI: 18 letters and digits and 2 check digits.")
    if int("".join(str(int(character, 36)) for character in written)) % 97 != 1:
        raise BadNumber(f"{_shown(text)} is not an LEI: its check digits are wrong.")
    return written


def identify_noting_repair(identify: Callable[[str], str], text: str) -> tuple[str, bool]:
    """The number, and whether more was done than to drop blanks, leading zeros or `CIK` and to fix case.

    That is, whether a spreadsheet had changed the number: dropped its zeros, made it a decimal or
    scientific number, or wrapped it to keep it text. Raises what `identify` raises.
    """
    number = identify(text)
    plain = _plain(text)
    if plain == number:
        return number, False
    return number, re.sub(r"^(CIK[:#=]?)?0*", "", re.sub("[./]", "-", plain)) != number


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
    if (match := _GROUPED.fullmatch(written)) and (digits := _ungrouped(match, text)):
        return digits
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


def _ungrouped(match: re.Match[str], text: str) -> str | None:
    """1,318,605 without its separators; None for a single point, which begins decimals.

    A single comma or point before three zeros may be either, and is refused.
    """
    digits, separator = re.sub("[^0-9]", "", match[1]), match[2]
    if match[1].count(separator) > 1 or separator not in ".,":
        return digits
    if digits.endswith("000"):
        raise BadNumber(f"{_shown(text)} may be {digits[:-3]} or {digits}: write it without separators.")
    return digits if separator == "," else None


def _why_another_kind(written: str, text: str) -> str | None:
    """What the text is instead, when that can be said: it saves people the search."""
    if _LEI.fullmatch(written):
        try:
            return (
                f"{_shown(text)} is an LEI ({lei(text)[:4]}…), which this service does not know companies by."
            )
        except BadNumber:
            return None
    if _is_day(written):
        return (
            f"{_shown(text)} is a date, perhaps made of a number by a spreadsheet; "
            "format the column as text and enter the number again."
        )
    return None


def _is_day(written: str) -> bool:
    return bool(_DAY.fullmatch(written)) and {*re.findall("[A-Z]{3}", written)} <= _MONTHS


def _why_no_uk_number(written: str, text: str) -> str:
    if other := _why_another_kind(written, text):
        return other
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
