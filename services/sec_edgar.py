"""The SEC's EDGAR: annual and quarterly figures of companies that file in the United States.

There is no key: the credential is the contact in `User-Agent`, and the limit holds for an address and not
for a contact. Source: SEC, "Accessing EDGAR data" and "EDGAR application programming interfaces".
"""

from __future__ import annotations

import re
from collections.abc import Generator, Mapping
from datetime import date
from typing import Any

from services import earlier
from services.companies import sec_identify, sec_name
from services.extraction import Asked, Company, Empty, Extraction, Failed, Fields, Get, Options, Value
from services.sec_companies import find_cik
from services.sec_submissions import ABOUT, REPORT, listed
from services.service import PERIODS, Field, Kind, Option, Service, check_periods
from services.us_facts import NO_AMOUNTS, SERIES, Wanted, row
from services.us_filed import QUARTER, YEAR, read
from services.verdicts import Refused, ServiceFailed, ServiceRests, Usable, Verdict

LATEST = "latest"
MOST_PERIODS = 40
PAUSE_SECONDS = 600.0  # the SEC's own words: "limited for 10 minutes", longer for who goes on

_YEARS = range(1990, 2100)
_PERIOD = ("period_start", "period_end", "form", "filed", "accession")
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
    """The figures that a list asks for, of a CIK, or of a ticker or name by way of the SEC's own list."""
    found = yield from find_cik(company.number)
    if isinstance(found, Failed):
        return found
    number = found.cik
    wanted = _wanted(options.settings)
    answer = yield Get(f"/api/xbrl/companyfacts/CIK{number:0>10}.json", host="data")
    if answer.status == _NOT_FOUND:
        return Empty("no_facts", f"The SEC has no facts for CIK {number}.")
    if answer.status != _OK:
        return Failed("not_found", f"The SEC has no page for CIK {number}.")
    try:
        facts = read(answer.body, wanted.length)
    except ValueError as error:
        return Failed("parse_error", f"The facts of CIK {number} cannot be read: {error}")
    if not isinstance(facts, dict):
        return Failed("parse_error", f"The facts of CIK {number} are JSON of another shape.")
    del answer  # megabytes that nobody needs while more is asked for
    known = row(facts, _needed(options.fields), wanted)
    if "period_end" not in known:
        return Empty("no_facts", f"CIK {number} has facts, but none {_described(wanted)}.")
    known |= yield from _beside_the_figures(number, options.fields, known)
    flags = ("found_by_name",) if found.by_name else ()
    return Fields({field: known[field] for field in options.fields if field in known}, flags)


def _wanted(settings: Mapping[str, str]) -> Wanted:
    year = settings.get("year", LATEST)
    return Wanted(
        length=QUARTER if settings.get("frequency") == "quarterly" else YEAR,
        year=None if year == LATEST else int(year),
        first_filed=settings.get("as") == "first",
    )


def _described(wanted: Wanted) -> str:
    what = "of a quarter" if wanted.length == QUARTER else "from an annual report"
    return what if wanted.year is None else f"{what} of a fiscal year that ends in {wanted.year}"


def _needed(fields: tuple[str, ...]) -> list[str]:
    """The fields asked for, with what the answer is judged and its reports are found by."""
    backs = range(earlier.furthest(fields) + 1)
    return [*fields, *(earlier.column(field, back) for back in backs for field in _PERIOD)]


def _beside_the_figures(
    cik: str, fields: tuple[str, ...], known: Mapping[str, Value]
) -> Generator[Asked, Any, dict[str, Value]]:
    """What only the list of filings says, when it is asked for: it is a call, or more, of its own."""
    reports: dict[int, tuple[str, date]] = {}
    for field, back in map(earlier.split, fields):
        accession, filed = (known.get(earlier.column(name, back)) for name in ("accession", "filed"))
        if field == REPORT and accession and filed and isinstance(filed.value, date):
            reports[back] = str(accession.value), filed.value
    wants_about = any(field in ABOUT for field in fields)
    if not reports and not wants_about:
        return {}
    return (yield from listed(cik, reports, wants_about))


def check_year(text: str) -> str | None:
    """What is wrong with a fiscal year as an option, or None."""
    if text == LATEST or (re.fullmatch("[0-9]{4}", text) and int(text) in _YEARS):
        return None
    return f"must be {LATEST} or a year such as 2021"


def _kind(series: str) -> Kind:
    return Kind.NUMBER if series in NO_AMOUNTS else Kind.MONEY


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
        Field("period_start", Kind.DATE, repeats=True),
        Field("period_end", Kind.DATE, required=True, repeats=True),
        Field("form", Kind.TEXT, repeats=True),
        Field("filed", Kind.DATE, repeats=True),
        Field("accession", Kind.TEXT, repeats=True),
        *(Field(name, _kind(name), required=name in _REQUIRED, repeats=True) for name in SERIES),
    ),
    more_fields=(*(Field(name, Kind.TEXT) for name in ABOUT), Field(REPORT, Kind.TEXT, repeats=True)),
    identify=sec_identify,
    identify_name=sec_name,
    extract=extract,
    judge=judge,
    probe="320193",
    options={
        "frequency": Option("Figures of years or of quarters.", "annual", ("annual", "quarterly")),
        "year": Option(
            "Which fiscal year, by the calendar year in which it ends: latest, or one such as 2021.",
            LATEST,
            check=check_year,
        ),
        PERIODS: Option(
            f"How many periods, 1 to {MOST_PERIODS}: the one asked for and those reported before it.",
            "1",
            check=check_periods(MOST_PERIODS),
        ),
        "as": Option(
            "Which value counts when a later report changed it: the latest or the first reported.",
            LATEST,
            (LATEST, "first"),
            title="As reported",
        ),
    },
)
