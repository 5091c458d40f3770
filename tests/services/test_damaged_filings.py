"""Real filings, damaged: read, or refused in the reader's own words; never a hang or a process that grows.

Small pages and instances are damaged by Hypothesis in `test_ixbrl_limits`; here are companyfacts, and all
kinds at their full size in a process that is watched.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from services import us_facts, us_filed
from services.causes import CAUSES
from services.filings import plain, read_file
from services.us_facts import SERIES, Wanted
from services.us_filed import QUARTER, YEAR

MEMORY_MB = 300
SECONDS = 180
"""For busy machines: an idle core takes a tenth of it."""

TAGS = us_facts._FLOW_TAGS | us_facts._INSTANT_TAGS
VALUES = (
    *("null", "true", "{}", "[]", '""', '"x"', '"\\u0000"', '"\\ud800"', "NaN", "-Infinity", "-0.0"),
    *("1" + "0" * 40, "1e99999999999999999999", "1e-999999999", "0." + "3" * 200, '"12"', '"\\u00b2"'),
    *('"0001-01-01"', '"9999-12-31"', '"2023-02-30"', '"2024-W01-1"', '"USD"', '"10-K"', '"10-Q"'),
)
LITERAL = re.compile(rb'(?<=[:\[,])\s*("(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*)(?=\s*[,}\]])')


class Companyfacts:
    """An answer, and where its values begin and end. No dataclass: Hypothesis would print all of it."""

    def __init__(self, body: bytes) -> None:
        self.body = body
        self.places = [found.span(1) for found in LITERAL.finditer(body)]


@pytest.fixture(scope="module")
def companyfacts(corpus: Path) -> Companyfacts:
    """A real answer, small enough to be damaged many times over."""
    facts = json.loads((corpus / "sec_json" / "companyfacts_LPA.json").read_bytes())["facts"]["ifrs-full"]
    kept = {tag: about for tag, about in facts.items() if f"ifrs-full:{tag}" in TAGS}
    body = json.dumps({"cik": 1, "entityName": "Example", "facts": {"ifrs-full": kept}}).encode()
    return Companyfacts(body)


@given(
    changed=st.dictionaries(st.integers(0, 5_000), st.sampled_from(VALUES), max_size=30),
    cut=st.none() | st.tuples(st.integers(0, 1_000_000), st.sampled_from((0, 1, 50)), st.binary(max_size=4)),
)
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_damaged_companyfacts_are_read_or_no_json(
    companyfacts: Companyfacts, changed: dict[int, str], cut: tuple[int, int, bytes] | None
) -> None:
    damaged, places = bytearray(companyfacts.body), companyfacts.places
    by_place = {places[n % len(places)]: value for n, value in changed.items()}
    for (at, end), value in sorted(by_place.items(), reverse=True):
        damaged[at:end] = value.encode()
    if cut:
        at, length, more = cut
        damaged[at % len(damaged) : at % len(damaged) + length] = more
    every_row(bytes(damaged))


A_FACT = {"val": 1, "accn": "a", "form": "10-K", "filed": "9999-12-31"}
DAYS = st.dates().map(str)


@given(
    st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "start": DAYS,
                "end": DAYS,
                "filed": DAYS,
                "val": st.integers() | st.decimals(allow_nan=False),
                "accn": st.text(max_size=2),
                "form": st.sampled_from(us_filed.ANNUAL_FORMS + us_filed.QUARTERLY_FORMS),
            },
        ),
        max_size=12,
    )
)
@example([A_FACT | {"start": "0001-01-01", "end": "0001-12-31"}])
@example([A_FACT | {"start": "9999-01-01", "end": "9999-12-31"}])
def test_facts_of_any_days_are_rows_or_left_out(facts: list[dict[str, Any]]) -> None:
    tags = ("NetIncomeLoss", "Assets", "Revenues", "CostOfRevenue", "LiabilitiesAndStockholdersEquity")
    units = {"units": {"USD": facts}}
    every_row(json.dumps({"facts": {"us-gaap": dict.fromkeys(tags, units)}}, default=float).encode())


def every_row(body: bytes) -> None:
    """All that is done with a companyfacts answer."""
    for found in read_file("a.json", body, with_facts=True):
        assert found["cause"] is None or found["cause"] in CAUSES
        json.dumps(found, ensure_ascii=False).encode()
    for wanted in (Wanted(YEAR, 2023), Wanted(QUARTER), Wanted(QUARTER, 2024, first_filed=True)):
        try:
            facts = us_filed.read(body, wanted.length)
        except ValueError:
            continue
        if not isinstance(facts, dict):
            continue
        row = us_facts.row(facts, [*SERIES, "period_start", "period_end_prior", "fiscal_year_end"], wanted)
        assert all(isinstance(value.value, Decimal | int | str | date) for value in row.values())
        assert all(len(str(plain(value.value))) < 1_000 for value in row.values())


KINDS = (
    *("uk_ixbrl/*", "uk_xbrl21/*", "ix_features/*", "uk_bulk_zip/*"),
    *("sec_filings/*", "sec_json/companyfacts*"),
)
MARKS = (
    *("<", ">", "&", '"', "/>", "<!--", "]]>", "<![CDATA[", "<!DOCTYPE x [", "</div>", "<div>", "&nbsp;"),
    *("\0", "\xff", ' contextRef="c"', ' continuedAt="', ' scale="99"', "<ix:exclude>", "0001-01-01"),
)
WATCHED = f"""
KINDS = {KINDS}"""
WATCHED += """
import gzip, json, random, sys
from pathlib import Path
from services.filings import read_file

seed, corpus = int(sys.argv[1]), Path(sys.argv[2])
tokens = {kind: [text.encode("latin-1") for text in texts] for kind, texts in json.loads(sys.argv[3]).items()}
chance = random.Random(seed)
for path in [path for kind in KINDS for path in sorted(corpus.glob(kind))]:
    data = path.read_bytes()
    whole = gzip.decompress(data) if path.suffix == ".gz" else data
    damaged = bytearray(whole)
    of_kind = tokens["json" if whole[:1] == b"{" else "xml"]
    for _ in range(chance.randint(1, 12)):
        at = chance.randrange(len(damaged))
        again = damaged[at : at + chance.choice((0, 40, 2_000, 200_000))]
        damaged[at : at + chance.choice((0, 1, 7, 300))] = chance.choice(of_kind) + again
    for found in read_file(path.name, bytes(damaged)):
        assert found["cause"] in (None, "parse_error", "no_facts", "too_large"), found
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("seed", [1, 2])
def test_every_real_filing_with_damage_takes_neither_memory_nor_time(corpus: Path, seed: int) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WATCHED, str(seed), str(corpus), json.dumps({"json": VALUES, "xml": MARKS})],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2_000:]
    assert int(ran.stdout) / 1024 < MEMORY_MB
