"""A job's result as people read it: a row per field with the year before and where it is from. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

PRIOR = "_prior"
PARTS = (
    ("tag", "Tag"),
    ("context", "Context"),
    ("unit", "Unit"),
    ("document", "Document"),
    ("position", "Position"),
    ("form", "Form"),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """A value as it is shown; `text` None: missing. `source`: pairs of a word and its text.

    `unit`: of a number, None where nothing names one.
    """

    text: str | None
    is_number: bool
    unit: str | None
    flags: Sequence[str]
    source: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Row:
    """A field, with that of the period before if the list asks for both."""

    name: str
    now: Cell
    prior: Cell | None

    @property
    def cells(self) -> list[Cell]:
        return [cell for cell in (self.now, self.prior) if cell is not None]

    @property
    def is_missing(self) -> bool:
        return any(cell.text is None for cell in self.cells)

    @property
    def is_flagged(self) -> bool:
        return any(cell.flags for cell in self.cells)


def rows(fields: Sequence[str], result: Mapping[str, Any]) -> list[Row]:
    """The fields in the list's order; `…_prior` stands beside the field that it is the year before of."""
    asked = set(fields)
    return [
        Row(name, _cell(name, result), _cell(name + PRIOR, result) if name + PRIOR in asked else None)
        for name in fields
        if not (name.endswith(PRIOR) and name.removesuffix(PRIOR) in asked)
    ]


def usual_unit(rows: Sequence[Row]) -> str | None:
    """The unit that most figures of a result have: said once, and beside a figure only what differs."""
    units = Counter(cell.unit for row in rows for cell in row.cells if cell.unit)
    return max(units, key=lambda unit: units[unit], default=None)


def shown(value: object) -> str:
    """`1,204,512`, negative in brackets `(351,200)`; yes and no; text as it is."""
    match value:
        case bool():
            return "yes" if value else "no"
        case int() | Decimal() | float():
            figure = f"{abs(value):,f}" if isinstance(value, Decimal) else f"{abs(value):,}"
            return f"({figure})" if value < 0 else figure
        case _:
            return str(value)


def _cell(name: str, result: Mapping[str, Any]) -> Cell:
    value = result.get("values", {}).get(name)
    source = result.get("sources", {}).get(name, {})
    flags = result.get("flags", {}).get(name, [])
    is_number = isinstance(value, int | Decimal | float) and not isinstance(value, bool)
    unit = source.get("unit") if is_number else None
    return Cell(None if value is None else shown(value), is_number, unit, flags, _source(source))


def _source(source: Mapping[str, str]) -> list[tuple[str, str]]:
    found = [(word, str(source[part])) for part, word in PARTS if source.get(part)]
    end, start, filed = (source.get(part) for part in ("period_end", "period_start", "filed"))
    if end:
        found.append(("Period", f"{start} to {end}" if start else f"at {end}"))
    if filed:
        found.append(("Filed", str(filed)))
    return found
