"""What the SEC lists of a company beside its figures: what it is, and where each of its reports stands.

The newest thousand filings are parallel arrays in the first answer; older ones are pages of their own.
Source: SEC, "EDGAR application programming interfaces", submissions.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Mapping
from datetime import date
from typing import Any, Final

from services import earlier
from services.extraction import Answer, Asked, Get, Source, Value

REPORT: Final = "report_url"
ABOUT: Final = ("tickers", "sic", "sic_description")

_OK: Final = 200
_PAGE: Final = re.compile(r"CIK\d{10}-submissions-\d{3}\.json")
_ARCHIVES: Final = "https://www.sec.gov/Archives/edgar/data"


def listed(
    cik: str, reports: Mapping[int, tuple[str, date]], wants_about: bool
) -> Generator[Asked, Any, dict[str, Value]]:
    """The fields of `ABOUT`, and `REPORT` for each period of `reports`, those that the SEC lists.

    `reports`: periods back to accession number and day of filing. Only the pages that may list one of them
    are asked for.
    """
    path = f"/submissions/CIK{cik:0>10}.json"
    document = _object((yield Get(path, host="data")))
    found = dict(_about(document, path)) if wants_about else {}
    filings = _object_in(document, "filings")
    missing = dict(reports)
    found |= _reports(cik, missing, _object_in(filings, "recent"))
    pages = filings.get("files")
    for page in pages if isinstance(pages, list) else ():
        if missing and (name := _page_that_may_list(page, missing)):
            older = _object((yield Get(f"/submissions/{name}", host="data")))
            found |= _reports(cik, missing, older)
    return found


def _about(document: Mapping[str, Any], path: str) -> Iterator[tuple[str, Value]]:
    source = Source(document=path)
    tickers = document.get("tickers")
    if isinstance(tickers, list) and (texts := [text for text in tickers if isinstance(text, str) and text]):
        yield "tickers", Value(" ".join(texts), source)
    for field, member in (("sic", "sic"), ("sic_description", "sicDescription")):
        if isinstance(text := document.get(member), str) and text.strip():
            yield field, Value(text.strip(), source)


def _reports(
    cik: str, missing: dict[int, tuple[str, date]], page: Mapping[str, Any]
) -> Iterator[tuple[str, Value]]:
    """What a page lists of the reports; they are missing no longer."""
    accessions, documents = page.get("accessionNumber"), page.get("primaryDocument")
    if not isinstance(accessions, list) or not isinstance(documents, list):
        return
    by_accession = dict(zip(map(str, accessions), documents, strict=False))
    for back, (accession, filed) in list(missing.items()):
        if accession in by_accession:
            del missing[back]
            document = by_accession[accession]
            name = document if isinstance(document, str) and document else f"{accession}-index.htm"
            url = f"{_ARCHIVES}/{cik}/{accession.replace('-', '')}/{name}"
            yield earlier.column(REPORT, back), Value(url, Source(document=accession, filed=filed))


def _page_that_may_list(page: Any, missing: Mapping[int, tuple[str, date]]) -> str | None:
    if not isinstance(page, dict) or not _PAGE.fullmatch(str(page.get("name"))):
        return None
    first, last = str(page.get("filingFrom") or ""), str(page.get("filingTo") or "9999")
    return page["name"] if any(first <= str(filed) <= last for _, filed in missing.values()) else None


def _object(answer: Answer) -> Mapping[str, Any]:
    """Empty where there is no such answer: what is listed there is missing, the figures are not."""
    try:
        found = answer.json() if answer.status == _OK else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _object_in(holder: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = holder.get(name)
    return found if isinstance(found, dict) else {}
