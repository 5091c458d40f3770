"""The options of a service as fields of a form: in the service's own words, judged by its own checks."""

from __future__ import annotations

from werkzeug.datastructures import MultiDict
from wtforms import SelectField, StringField
from wtforms.form import BaseForm

from services.registry import SERVICES
from services.service import Option, Service
from store.lists import ListSeen


def options_of(one: ListSeen) -> list[tuple[str, str]]:
    """A list's options with their titles, in its service's order; what that no longer has comes last."""
    service = SERVICES.get(one.service)
    order = list(service.options) if service else []
    names = sorted(one.options, key=lambda name: order.index(name) if name in order else len(order))
    return [(service.title_of(name) if service else name, one.options[name]) for name in names]


def of(service: Service, form: MultiDict[str, str] | None = None) -> BaseForm:
    """A field for each option, named `sec_edgar-periods`, its sentence in `description`.

    With what the form holds; without one, or where it has no such field, as the option is by default.
    """
    made = BaseForm(
        {name: _field(service.title_of(name), option) for name, option in service.options.items()},
        prefix=service.name,
    )
    usual = {name: option.default for name, option in service.options.items()}
    for name, field in made._fields.items():
        is_there = form is not None and field.name in form
        field.process(form if is_there else None, usual[name])
    return made


def asked(service: Service, fields: BaseForm) -> dict[str, str] | None:
    """The options that differ from the service's; a blank one does not.

    None: the service does not take them, and what is wrong stands at its field. A list that is made with all
    as it is offered is the one that a command makes without options.
    """
    written = {name: (fields[name].data or "").strip() for name in service.options}
    usual = {name: option.default for name, option in service.options.items()}
    differs = {name: value for name, value in written.items() if value not in ("", usual[name])}
    wrong = service.wrong_options(differs)
    for name, says in wrong.items():
        fields[name].errors = [f"This {says}."]
    return None if wrong else differs


def _field(title: str, option: Option) -> SelectField | StringField:
    if option.choices:
        return SelectField(title, choices=option.choices, description=option.meaning)
    return StringField(title, description=option.meaning)
