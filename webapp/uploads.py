"""From a file of companies to a list, in one transaction, with every line of the file accounted for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import psycopg

from services import earlier
from services.company_lists import LONGEST_NAME, CompanyList, read_companies
from services.registry import SERVICES
from services.service import PERIODS, Service
from services.typed import BadType, read_type
from store import jobs, lists, rejects
from store.jobs import NewJob
from store.lists import ListSeen, NameTaken, NewList
from store.rejects import Rejected
from webapp.formats import counted

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", "": "one column"}
LONGEST_SHOWN = 60


class NotUsable(ValueError):
    """What was asked for cannot be a list; the text says what to change."""


@dataclass(frozen=True, slots=True)
class Fields:
    """What a list asks for. `types`: of fields whose type or unit it states itself."""

    names: list[str]
    types: dict[str, str]
    required: list[str]


@dataclass(frozen=True, slots=True)
class Stored:
    """What an upload changed: `added` companies are new; `is_new` when the list is."""

    added: int
    is_new: bool
    of: ListSeen


def service_named(name: str) -> Service:
    """The service of this name. Raises `NotUsable` with the names of all."""
    if name not in SERVICES:
        raise NotUsable(f"There is no service “{name}”. Services: {', '.join(sorted(SERVICES))}.")
    return SERVICES[name]


def plan(
    name: str,
    service: str,
    options: Mapping[str, str],
    fields: Sequence[str],
    priority: int,
    required: Sequence[str] = (),
) -> NewList:
    """The list that is asked for, with the service's own options and fields where none are given.

    `fields` as people write them: `revenue`, `revenue:money`, `revenue:money:USD`. `required`: those without
    which a job is partial; none given: the service's. Raises `NotUsable`.
    """
    asked = service_named(service)
    settings = _options(asked, options)
    usual = [field.name for field in asked.fields]
    chosen = choose(asked, fields or usual, required, [field.name for field in asked.every_field])
    names = asked.columns(chosen.names if fields else (), options)
    stated = {name: chosen.types.get(name, chosen.types.get(earlier.split(name)[0])) for name in names}
    types = {name: kind for name, kind in stated.items() if kind}
    usually = [field.name for field in asked.fields if field.required and field.name in names]
    return NewList(name, service, names, chosen.required or usually, settings, priority, types=types)


def choose(service: Service, fields: Sequence[str], required: Sequence[str], known: Sequence[str]) -> Fields:
    """What a list asks for, of the fields in `known`. Raises `NotUsable`."""
    written = dict(_field(text) for text in fields)
    for field in written:
        if field not in known:
            raise NotUsable(f"{service.name} has no field “{field}”. Fields: {', '.join(known)}.")
    if not written:
        raise NotUsable("Choose at least one field.")
    for field in required:
        if field not in written:
            raise NotUsable(f"“{field}” is required and not among the fields. Fields: {', '.join(written)}.")
    types = {name: stated for name, stated in written.items() if stated}
    return Fields(list(written), types, [name for name in written if name in required])


def _field(text: str) -> tuple[str, str]:
    """`revenue:money:USD` -> `revenue` and `money USD`."""
    name, *stated = (part.strip() for part in text.split(":", 2))
    if stated:
        try:
            read_type(" ".join(stated))
        except BadType as error:
            raise NotUsable(f"{name}: {error}") from None
    return name, " ".join(stated).strip()


def read(data: bytes, filename: str, service: str) -> CompanyList:
    """The companies in a file. Raises `NotUsable` or `UnusableFile` when no line of it names one."""
    asked = SERVICES[service]
    companies = read_companies(data, filename, asked.identify, identify_name=asked.identify_name)
    if not companies.companies:
        first = companies.rejects[0]
        raise NotUsable(
            f"{filename} names no company: {counted(len(companies.rejects), 'line')} rejected, "
            f"the first is line {first.line}: {first.reason} Nothing was stored."
        )
    return companies


def store(conn: psycopg.Connection, new: NewList, companies: CompanyList) -> Stored:
    """List, jobs and rejects in one transaction. What is there already stays as it is."""
    with conn.transaction():
        is_new = not lists.see(conn, new.name)
        list_id = lists.create(conn, new)
        found = (NewJob(c.number, c.name, dict(c.extra), c.line) for c in companies.companies)
        added = jobs.enqueue(conn, list_id, found)
        rejects.keep(conn, list_id, [Rejected(r.line, r.text, r.reason) for r in companies.rejects])
        return Stored(added, is_new, lists.see(conn, new.name)[0])


def store_paused(conn: psycopg.Connection, new: NewList, companies: CompanyList) -> ListSeen:
    """A new list that waits to be started. Raises `NameTaken` when there is one of this name, of any kind."""
    with conn.transaction():
        stored = store(conn, new, companies)
        if not stored.is_new:
            raise NameTaken(f"There is a list “{new.name}” already. Choose another name.")
        lists.pause(conn, stored.of.id)
    return stored.of


def how_read(companies: CompanyList) -> str:
    """Encoding, separator, heading and columns, in words."""
    separated = DELIMITERS.get(companies.delimiter, f"“{companies.delimiter}”")
    encoding = companies.encoding.removesuffix("-sig").replace("utf", "UTF")
    how = [f"worksheet {_quoted(companies.sheet)}"] if companies.sheet else [encoding, separated]
    if companies.header_line is None:
        how.append("no heading")
    else:
        how.append(f"heading in line {companies.header_line}")
    if companies.number_columns:
        how.append("numbers from " + " or ".join(map(_quoted, companies.number_columns)))
    if companies.name_column:
        how.append(f"names from {_quoted(companies.name_column)}")
    return ", ".join(how)


def what_became(companies: CompanyList) -> str:
    """How many lines were merged, repaired, cut and rejected, in words."""
    merged = f"{counted(companies.merged, 'duplicate')} merged"
    repaired = f"{counted(companies.repaired, 'number')} repaired"
    if companies.repairs:
        first = companies.repairs[0]
        repaired += f" (such as {_cut(first.written, 30)} to {first.number} in line {first.line})"
    cut = ""
    if companies.cut:
        where = f"the first in line {companies.first_cut_line}"
        cut = f"{counted(companies.cut, 'name')} cut after {LONGEST_NAME:,} characters ({where}), "
    return f"{merged}, {repaired}, {cut}{counted(len(companies.rejects), 'line')} rejected"


def _options(service: Service, given: Mapping[str, str]) -> dict[str, str]:
    """Every option with its value; how many periods only where it was said: otherwise the columns tell it."""
    for name in given:
        if name not in service.options:
            known = ", ".join(service.options) or "none"
            raise NotUsable(f"{service.name} has no option “{name}”. Options: {known}.")
    for name, wrong in service.wrong_options(given).items():
        raise NotUsable(f"{name} is “{given[name]}”: it {wrong}.")
    usual = {name: option.default for name, option in service.options.items() if name != PERIODS}
    return {**usual, **given}


def _quoted(text: str) -> str:
    return f"“{_cut(text, LONGEST_SHOWN)}”"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
