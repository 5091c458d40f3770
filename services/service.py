"""What Sluice knows of a service: one value per service, listed in `services.registry`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from services import earlier
from services.extraction import Answer, Company, Extraction, Options
from services.verdicts import Judge


class Kind(StrEnum):
    """The type of a field's value. Money is an amount of the currency that the unit of its source names."""

    TEXT = "text"
    NUMBER = "number"
    INTEGER = "integer"
    DATE = "date"
    BOOLEAN = "boolean"
    MONEY = "money"


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the result. A job without one of its required fields is `partial`.

    `repeats`: it has a value for each period, so a list of several periods has a column of it for each.
    """

    name: str
    kind: Kind
    required: bool = False
    repeats: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """A setting of a list for this service. `choices` empty: any text that `check` has nothing against.

    `meaning` is a sentence for who chooses. `check` returns what is wrong with a value, to be read after its
    name ("must be …"), or None. `title`: how a form calls it, where its name alone would say too little.
    """

    meaning: str
    default: str
    choices: tuple[str, ...] = ()
    check: Callable[[str], str | None] | None = None
    title: str = ""

    def problem(self, value: str) -> str | None:
        """What is wrong with a value, to be read after the option's name, or None."""
        if self.choices and value not in self.choices:
            return f"must be {' or '.join(self.choices)}"
        return self.check(value) if self.check else None


PERIODS = "periods"
"""The option by which a list asks for periods before: every field that repeats has a column for each."""


def check_periods(most: int) -> Callable[[str], str | None]:
    """The check of `PERIODS`: a number from 1 to `most`."""

    def check(value: str) -> str | None:
        is_number = re.fullmatch("[1-9][0-9]{0,3}", value)
        return None if is_number and int(value) <= most else f"must be a number from 1 to {most}"

    return check


@dataclass(frozen=True, slots=True)
class Service:
    """A service and how to work with it.

    `hosts` maps the names that calls use to real addresses. `headers` turns a key's secret into request
    headers; `check_secret` returns what is wrong with a secret, or None. `limits` are the service's usual
    ones as text (`600/5m`); `shared_limits` says that they hold for all keys together, not for each.
    Without `needs_key` the service has no keys and no limits: its jobs run as fast as workers can.
    `fields` are those of a list that names none; `more_fields` cost calls of their own.
    `probe` is the number of a company that the service surely knows: a key is tested by asking for it.
    `identify` turns what people write into a company number or raises `services.companies.BadNumber`;
    `identify_name` does so with a company's name, for services that can look it up.
    `tokens_of` says what an answer has cost, for services that count tokens; None: the answer does not say.
    """

    name: str
    title: str
    key_is: str
    hosts: Mapping[str, str]
    headers: Callable[[str], Mapping[str, str]]
    check_secret: Callable[[str], str | None]
    limits: tuple[str, ...]
    fields: tuple[Field, ...]
    identify: Callable[[str], str]
    extract: Callable[[Company, Options], Extraction]
    judge: Judge
    probe: str
    shared_limits: bool = False
    needs_key: bool = True
    tokens_of: Callable[[Answer], int | None] | None = None
    options: Mapping[str, Option] = field(default_factory=dict)
    identify_name: Callable[[str], str] | None = None
    more_fields: tuple[Field, ...] = ()

    @property
    def every_field(self) -> tuple[Field, ...]:
        """All that a list may name."""
        return self.fields + self.more_fields

    def title_of(self, option: str) -> str:
        """What people call an option, one that the service no longer has too."""
        known = self.options.get(option)
        return (known.title if known else "") or option.replace("_", " ").capitalize()

    def wrong_options(self, given: Mapping[str, str]) -> dict[str, str]:
        """What is wrong with options of this service, by name: to be read after it ("must be …")."""
        found = {name: self.options[name].problem(value) for name, value in given.items()}
        return {name: wrong for name, wrong in found.items() if wrong}

    def kind_of(self, column: str) -> Kind:
        """The type of a column's values, those of earlier periods too; text when there is no such field."""
        kinds = {field.name: field.kind for field in self.every_field}
        return kinds.get(column) or kinds.get(earlier.split(column)[0], Kind.TEXT)

    def columns(self, asked: Sequence[str], options: Mapping[str, str]) -> list[str]:
        """The columns of a list that asks for these fields (none: the usual ones) with these options.

        A field is one column, as it is named. With the option `PERIODS` given, one that repeats has a
        column for each period (`services.earlier`), next to each other.
        """
        names = list(asked) or [field.name for field in self.fields]
        if PERIODS not in options:
            return list(dict.fromkeys(names))
        periods = range(int(options[PERIODS]))
        repeats = {field.name for field in self.every_field if field.repeats}
        bases = [(name, earlier.split(name)[0]) for name in names]
        columns = (
            [earlier.column(base, back) for back in periods] if base in repeats else [name]
            for name, base in bases
        )
        return list(dict.fromkeys(column for group in columns for column in group))
