"""Values as a list's columns want them: cleaned by type, or missing with a flag that says why. Pure.

No number is ever a float here: what an extractor could not keep exact is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from services.extraction import Fields, Scalar, Source, Value
from services.ixbrl.dates import printed_date
from services.service import Kind, Service

MOST_DIGITS: Final = 100
MOST_POWER: Final = 100

BAD_VALUE: Final[Mapping[Kind, str]] = {
    Kind.TEXT: "not_text",
    Kind.NUMBER: "not_a_number",
    Kind.INTEGER: "not_whole",
    Kind.DATE: "not_a_date",
    Kind.BOOLEAN: "not_yes_or_no",
    Kind.MONEY: "not_a_number",
}
"""The flag of a value that its column's type cannot hold."""
OTHER_UNIT: Final = "other_unit"
NO_CURRENCY: Final = "no_currency"
"""The flag of money whose unit is no currency (shares, or $, which many have): to be looked at."""

_UNIT: Final = re.compile(r"[A-Za-z][A-Za-z0-9/*_-]{0,39}")
_CURRENCY: Final = re.compile(r"[A-Z]{3}")
_PRINTED_NUMBER: Final = re.compile(
    r"(?P<sign>[+-])?(?P<digits>\d+|\d{1,3}(?:,\d{3})+|\d{1,3}(?: \d{3})+)"
    r"(?P<rest>\.\d+)?(?P<power>[eE][+-]?\d{1,3})?",
    re.ASCII,
)
_NAME_OF_CURRENCY: Final = r"(?P<currency>[A-Z]{3}(?![A-Za-z])|[A-Z]{0,2}[£$€¥])"
_CURRENCY_FIRST: Final = re.compile(rf"(?P<sign>\(?[+-]?){_NAME_OF_CURRENCY} ?")
_CURRENCY_LAST: Final = re.compile(rf"(?P<number>.*[\d)]) ?{_NAME_OF_CURRENCY}\Z")
_SYMBOLS: Final = {"£": "GBP", "€": "EUR", "US$": "USD"}
_NAMED_MONTH: Final = re.compile(r"[^\W\d_]{3,}")
_ISO_DATE: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ][\d:.+Z-]+)?", re.ASCII)
_LONGEST_NUMBER: Final = 400
_TRUTH: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class BadType(ValueError):
    """What was written is no type of a column; the text says what is."""


class _Bad(ValueError):
    pass


@dataclass(frozen=True, slots=True)
class Column:
    """What one column holds. `unit`: values that say another one are not taken; None takes every unit."""

    name: str
    kind: Kind
    unit: str | None = None


def read_type(text: str) -> tuple[Kind, str | None]:
    """`money GBP`, `number`, `integer shares` -> type and unit. Raises `BadType`."""
    word, _, unit = text.strip().partition(" ")
    if word not in tuple(Kind):
        raise BadType(f"“{word}” is no type. Types: {', '.join(Kind)}.")
    kind, unit = Kind(word), unit.strip()
    if not unit:
        return kind, None
    if kind not in (Kind.NUMBER, Kind.INTEGER, Kind.MONEY):
        raise BadType(f"A {kind} has no unit.")
    if not _UNIT.fullmatch(unit):
        raise BadType(f"“{unit}” is no unit. Write it as filings do, such as GBP, shares or USD/shares.")
    if kind is Kind.MONEY and not _CURRENCY.fullmatch(unit):
        raise BadType(f"“{unit}” is no currency. Write its three letters, such as GBP.")
    return kind, unit


def columns(service: Service, names: Sequence[str], types: Mapping[str, str]) -> tuple[Column, ...]:
    """The columns of a list: as its `types` say, else as the service does. Raises `BadType`."""
    return tuple(
        Column(name, *(read_type(types[name]) if name in types else (service.kind_of(name), None)))
        for name in names
    )


def checked(fields: Fields, wanted: Sequence[Column]) -> Fields:
    """The values of the wanted columns, each of its column's type; nothing is raised.

    One that cannot be is None and keeps its source and flags, with one flag more: of `BAD_VALUE`, or
    `other_unit`. Nothing but blanks is missing without a flag. Money in no currency stays: `no_currency`.
    A currency that is printed beside the number (`£5`) becomes the unit of its source.
    """
    return Fields(dict(_checked(fields.values, wanted)), fields.flags)


def _checked(values: Mapping[str, Value], wanted: Sequence[Column]) -> Iterator[tuple[str, Value]]:
    for column in wanted:
        if column.name in values:
            yield column.name, _clean(values[column.name], column)


def _clean(value: Value, column: Column) -> Value:
    if value.value is None:
        return value
    if isinstance(value.value, str) and not value.value.strip():
        return replace(value, value=None)
    try:
        cleaned = _READERS[column.kind](value.value)
    except (_Bad, ArithmeticError):
        return replace(value, value=None, flags=(*value.flags, BAD_VALUE[column.kind]))
    stated = value.source.unit if value.source else None
    unit = stated or _printed_unit(value.value, column.kind)
    if column.unit and unit and unit != column.unit:
        return replace(value, value=None, flags=(*value.flags, OTHER_UNIT))
    if unit and not stated:
        value = replace(value, source=replace(value.source or Source(), unit=unit))
    if unit and column.kind is Kind.MONEY and not _CURRENCY.fullmatch(unit):
        value = replace(value, flags=(*value.flags, NO_CURRENCY))
    return value if cleaned is value.value else Value(cleaned, value.source, value.flags)


def _text(value: Any) -> Scalar:
    match value:
        case str():
            return value.strip()
        case bool():
            return "true" if value else "false"
        case int() | Decimal():
            return format(Decimal(_number(value)), "f")
        case date():
            return value.isoformat()
    raise _Bad


def _number(value: Any) -> Decimal | int:
    match value:
        case bool():
            raise _Bad
        case str():
            value = _printed(value)
        case int() | Decimal():
            pass
        case _:
            raise _Bad
    number = Decimal(value)
    if not number.is_finite() or abs(number.adjusted()) > MOST_POWER:
        raise _Bad
    exponent = number.as_tuple().exponent
    if len(number.as_tuple().digits) > MOST_DIGITS or abs(int(exponent)) > MOST_POWER:
        raise _Bad
    return value if isinstance(value, int) else number


def _money(value: Any) -> Decimal | int:
    """As `_number`; a printed one may name its currency: `£1,204.50`, `1,204.50 GBP`, `US$ 3`."""
    return _number(_currency_and_rest(value)[1] if isinstance(value, str) else value)


def _printed_unit(value: Any, kind: Kind) -> str | None:
    currency = _currency_and_rest(value)[0] if kind is Kind.MONEY and isinstance(value, str) else None
    return _SYMBOLS.get(currency, currency) if currency else None


def _currency_and_rest(text: str) -> tuple[str | None, str]:
    text = text.strip()[: _LONGEST_NUMBER + 1]
    if first := _CURRENCY_FIRST.match(text):
        return first["currency"], first["sign"] + text[first.end() :]
    if last := _CURRENCY_LAST.match(text):
        return last["currency"], last["number"]
    return None, text


def _printed(text: str) -> Decimal:
    """Digits with a point, grouped by thousands or not, `(500)` for minus; else it is unclear what it is."""
    if len(text) > _LONGEST_NUMBER:
        raise _Bad
    text = " ".join(text.replace("−", "-").split())
    negative = text.startswith("(") and text.endswith(")")
    found = _PRINTED_NUMBER.fullmatch(text[1:-1].strip() if negative else text)
    if not found or (negative and found["sign"]):
        raise _Bad
    digits = found["digits"].replace(",", "").replace(" ", "")
    sign = "-" if negative else found["sign"] or ""
    return Decimal(f"{sign}{digits}{found['rest'] or ''}{found['power'] or ''}")


def _integer(value: Any) -> int:
    number = _number(value)
    if number != int(number):
        raise _Bad
    return int(number)


def _date(value: Any) -> date:
    """ISO 8601, or one that names its month: `03/04/2024` is two dates."""
    match value:
        case datetime():
            return value.date()
        case date():
            return value
        case str() if (iso := _ISO_DATE.fullmatch(value.strip())) or _NAMED_MONTH.search(value):
            if day := printed_date(iso[1] if iso else value):
                return day
    raise _Bad


def _boolean(value: Any) -> bool:
    match value:
        case bool():
            return value
        case str() | int() if (text := str(value).strip().lower()) in _TRUTH:
            return _TRUTH[text]
    raise _Bad


_READERS: Final[Mapping[Kind, Callable[[Any], Scalar]]] = {
    Kind.TEXT: _text,
    Kind.NUMBER: _number,
    Kind.INTEGER: _integer,
    Kind.DATE: _date,
    Kind.BOOLEAN: _boolean,
    Kind.MONEY: _money,
}
