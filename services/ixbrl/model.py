"""What a filing says: facts, each with its context and its unit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Final

from services.ixbrl.figures import transform_name

_FIXED: Final = {
    "fixedtrue": "true",
    "booleantrue": "true",
    "fixedfalse": "false",
    "booleanfalse": "false",
}


@dataclass(frozen=True, slots=True)
class Context:
    """When and about what. `instant` or `start` and `end`; a date that is missing or absurd is None.

    `dimensions` maps a dimension's local name to the member's local name, or to the typed member's value.
    """

    id: str
    entity: str
    start: date | None
    end: date | None
    instant: date | None
    dimensions: Mapping[str, str]
    flags: tuple[str, ...] = ()


@dataclass(slots=True)
class Fact:
    """One tagged value. `value` is exact for numbers, text with single blanks otherwise, None for nil.

    `name` carries the document's own prefix; `namespace` and `local` are what it stands for. `position` is
    where it stands: `#` and its id in the document, or `fact 17` when it has none, counted from 1. Flags:
    `unknown_transform`, `not_a_number`, `lenient_number`, `empty`, `no_context`, `bad_date`,
    `continuation_missing`, `continuation_loop`.
    """

    name: str
    namespace: str | None
    local: str
    value: Decimal | str | None
    numeric: bool
    nil: bool
    context_id: str | None
    context: Context | None
    unit: str | None
    decimals: str | None
    scale: str | None
    format: str | None
    flags: tuple[str, ...]
    position: str

    @property
    def start(self) -> date | None:
        """First day of the period; None for an instant."""
        return self.context.start if self.context else None

    @property
    def end(self) -> date | None:
        """Last day of the period, or the instant."""
        return (self.context.instant or self.context.end) if self.context else None

    @property
    def xbrl_text(self) -> str:
        """The text as XBRL means it: a yes or no that the format fixes, whatever the page shows for it."""
        fixed = _FIXED.get(transform_name(self.format)) if self.format else None
        return fixed if fixed is not None else str("" if self.value is None else self.value).strip()

    @property
    def dimensions(self) -> Mapping[str, str] | None:
        """None when the context that the fact names does not exist."""
        return self.context.dimensions if self.context else None


@dataclass(frozen=True, slots=True)
class Filing:
    """Everything tagged in one document. `kind` is `ixbrl` or `xbrl`."""

    kind: str
    facts: list[Fact]
    contexts: Mapping[str, Context]
