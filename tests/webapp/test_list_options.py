"""Options of a service in the form of a new list: offered with their sentence, refused beside their field."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from flask.testing import FlaskClient
from lxml import html
from playwright.sync_api import Page, expect
from werkzeug.datastructures import MultiDict
from werkzeug.test import TestResponse

from services.registry import SERVICES
from store import lists
from store.lists import ListSeen
from webapp import option_fields, uploads

Open = Callable[..., Page]
Form = Callable[..., TestResponse]

FILE = b"company_number\n09355500\n00000006\n"
A_FILE: Any = {"name": "a.csv", "mimeType": "text/csv", "buffer": b"cik\n320193\n"}
OFFERED = [name for name, one in SERVICES.items() if one.needs_key]


@pytest.fixture
def upload(operator: FlaskClient, token_of: Callable[[str], str]) -> Form:
    """`upload("sec_edgar", **{"sec_edgar-periods": "5"})`: the form of a new list, as a browser sends it."""

    def post(service: str, **options: str) -> TestResponse:
        token = token_of(operator.get("/lists/new").text)
        file = (io.BytesIO(FILE), "companies.csv")
        values: dict[str, Any] = {"csrf_token": token, "name": "New", "service": service, "file": file}
        return operator.post("/lists/new", data=values | options)

    return post


def only(web: psycopg.Connection) -> ListSeen:
    (one,) = lists.see(web)
    return one


def says(page: str, field: str) -> str:
    """What stands below a field, without tags."""
    found = re.search(rf'id="{field}-says">(.*?)</div>', page, re.DOTALL)
    assert found, field
    return re.sub("<[^>]*>", "", found[1]).strip()


def test_every_option_of_every_service_is_offered_with_its_sentence_and_its_default(
    operator: FlaskClient,
) -> None:
    page: Any = html.document_fromstring(operator.get("/lists/new").text)
    offered = 0
    for service in (SERVICES[name] for name in OFFERED):
        for name, option in service.options.items():
            (field,) = page.xpath("//*[@name=$name]", name=f"{service.name}-{name}")
            assert field.value == option.default
            assert page.get_element_by_id(field.get("aria-describedby")).text_content() == option.meaning
            offered += 1
    assert offered >= 6


def test_the_chosen_options_are_the_lists_and_those_of_other_services_are_not(
    upload: Form, operator: FlaskClient, web: psycopg.Connection
) -> None:
    asked = {"sec_edgar-frequency": "quarterly", "sec_edgar-periods": " 3 ", "companies_house-periods": "9"}
    answer = upload("sec_edgar", **asked)
    assert answer.status_code == 303
    one = only(web)
    assert one.options == {"frequency": "quarterly", "year": "latest", "as": "latest", "periods": "3"}
    assert [name for name in one.fields if name.startswith("revenue")] == [
        "revenue",
        "revenue_prior",
        "revenue_prior_2",
    ]
    for path in (answer.location, "/lists/1"):
        page = " ".join(operator.get(path).text.split())
        assert "<dt>Frequency</dt><dd>quarterly</dd>" in page
        assert "<dt>As reported</dt><dd>latest</dd>" in page


@pytest.mark.parametrize("service", OFFERED)
def test_a_form_left_as_it_is_makes_the_list_that_the_command_makes_without_options(
    upload: Form, web: psycopg.Connection, service: str
) -> None:
    usual = {f"{service}-{name}": option.default for name, option in SERVICES[service].options.items()}
    assert upload(service, **usual).status_code == 303
    made, by_command = only(web), uploads.plan("New", service, {}, (), 0)
    assert (made.options, made.fields, made.required) == (
        by_command.options,
        by_command.fields,
        by_command.required,
    )


@pytest.mark.parametrize(
    ("service", "option", "value", "wrong"),
    [
        ("sec_edgar", "periods", "0", "This must be a number from 1 to 40."),
        ("sec_edgar", "year", "next <b>", "This must be latest or a year such as 2021."),
        ("sec_edgar", "as", "neither", "This must be latest or first."),
        ("companies_house", "made_up_to", "31/12/2023", "This must be latest, a balance sheet date"),
    ],
)
def test_what_the_service_does_not_take_is_refused_beside_its_field_and_nothing_is_kept(
    upload: Form, web: psycopg.Connection, service: str, option: str, value: str, wrong: str
) -> None:
    answer = upload(service, **{f"{service}-{option}": value})
    assert answer.status_code == 422
    assert says(answer.text, f"{service}-{option}").startswith(wrong)
    assert "<b>" not in answer.text.partition("Options of")[2].partition("</fieldset>")[0]
    assert 'value="New"' in answer.text
    assert "Choose it again: it was not kept." in says(answer.text, "file")
    assert lists.see(web) == []
    with pytest.raises(uploads.NotUsable, match=f"{option} is “"):
        uploads.plan("New", service, {option: value}, (), 0)


def test_a_wrong_option_of_a_service_that_was_not_chosen_is_nobodys_business(
    upload: Form, web: psycopg.Connection
) -> None:
    assert upload("companies_house", **{"sec_edgar-periods": "many"}).status_code == 303
    assert only(web).service == "companies_house"


def test_an_unknown_service_is_refused_before_its_options(upload: Form, web: psycopg.Connection) -> None:
    assert upload("nobody", **{"nobody-periods": "1"}).status_code == 422
    assert lists.see(web) == []


def test_blanks_and_defaults_are_not_asked_for() -> None:
    service = SERVICES["companies_house"]
    form = MultiDict({"companies_house-made_up_to": "  ", "companies_house-periods": "2"})
    assert option_fields.asked(service, option_fields.of(service, form)) == {}
    assert option_fields.asked(service, option_fields.of(service)) == {}


def test_an_option_that_a_service_no_longer_has_is_still_on_the_page(
    operator: FlaskClient, web: psycopg.Connection, a_list: Callable[..., int]
) -> None:
    stored = {"restated_by": "x", "as": "first", "year": "2021"}
    page = operator.get(f"/lists/{a_list(1, service='sec_edgar', options=stored)}").text
    shown = [page.index(words) for words in ("<dt>Year</dt>", "<dt>As reported</dt>", "<dt>Restated by</dt>")]
    assert shown == sorted(shown)
    (one,) = lists.see(web)
    assert option_fields.options_of(replace(one, service="gone", options={"a": "b"})) == [("a", "b")]


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_only_the_chosen_services_options_are_seen_and_a_refusal_keeps_what_was_typed(
    open_page: Open, web: psycopg.Connection, width: int, theme: str
) -> None:
    page = open_page("/lists/new", "operator", width=width, theme=theme)
    made_up_to, year = page.get_by_label("Made up to"), page.get_by_label("Year")
    expect(made_up_to).to_be_visible()
    expect(year).to_be_hidden()
    page.get_by_label("Service").select_option("sec_edgar")
    expect(made_up_to).to_be_hidden()
    year.fill("soon")
    page.get_by_label("Frequency").select_option("quarterly")
    page.get_by_label("Name").fill("US")
    page.get_by_label("File").set_input_files(A_FILE)
    page.get_by_role("button", name="Upload and check").click()
    expect(page.locator("#sec_edgar-year-says")).to_have_text("This must be latest or a year such as 2021.")
    expect(year).to_have_value("soon")
    expect(page.get_by_label("Frequency")).to_have_value("quarterly")
    expect(made_up_to).to_be_hidden()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    year.fill("2021")
    page.get_by_label("File").set_input_files(A_FILE)
    page.get_by_role("button", name="Upload and check").click()
    expect(page.get_by_role("button", name="Start 1")).to_be_visible()
    assert only(web).options["year"] == "2021"
