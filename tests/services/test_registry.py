"""What every service promises to those who work with all of them alike."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import services
from services.causes import CAUSES, Fault
from services.companies import BadNumber
from services.registry import SERVICES
from services.service import Service

ENDINGS = {"Empty", "Failed", "CallFailed", "ServiceFailed"}


@pytest.fixture(params=list(SERVICES))
def service(request: pytest.FixtureRequest) -> Service:
    return SERVICES[request.param]


@pytest.fixture(params=[name for name, one in SERVICES.items() if one.needs_key])
def called(request: pytest.FixtureRequest) -> Service:
    """A service that is called, under a key."""
    return SERVICES[request.param]


def causes_named_in_code() -> Iterator[tuple[str, str, str]]:
    """(file, class, cause) of every ending that is written with its cause."""
    for file in sorted(Path(services.__file__).parent.glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ENDINGS:
                cause = node.args[0] if node.args else None
                if isinstance(cause, ast.Constant) and isinstance(cause.value, str):
                    yield file.name, node.func.id, cause.value


def test_every_cause_that_a_service_names_is_known() -> None:
    named = list(causes_named_in_code())
    assert len(named) > 5
    assert [place for place in named if place[2] not in CAUSES] == []


def test_a_service_that_failed_is_never_the_companys_fault() -> None:
    endings = [cause for _, kind, cause in causes_named_in_code() if kind == "ServiceFailed"]
    assert {CAUSES[cause].fault for cause in endings} == {Fault.SERVICE}


def test_services_stand_under_their_own_names() -> None:
    assert {name: service.name for name, service in SERVICES.items()} == {name: name for name in SERVICES}
    assert len({service.title for service in SERVICES.values()}) == len(SERVICES)


def test_fields_have_names_of_their_own_and_some_are_required(service: Service) -> None:
    names = [field.name for field in service.fields]
    assert len(set(names)) == len(names)
    assert any(field.required for field in service.fields)


def test_a_secret_that_is_blank_or_has_lines_is_refused_with_a_sentence(service: Service) -> None:
    for secret in ("", " ", "a@b.example\r\nX-Other: 1"):
        assert service.check_secret(secret)


def test_a_name_with_blanks_is_no_company_number(called: Service) -> None:
    with pytest.raises(BadNumber):
        called.identify("Best Money Holding Limited")


def test_hosts_are_secure_addresses_without_a_path(called: Service) -> None:
    assert called.hosts
    for address in called.hosts.values():
        assert address.startswith("https://")
        assert address.count("/") == 2


@pytest.mark.parametrize(
    ("name", "limit", "shared", "hosts"),
    [
        ("sec_edgar", "8/s", True, {"data.sec.gov", "www.sec.gov"}),
        (
            "companies_house",
            "600/5m",
            False,
            {"api.company-information.service.gov.uk", "document-api.company-information.service.gov.uk"},
        ),
    ],
)
def test_a_service_is_asked_where_and_as_often_as_its_documents_allow(
    name: str, limit: str, shared: bool, hosts: set[str]
) -> None:
    """The SEC counts an address over all its hosts, ten a second; Companies House an application."""
    one = SERVICES[name]
    assert (one.limits, one.shared_limits) == ((limit,), shared)
    assert {address.removeprefix("https://") for address in one.hosts.values()} == hosts


def test_the_default_of_an_option_is_one_of_its_choices(service: Service) -> None:
    for option in service.options.values():
        assert not option.choices or option.default in option.choices
