"""What a list asks for becomes columns, and what cannot be asked for is refused with the reason."""

from __future__ import annotations

import pytest

from services.companies_house import COMPANIES_HOUSE
from services.sec_edgar import SEC_EDGAR
from services.service import Kind, Service
from services.uk_accounts import ROW


def test_a_list_that_names_nothing_has_the_usual_columns() -> None:
    assert SEC_EDGAR.columns((), {}) == [field.name for field in SEC_EDGAR.fields]
    assert COMPANIES_HOUSE.columns((), {}) == list(ROW)


def test_a_series_has_a_column_for_each_period_side_by_side() -> None:
    names = ["cik", "period_end", "revenue"]
    assert SEC_EDGAR.columns(names, {"periods": "3"}) == [
        "cik",
        "period_end", "period_end_prior", "period_end_prior_2",
        "revenue", "revenue_prior", "revenue_prior_2",
    ]  # fmt: skip


def test_a_field_that_is_named_is_one_column_unless_periods_are_asked_for() -> None:
    assert COMPANIES_HOUSE.columns(["debtors"], {"made_up_to": "2023"}) == ["debtors"]
    assert COMPANIES_HOUSE.columns(["debtors"], {"periods": "2"}) == ["debtors", "debtors_prior"]
    assert COMPANIES_HOUSE.columns(["debtors_prior"], {}) == ["debtors_prior"]


def test_one_year_of_accounts_has_no_columns_of_the_year_before() -> None:
    columns = COMPANIES_HOUSE.columns((), {"periods": "1"})
    assert columns == [name for name in ROW if not name.endswith("_prior")]


def test_columns_of_earlier_periods_have_the_type_of_their_field() -> None:
    assert SEC_EDGAR.kind_of("period_end_prior_7") is Kind.DATE
    assert SEC_EDGAR.kind_of("revenue_prior") is Kind.MONEY
    assert SEC_EDGAR.kind_of("eps_basic_prior") is Kind.NUMBER
    assert COMPANIES_HOUSE.kind_of("debtors_prior") is Kind.MONEY
    assert COMPANIES_HOUSE.kind_of("average_number_employees_during_period_prior") is Kind.NUMBER
    assert SEC_EDGAR.kind_of("gone") is Kind.TEXT


@pytest.mark.parametrize(
    ("service", "option", "value", "wrong"),
    [
        (SEC_EDGAR, "year", "latest", None),
        (SEC_EDGAR, "year", "2021", None),
        (SEC_EDGAR, "year", "21", "must be latest or a year such as 2021"),
        (SEC_EDGAR, "year", "٢٠٢١", "must be latest or a year such as 2021"),
        (SEC_EDGAR, "year", "", "must be latest or a year such as 2021"),
        (SEC_EDGAR, "periods", "40", None),
        (SEC_EDGAR, "periods", "0", "must be a number from 1 to 40"),
        (SEC_EDGAR, "periods", "41", "must be a number from 1 to 40"),
        (SEC_EDGAR, "periods", "05", "must be a number from 1 to 40"),
        (SEC_EDGAR, "periods", "9" * 5000, "must be a number from 1 to 40"),
        (SEC_EDGAR, "periods", "1\n", "must be a number from 1 to 40"),
        (SEC_EDGAR, "year", "9" * 5000, "must be latest or a year such as 2021"),
        (SEC_EDGAR, "periods", "", "must be a number from 1 to 40"),
        (SEC_EDGAR, "frequency", "monthly", "must be annual or quarterly"),
        (SEC_EDGAR, "as", "last", "must be latest or first"),
        (COMPANIES_HOUSE, "made_up_to", "latest", None),
        (COMPANIES_HOUSE, "made_up_to", "2023", None),
        (COMPANIES_HOUSE, "made_up_to", "2023-12-31", None),
        *(
            (
                COMPANIES_HOUSE,
                "made_up_to",
                bad,
                "must be latest, a balance sheet date such as 2023-12-31, or a year such as 2023",
            )
            for bad in ("2023-02-30", "31/12/2023", "2023-12-31T00:00", "20231231", "")
        ),
        (COMPANIES_HOUSE, "periods", "11", "must be a number from 1 to 10"),
    ],
)
def test_an_option_says_what_it_must_be(service: Service, option: str, value: str, wrong: str | None) -> None:
    assert service.options[option].problem(value) == wrong


@pytest.mark.parametrize("service", [SEC_EDGAR, COMPANIES_HOUSE], ids=lambda service: service.name)
def test_the_default_of_every_option_may_be_written(service: Service) -> None:
    for option in service.options.values():
        assert option.problem(option.default) is None
