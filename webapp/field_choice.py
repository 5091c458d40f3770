"""Which fields a list asks for, of which type and unit: as it is offered in a form, and read back from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from werkzeug.datastructures import MultiDict

from services.registry import SERVICES
from services.service import Kind
from services.typed import columns
from store.lists import ListSeen
from webapp.uploads import Fields, choose

FIGURES: Final = (Kind.NUMBER, Kind.INTEGER, Kind.MONEY)


@dataclass(frozen=True, slots=True)
class Choice:
    """A line of the form. `kinds`: the types that may be chosen; one of them is the field's own."""

    name: str
    kind: Kind
    unit: str
    kinds: tuple[Kind, ...]
    is_wanted: bool
    is_required: bool


def offered(one: ListSeen) -> list[Choice]:
    """The list's fields as they are, then what else its service has."""
    service = SERVICES[one.service]
    names = list(dict.fromkeys([*one.fields, *(field.name for field in service.every_field)]))
    return [
        Choice(
            column.name,
            column.kind,
            column.unit or "",
            FIGURES if column.kind in FIGURES else (column.kind,),
            column.name in one.fields,
            column.name in one.required,
        )
        for column in columns(service, names, one.types)
    ]


def types(one: ListSeen) -> dict[str, str]:
    """Of each field its type, with the unit where the list states one: `money GBP`."""
    if one.service not in SERVICES:
        return {name: one.types.get(name, "") for name in one.fields}
    stated = columns(SERVICES[one.service], one.fields, one.types)
    return {column.name: f"{column.kind.value} {column.unit or ''}".strip() for column in stated}


def chosen(one: ListSeen, form: MultiDict[str, str]) -> Fields:
    """What the form asks for. Raises `webapp.uploads.NotUsable`."""
    service = SERVICES[one.service]
    return choose(
        service,
        [_written(name, service.kind_of(name), form) for name in form.getlist("field")],
        form.getlist("require"),
        known=[choice.name for choice in offered(one)],
    )


def again(choices: Sequence[Choice], form: Mapping[str, str] | MultiDict[str, str]) -> list[Choice]:
    """The lines with what somebody has filled in, right or wrong."""
    asked = MultiDict(form)
    wanted, required = asked.getlist("field"), asked.getlist("require")
    return [
        Choice(
            one.name,
            next((kind for kind in one.kinds if kind == asked.get(f"type:{one.name}")), one.kind),
            asked.get(f"unit:{one.name}", ""),
            one.kinds,
            one.name in wanted,
            one.name in required,
        )
        for one in choices
    ]


def _written(name: str, usual: Kind, form: MultiDict[str, str]) -> str:
    """As `flask lists import --field` takes it; what is as the service has it is not stated."""
    kind = form.get(f"type:{name}", usual)
    unit = form.get(f"unit:{name}", "").strip()
    return name if kind == usual and not unit else f"{name}:{kind}:{unit}"
