"""Filings on disk: each file of a folder, or each document of a bulk archive, is a job of its own.

https://download.companieshouse.gov.uk/en_accountsdata.html : daily and monthly packs of accounts.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Final

from services.archives import Document, documents
from services.companies import BadNumber
from services.companies_house import COMPANIES_HOUSE
from services.extraction import Company, Empty, Extraction, Failed, Fields, Options, Read
from services.filings import UkAccounts, read_document
from services.sec_edgar import SEC_EDGAR
from services.service import Field, Option, Service
from services.verdicts import Verdict

FOLDER: Final = "folder"
LONGEST_MEMBER: Final = 1_000


def extract(company: Company, options: Options) -> Extraction:
    """The newest year of UK accounts, or the last annual report in the SEC's companyfacts, as one row."""
    data: bytes = yield Read(company.number)
    found = list(islice(documents(company.number, data), 2))
    if len(found) != 1:
        held = "several documents" if found else "no document"
        return Failed("parse_error", f"The file holds {held}; it is an archive under another name.")
    document = found[0]
    if not isinstance(document, Document):
        return Failed(document.cause, document.message)
    report = read_document(document)
    if isinstance(report, Empty | Failed):
        return report
    values = {name: report.row[name] for name in options.fields if name in report.row}
    return Fields(values, report.flags if isinstance(report, UkAccounts) else ())


def member(text: str) -> str:
    """The name of a document below the list's folder, such as `pack.zip/Prod223_1_00000006_20231231.html`.

    Raises `BadNumber` for one that leads out of the folder, whatever lies there.
    """
    name = text.strip()
    if not name or len(name) > LONGEST_MEMBER or "\0" in name or "\\" in name:
        raise BadNumber(f"“{name[:40]}” is no name of a file.")
    if name.startswith("/") or any(part in ("", ".", "..") for part in name.split("/")):
        raise BadNumber(f"“{name[:40]}” must lead down from the list's folder, without .. and doubled /.")
    return name


def _fields() -> tuple[Field, ...]:
    """Those of UK accounts, then those that only the SEC's have. Required is what both kinds of row have."""
    both = {field.name: field for one in (COMPANIES_HOUSE, SEC_EDGAR) for field in reversed(one.fields)}
    ordered = dict.fromkeys(field.name for one in (COMPANIES_HOUSE, SEC_EDGAR) for field in one.fields)
    return tuple(Field(name, both[name].kind, required=name == "period_end") for name in ordered)


def _no_key(_secret: str) -> Mapping[str, str]:
    return {}


def _no_secret(_secret: str) -> str:
    return "Files on disk are read without a key."


def _no_call(status: int, headers: Mapping[str, str], body: bytes, now: float) -> Verdict:  # noqa: ARG001
    raise AssertionError("files on disk are not called")


FILINGS_FOLDER: Final = Service(
    name="filings_folder",
    title="Filings on disk",
    key_is="",
    hosts={},
    headers=_no_key,
    check_secret=_no_secret,
    limits=(),
    fields=_fields(),
    identify=member,
    extract=extract,
    judge=_no_call,
    probe="",
    needs_key=False,
    options={FOLDER: Option("Where the files are, below SLUICE_FILINGS_ROOT.", ".")},
)
