"""Generated companies, the documents made of them, and the truth about them."""

from __future__ import annotations

import csv
import json
from collections import Counter
from datetime import date
from decimal import Decimal
from typing import Any, TypeAlias

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from sandbox import facts_writer, ixbrl_writer, truth, uk_accounts, uk_generated, us_facts, us_generated
from sandbox.companies import Companies
from sandbox.figures import canonical
from sandbox.uk_dialects import DIALECTS, IX_2008, IX_2013

COMPANIES = Companies(seed=3, generated=60)
UK_TRUTH = truth.of_all(COMPANIES, "companies_house")
US_TRUTH = truth.of_all(COMPANIES, "sec_edgar")


@given(st.integers(0, 10**6), st.integers(0, 900_000 - 1))
def test_a_generated_company_depends_on_seed_and_index_only(seed: int, index: int) -> None:
    assert uk_generated.generate(seed, index) == uk_generated.generate(seed, index)
    assert us_generated.generate(seed, index) == us_generated.generate(seed, index)
    assert uk_generated.generate(seed, index) != uk_generated.generate(seed + 1, index)
    assert uk_generated.index_of(uk_generated.number_of(index)) == index
    assert us_generated.index_of(us_generated.generate(seed, index).cik) == index


def test_generated_numbers_never_meet_the_sample() -> None:
    assert all(uk_generated.index_of(number) is None for number in COMPANIES.uk_sample)
    assert all(us_generated.index_of(cik) is None for cik in COMPANIES.us_sample)


@pytest.mark.parametrize("company", [c for c in COMPANIES.every_uk() if c.accounts], ids=lambda c: c.number)
def test_accounts_are_well_formed_inline_xbrl(company: uk_accounts.UkCompany) -> None:
    for accounts in company.filed_accounts():
        root = etree.fromstring(ixbrl_writer.render(company, accounts))
        facts = list(root.iter(f"{{{DIALECTS[company.dialect].ix_namespace}}}nonFraction"))
        contexts = [c.get("id") for c in root.iter("{http://www.xbrl.org/2003/instance}context")]
        assert facts
        assert len(contexts) == len(set(contexts))
        assert {fact.get("contextRef") for fact in facts} <= set(contexts)


def test_the_dialects_differ_where_readers_stumble() -> None:
    companies = [company for company in COMPANIES.every_uk() if company.accounts]
    assert {company.dialect for company in companies} == DIALECTS.keys()
    everything = "".join(map(_text, companies))
    oddities = (
        f"{IX_2008} {IX_2013} <ixbrl:nonFraction <i:nonFraction uk-gaap-pt: :continuation :exclude> "
        'typedMember sign="-" scale="3" decimals="-3" xsi:nil="true" _ShareCapital windows-1252 '
        "num-comma-decimal numcommadot num-dot-decimal zerodash numdash fixed-zero "
        "ixt:booleanfalse ixt:fixed-false datelonguk dateslasheu date-day-month-year "
        "GroupCompanyDataDimension Director1 CompanyNotDormant"
    )
    assert [oddity for oddity in oddities.split() if oddity not in everything] == []
    nested = etree.fromstring(_document(companies[3])).xpath("count(//*[local-name()='nonFraction']/*)")
    assert isinstance(nested, float)
    assert nested > 0


def _document(company: uk_accounts.UkCompany) -> bytes:
    assert company.accounts is not None
    return ixbrl_writer.render(company, company.accounts)


def _text(company: uk_accounts.UkCompany) -> str:
    return _document(company).decode(DIALECTS[company.dialect].encoding)


def test_a_document_in_cp1252_says_so_and_is() -> None:
    company = COMPANIES.uk_sample["99000005"]
    document = _document(company)
    assert document.startswith(b'<?xml version="1.0" encoding="windows-1252"?>')
    assert "Café &amp; Söhne".encode("cp1252") in document
    assert "£".encode("cp1252") in document


_XBRLI = "{http://www.xbrl.org/2003/instance}"
_XBRLDI = "{http://xbrl.org/2006/xbrldi}"
_Found: TypeAlias = dict[tuple[str, str, str, frozenset[str]], tuple[int, Decimal]]


def _shown(element: etree._Element) -> str:
    """The text of a fact, nested facts included, what is excluded left out."""
    parts = [element.text or ""]
    for child in element:
        parts += ["" if str(child.tag).endswith("}exclude") else _shown(child), child.tail or ""]
    return "".join(parts)


def _facts(company: uk_accounts.UkCompany) -> _Found:
    """Every number of the document: (concept, start, end, members) to the most precise value."""
    root, dialect = etree.fromstring(_document(company)), DIALECTS[company.dialect]
    ix = "{" + dialect.ix_namespace + "}"
    contexts = {}
    for context in root.iter(f"{_XBRLI}context"):
        start, end = context.findtext(f".//{_XBRLI}startDate"), context.findtext(f".//{_XBRLI}endDate")
        members = {str(m.text).partition(":")[2] for m in context.iter(f"{_XBRLDI}explicitMember")}
        members |= {"typed" for _ in context.iter(f"{_XBRLDI}typedMember")}
        instant = context.findtext(f".//{_XBRLI}instant")
        contexts[context.get("id")] = (start or "", end or instant or "", frozenset(members))
    found: _Found = {}
    for fact in root.iter(f"{ix}nonFraction"):
        if fact.get("{http://www.w3.org/2001/XMLSchema-instance}nil"):
            continue
        text = _shown(fact)
        zero = text == dialect.numbers.zero
        value = Decimal(0 if zero else text.replace(dialect.numbers.group, "")).scaleb(
            int(fact.get("scale") or 0)
        )
        value = -value if fact.get("sign") == "-" else value
        name = (str(fact.get("name")).partition(":")[2], *contexts[fact.get("contextRef")])
        found[name] = max(found.get(name, (-99, value)), (int(fact.get("decimals") or 0), value))
    return found


@pytest.mark.parametrize("company", [c for c in COMPANIES.every_uk() if c.accounts], ids=lambda c: c.number)
def test_accounts_hold_what_the_truth_says(company: uk_accounts.UkCompany) -> None:
    facts, accounts = _facts(company), company.accounts
    assert accounts is not None
    group = {"Consolidated"} if accounts.scope == "consolidated" else set()
    read = {}
    for suffix, start, end in (
        ("", accounts.started, accounts.made_up_to),
        ("_prior", accounts.prior_started, accounts.prior_made_up_to),
    ):
        for column, (concept, member) in DIALECTS[company.dialect].taxonomy.tags.items():
            began = "" if column in uk_accounts.BALANCE_SHEET else str(start)
            members = frozenset(group | ({member[1]} if member else set()))
            if (concept, began, str(end), members) in facts:
                read[column + suffix] = canonical(facts[concept, began, str(end), members][1])
    wanted = {
        n: v
        for n, v in uk_accounts.columns(company).items()
        if n.removesuffix("_prior") in uk_accounts.PER_PERIOD
    }
    assert read == wanted


def test_a_damaged_document_holds_no_fact() -> None:
    company = COMPANIES.uk("99000022")
    assert company is not None
    assert company.accounts is not None
    damaged = ixbrl_writer.damaged(company, company.accounts)
    assert b"nonFraction" not in damaged
    assert b"nonNumeric" not in damaged
    with pytest.raises(etree.XMLSyntaxError):
        etree.fromstring(damaged)


def _annual(facts: Any, tag: str, unit: str) -> dict[str, tuple[str, Any]]:
    """Period end to the last filed value of a year of an annual report."""
    found: dict[str, tuple[str, Any]] = {}
    for fact in facts.get(tag, {"units": {}})["units"].get(unit, []):
        days = (date.fromisoformat(fact["end"]) - date.fromisoformat(fact.get("start", fact["end"]))).days
        if fact["form"].startswith(("10-K", "20-F")) and (days == 0 or 350 <= days <= 380):
            found[fact["end"]] = max(found.get(fact["end"], ("", 0)), (fact["filed"], fact["val"]))
    return found


@pytest.mark.parametrize("company", [c for c in COMPANIES.every_us() if c.filings], ids=lambda c: str(c.cik))
def test_companyfacts_hold_what_the_truth_says(company: us_facts.UsCompany) -> None:
    document = json.loads(facts_writer.render(company, facts_writer.filler(500)), parse_float=Decimal)
    facts, row = document["facts"][company.taxonomy], us_facts.columns(company)
    tag = company.filings[-1].tags.get("net_income", us_facts.TAGS[company.taxonomy]["net_income"])
    assert canonical(_annual(facts, tag, company.currency)[row["period_end"]][1]) == row["net_income"]
    assert max(_annual(facts, tag, company.currency)) == row["period_end"]


def test_companyfacts_hold_the_traps() -> None:
    forms: Counter[str] = Counter()
    units: set[str] = set()
    restated = False
    for index in range(60):
        document = json.loads(facts_writer.render(us_generated.generate(3, index)))
        for taxonomy in ("us-gaap", "ifrs-full"):
            for tag, concept in document["facts"].get(taxonomy, {}).items():
                units |= concept["units"].keys()
                for facts in concept["units"].values():
                    forms.update(fact["form"] for fact in facts)
                    values = {fact["val"] for fact in facts if fact["end"] == facts[-1]["end"]}
                    restated |= tag == "NetIncomeLoss" and len(values) > 1
    assert forms.keys() == {"10-K", "10-K/A", "10-Q", "20-F"}
    assert {"USD", "EUR", "USD/shares", "shares"} <= units
    assert restated


def test_filler_brings_companyfacts_to_size() -> None:
    company = us_generated.generate(1, 1)
    document = facts_writer.render(company, facts_writer.filler(1_000_000))
    assert 1_000_000 < len(document) < 1_100_000
    assert json.loads(document)["cik"] == company.cik


def test_the_largest_revenue_and_the_differences_are_the_truth() -> None:
    mills, alphabet, amazon = (US_TRUTH[cik]["values"] for cik in ("40704", "1652044", "1018724"))
    assert isinstance(mills, dict)
    assert isinstance(alphabet, dict)
    assert isinstance(amazon, dict)
    assert mills["revenue"] == "19857000000"
    assert alphabet["gross_profit"] == "240301000000"
    assert amazon["total_liabilities"] == str(624894000000 - 285970000000)


def test_the_truth_of_the_troubles() -> None:
    assert {
        n: (r["status"], r["outcome"], r["cause"]) for n, r in UK_TRUTH.items() if n in _TROUBLES
    } == _TROUBLES
    row = US_TRUTH["9990001"]
    assert (row["status"], row["outcome"], row["cause"], row["values"]) == ("done", "empty", "no_facts", {})


_TROUBLES = {
    "99000020": ("failed", None, "not_found"),
    "99000021": ("done", "empty", "pdf_only"),
    "99000022": ("failed", None, "parse_error"),
    "99000023": ("done", "complete", None),
    "99000024": ("done", "empty", "no_accounts"),
    "99000012": ("done", "partial", None),
}


def test_columns_come_in_their_order_and_as_canonical_text() -> None:
    values = UK_TRUTH["00541560"]["values"]
    assert isinstance(values, dict)
    assert list(values)[:9] == [
        "entity_current_legal_name",
        "companies_house_registered_number",
        "balance_sheet_date",
        "scope",
        "period_start",
        "period_end",
        "company_dormant",
        "average_number_employees_during_period",
        "average_number_employees_during_period_prior",
    ]
    assert (values["shareholder_funds"], values["shareholder_funds_prior"]) == ("912253", "968492")
    assert (values["tangible_fixed_assets"], values["operating_profit_loss"]) == ("1470992", "-642553")
    apple = US_TRUTH["320193"]["values"]
    assert isinstance(apple, dict)
    assert list(apple)[:4] == ["entity_name", "cik", "fiscal_year_end", "period_start"]
    assert (apple["fiscal_year_end"], apple["eps_diluted"], apple["revenue"]) == (
        "09-27",
        "7.46",
        "416161000000",
    )


def test_nil_is_absent_and_a_dash_is_zero() -> None:
    values = UK_TRUTH["99000004"]["values"]
    assert isinstance(values, dict)
    assert "debtors" not in values
    assert values["cash_bank_in_hand"] == "0"


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("1E+3", "1000"),
        ("7.50", "7.5"),
        ("-0", "0"),
        ("-0.00", "0"),
        ("12.0", "12"),
        ("0.019", "0.019"),
        ("-7", "-7"),
    ],
)
def test_canonical_text(number: str, text: str) -> None:
    assert canonical(Decimal(number)) == text


def test_the_truth_and_the_lists_are_served(url: str, http: requests.Session) -> None:
    for service, header in (("companies_house", "company_number"), ("sec_edgar", "cik")):
        sample = list(
            csv.DictReader(http.get(f"{url}/sandbox/sample.csv?service={service}").text.splitlines())
        )
        every = list(
            csv.DictReader(http.get(f"{url}/sandbox/companies.csv?service={service}").text.splitlines())
        )
        rows = http.get(f"{url}/sandbox/truth?service={service}").json()
        assert len(sample) >= 26
        assert list(sample[0]) == [header, "name"]
        assert every[: len(sample)] == sample
        assert len(every) == len(sample) + 40
        assert [row[header] for row in every] == list(rows)
        number = every[-1][header]
        one = http.get(f"{url}/sandbox/truth?service={service}&company={number}").json()
        assert one == {number: rows[number]}
    assert http.get(f"{url}/sandbox/truth?service=moon").status_code == 422
    assert http.get(f"{url}/sandbox/truth?service=sec_edgar&company=1").json() == {}
