"""Files on disk as jobs: the same values as the same bytes have anywhere else, and names that stay below."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from pathlib import Path

import pytest

from services.archives import Document
from services.companies import BadNumber
from services.companies_house import COMPANIES_HOUSE
from services.extraction import Company, Empty, Extraction, Failed, Fields, Options, Read, Result, Source
from services.filings import (
    REGISTERED_NUMBER,
    UkAccounts,
    plain,
    read_accounts,
    read_companyfacts,
    read_document,
    read_file,
)
from services.filings_folder import FILINGS_FOLDER, member
from services.sec_edgar import SEC_EDGAR

EVERY_FIELD = tuple(field.name for field in FILINGS_FOLDER.fields)
ACCOUNTS = b"""<?xml version="1.0"?><xbrl xmlns="http://www.xbrl.org/2003/instance" xmlns:g="http://gaap.test/">
<context id="c"><entity><identifier scheme="s">1</identifier></entity>
<period><instant>2020-12-31</instant></period></context>
<unit id="u"><measure>iso4217:GBP</measure></unit>
<g:Debtors contextRef="c" unitRef="u" decimals="0">1000.50</g:Debtors></xbrl>"""


def read(name: str, data: bytes, fields: tuple[str, ...] = EVERY_FIELD) -> Result:
    asking: Extraction = FILINGS_FOLDER.extract(Company(name), Options(fields))
    assert next(asking) == Read(name)
    with pytest.raises(StopIteration) as ended:
        asking.send(data)
    result: Result = ended.value.value
    return result


def packed(*names: str) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name in names:
            archive.writestr(name, ACCOUNTS)
    return stream.getvalue()


def filings(corpus: Path) -> list[Path]:
    kinds = ("uk_ixbrl/*", "uk_xbrl21/*", "uk_corrupt/*", "ix_features/*", "sec_json/companyfacts*")
    return [path for kind in kinds for path in sorted(corpus.glob(kind))]


def test_a_job_of_a_file_holds_what_the_command_prints_of_it(corpus: Path) -> None:
    for path in filings(corpus):
        (printed,) = read_file(path.name, path.read_bytes())
        found = read(path.name, path.read_bytes())
        if isinstance(found, Fields):
            columns = {name: plain(value.value) for name, value in found.values.items()}
            assert columns == {name: printed[name] for name in EVERY_FIELD if name in printed}, path.name
        else:
            assert isinstance(found, Empty | Failed)
            assert (found.cause, found.message) == (printed["cause"], printed["message"])


def test_each_value_names_the_file_or_the_report_that_it_is_from(corpus: Path) -> None:
    path = corpus / "uk_ixbrl" / "Prod223_3384_09355500_20221231.html"
    accounts = read(f"pack.zip/{path.name}", path.read_bytes(), ("shareholder_funds",))
    assert isinstance(accounts, Fields)
    source = accounts.values["shareholder_funds"].source
    assert source
    assert source.document == f"pack.zip/{path.name}"
    assert source.unit == "GBP"
    path = corpus / "sec_json" / "companyfacts_CIK0000320193_AAPL.json.gz"
    annual = read(path.name, path.read_bytes(), ("revenue",))
    assert isinstance(annual, Fields)
    assert annual.values["revenue"].source
    assert annual.values["revenue"].source.form == "10-K"


def test_only_the_fields_that_a_list_asks_for_come_out() -> None:
    found = read("Prod223_1_1234567_20201231.xml", ACCOUNTS, ("debtors", "revenue"))
    assert isinstance(found, Fields)
    assert found.values.keys() == {"debtors"}


def test_the_file_name_tells_the_number_that_the_document_leaves_out() -> None:
    found = read("Prod223_1_1234567_20201231.xml", ACCOUNTS)
    assert isinstance(found, Fields)
    number = found.values[REGISTERED_NUMBER]
    assert (number.value, number.flags) == ("01234567", ("from_file_name",))


def test_the_address_of_a_document_at_companies_house_tells_no_number() -> None:
    found = read_accounts(ACCOUNTS, Source(document="/document/abc"))
    assert isinstance(found, UkAccounts)
    assert REGISTERED_NUMBER not in found.row


def test_accounts_are_never_looked_for_in_json_nor_companyfacts_in_accounts() -> None:
    facts = json.dumps({"facts": {}}).encode()
    asked_for_accounts = read_accounts(facts, Source())
    assert isinstance(asked_for_accounts, Failed)
    of_json = read_document(Document("a.json", b"\n " + facts))
    assert isinstance(of_json, Empty)
    assert of_json == read_companyfacts(facts)


@pytest.mark.parametrize(
    ("data", "held"),
    [(packed(), "no document"), (packed("a.xml", "b.xml"), "several documents")],
)
def test_an_archive_under_another_name_is_refused_in_words(data: bytes, held: str) -> None:
    found = read("a.html", data)
    assert isinstance(found, Failed)
    assert found.cause == "parse_error"
    assert held in found.message


def test_one_document_in_an_archive_and_a_gzipped_one_are_read() -> None:
    for data in (packed("a.xml"), gzip.compress(ACCOUNTS)):
        found = read("a.html", data)
        assert isinstance(found, Fields)
        assert found.values["debtors"].value == 1000.5


@pytest.mark.parametrize(
    "name", ["", " ", "/etc/passwd", "../a", "a/../b", "a//b", "a/.", "a\\b", "a\0b", "a" * 1_001]
)
def test_a_name_that_leads_out_of_the_folder_is_none(name: str) -> None:
    with pytest.raises(BadNumber):
        member(name)


def test_a_name_below_the_folder_is_as_it_was_written() -> None:
    assert (
        member(" pack.zip/Prod223_1_00000006_20231231.html ") == "pack.zip/Prod223_1_00000006_20231231.html"
    )


def test_every_column_of_both_kinds_of_filing_can_be_asked_for() -> None:
    both = [field.name for one in (COMPANIES_HOUSE, SEC_EDGAR) for field in one.fields]
    assert list(EVERY_FIELD) == list(dict.fromkeys(both))
    for one in (COMPANIES_HOUSE, SEC_EDGAR):
        assert all(FILINGS_FOLDER.kind_of(field.name) is field.kind for field in one.fields)
