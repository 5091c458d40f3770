"""What Sluice knows of a service: one value per service, listed in `services.registry`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from services.extraction import Company, Extraction, Options
from services.verdicts import Judge


class Kind(StrEnum):
    """The type of a field's value."""

    TEXT = "text"
    NUMBER = "number"
    INTEGER = "integer"
    DATE = "date"
    BOOLEAN = "boolean"
    MONEY = "money"


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the result. A job without one of its required fields is `partial`."""

    name: str
    kind: Kind
    required: bool = False


@dataclass(frozen=True, slots=True)
class Option:
    """A setting of a list for this service. `choices` empty: any text."""

    meaning: str
    default: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Service:
    """A service and how to work with it.

    `hosts` maps the names that calls use to real addresses. `headers` turns a key's secret into request
    headers; `check_secret` returns what is wrong with a secret, or None. `limits` are the service's usual
    ones as text (`600/5m`); `shared_limits` says that they hold for all keys together, not for each.
    Without `needs_key` the service has no keys and no limits: its jobs run as fast as workers can.
    `probe` is the number of a company that the service surely knows: a key is tested by asking for it.
    `identify` turns what people write into a company number or raises `services.companies.BadNumber`.
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
    options: Mapping[str, Option] = field(default_factory=dict)

    def kind_of(self, column: str) -> Kind:
        """The type of a column's values; text when there is no such field."""
        return next((field.kind for field in self.fields if field.name == column), Kind.TEXT)
