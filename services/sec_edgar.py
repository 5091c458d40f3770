"""The SEC's EDGAR: annual figures of companies that file in the United States.

There is no key: the credential is the contact in `User-Agent`, and the limit holds for an address and not
for a contact. Source: SEC, "Accessing EDGAR data" and "EDGAR application programming interfaces".
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from services.companies import sec_identify
from services.extraction import Answer, Company, Empty, Extraction, Failed, Fields, Get, Options
from services.service import Field, Kind, Option, Service
from services.us_facts import SERIES, latest_annual
from services.us_filed import read
from services.verdicts import Refused, ServiceFailed, ServiceRests, Usable, Verdict

PAUSE_SECONDS = 600.0  # the SEC's own words: "limited for 10 minutes", longer for who goes on

_REQUIRED = {"revenue", "net_income", "total_assets"}
_OK, _FORBIDDEN, _NOT_FOUND, _TOO_MANY = 200, 403, 404, 429
_ERRORS, _SERVER_ERRORS = 400, 500
_TAIL_BYTES = 256
_NO_SUCH_PATH = b"<Code>AccessDenied</Code>"
_UNDECLARED = b"Undeclared Automated Tool"
_CONTACT = re.compile(r"[!-~]+(?: [!-~]+)*")
_ADDRESS = re.compile(r"(?:^|[ (<])[^\s@()<>]+@[^\s@()<>]+\.[A-Za-z]{2,}")


def headers(secret: str) -> Mapping[str, str]:
    """The contact as the SEC asks to be told it."""
    return {"User-Agent": secret, "Accept-Encoding": "gzip, deflate"}


def check_secret(secret: str) -> str | None:
    """What is wrong with a contact, or None."""
    if not _CONTACT.fullmatch(secret):
        return "The contact must be one line of plain letters, such as: Example Ltd data@example.com"
    if not _ADDRESS.search(secret):
        return "The SEC wants an email address in the contact, such as: Example Ltd data@example.com"
    return None


def judge(status: int, headers: Mapping[str, str], body: bytes, now: float) -> Verdict:
    """What an answer of the SEC means. A 403 is told apart by its body: no such path, or stop everything."""
    del headers, now
    if status == _OK:
        cut = body[-_TAIL_BYTES:].rstrip()[-1:] not in (b"}", b"]")  # parsed once, by the extractor
        return ServiceFailed("bad_answer", "The answer does not end as JSON does.") if cut else Usable()
    if status == _NOT_FOUND or (status == _FORBIDDEN and _NO_SUCH_PATH in body):
        return Usable()
    if status in (_FORBIDDEN, _TOO_MANY):
        return ServiceRests(PAUSE_SECONDS, _why_stop(status, body))
    if status >= _SERVER_ERRORS:
        return ServiceFailed("service_error", f"The SEC answered {status}.")
    if status >= _ERRORS:
        return Refused(f"The SEC answered {status}.")
    return ServiceFailed("bad_answer", f"The SEC answered {status}, which is no answer to a question.")


def _why_stop(status: int, body: bytes) -> str:
    if _UNDECLARED in body:
        return (
            "The SEC calls this an undeclared automated tool: it does not accept the contact. "
            "Check that every SEC key is a company's name and email address."
        )
    return f"The SEC answered {status}: too many requests from this address. It wants a pause of 10 minutes."


def extract(company: Company, options: Options) -> Extraction:
    """The last annual figures of a CIK, or of a ticker by way of the SEC's own list of tickers."""
    number = company.number
    if not number.isdigit():
        answer = yield Get("/files/company_tickers.json", host="www")
        found = _cik_of(number, answer)
        if isinstance(found, Failed):
            return found
        number = found
    answer = yield Get(f"/api/xbrl/companyfacts/CIK{number:0>10}.json", host="data")
    if answer.status == _NOT_FOUND:
        return Empty("no_facts", f"The SEC has no facts for CIK {number}.")
    if answer.status != _OK:
        return Failed("not_found", f"The SEC has no page for CIK {number}.")
    try:
        facts = read(answer.body)
    except ValueError as error:
        return Failed("parse_error", f"The facts of CIK {number} are not JSON: {error}")
    if not isinstance(facts, dict):
        return Failed("parse_error", f"The facts of CIK {number} are JSON of another shape.")
    first_filed = options.settings.get("restatements") == "first"
    known = latest_annual(facts, (*options.fields, "period_end"), first_filed=first_filed)
    if "period_end" not in known:
        return Empty("no_facts", f"CIK {number} has facts, but none from an annual report.")
    return Fields({field: known[field] for field in options.fields if field in known})


def _cik_of(ticker: str, answer: Answer) -> str | Failed:
    if answer.status != _OK:
        return Failed("not_available", f"The SEC's list of tickers could not be read ({answer.status}).")
    try:
        listed = answer.json()
    except ValueError as error:
        return Failed("parse_error", f"The SEC's list of tickers is not JSON: {error}")
    for entry in listed.values() if isinstance(listed, dict) else ():
        if isinstance(entry, dict) and entry.get("ticker") == ticker:
            return str(entry.get("cik_str"))
    return Failed("not_found", f"The SEC's list of tickers has no {ticker}.")


SEC_EDGAR = Service(
    name="sec_edgar",
    title="SEC EDGAR",
    key_is="Company name and email",
    hosts={"data": "https://data.sec.gov", "www": "https://www.sec.gov"},
    headers=headers,
    check_secret=check_secret,
    limits=("8/s",),
    shared_limits=True,
    fields=(
        Field("entity_name", Kind.TEXT, required=True),
        Field("cik", Kind.TEXT, required=True),
        Field("fiscal_year_end", Kind.TEXT),
        Field("period_start", Kind.DATE),
        Field("period_end", Kind.DATE, required=True),
        Field("form", Kind.TEXT),
        Field("filed", Kind.DATE),
        Field("accession", Kind.TEXT),
        *(Field(name, Kind.NUMBER, required=name in _REQUIRED) for name in SERIES),
    ),
    identify=sec_identify,
    extract=extract,
    judge=judge,
    probe="320193",
    options={
        "restatements": Option(
            "Which value counts when a later report changed it", "last", ("last", "first")
        ),
    },
)
