"""How many of the values that are known to be right come out: UK accounts, US facts, printed numbers."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

from bench import place
from bench.figure import Measured
from services import us_facts, us_filed
from services.filings import plain
from services.ixbrl import read
from services.uk_accounts import normalise
from services.uk_accounts.columns import GENERAL

PERIOD = ("scope", "period_start", "period_end")
ASSETS = "tangible_fixed_assets"
SHOWN = 5


def expected_right() -> Measured:
    """The share of values that are equal, in percent. Raises `Absent` without the corpus."""
    corpus = place.corpus()
    values = [*_uk(corpus), *_us(corpus), *_transforms(corpus)]
    wrong = [f"{what}: {ours} instead of {right}" for what, ours, right in values if ours != right]
    share = 100 * (len(values) - len(wrong)) / len(values)
    return Measured([share], share, (f"{len(values) - len(wrong)} of {len(values)} values", *wrong[:SHOWN]))


Compared = tuple[str, object, object]
"""What it is, our value, the right one."""


def _uk(corpus: Path) -> Iterator[Compared]:
    for name, right in _expected(corpus, "uk_normalised.json").items():
        accounts = normalise(read(_data(corpus / name)))
        for column in GENERAL:
            ours = accounts.general.get(column)
            yield f"{name} {column}", None if ours is None else plain(ours.value), _text(right.get(column))
        spans = {
            (period.span.scope, period.span.start.isoformat(), period.span.end.isoformat()): period.values
            for period in accounts.periods
        }
        for period in right["periods"]:
            found = spans.get(tuple(period[part] for part in PERIOD), {})
            for column in period.keys() - set(PERIOD):
                # The expected file has one column for what is two here.
                ours = (found.get("fixed_assets") if column == ASSETS else None) or found.get(column)
                yield f"{name} {column}", ours and ours.value, Decimal(period[column])


def _us(corpus: Path) -> Iterator[Compared]:
    for name, right in _expected(corpus, "us_companyfacts.json").items():
        facts = us_filed.read(_data(corpus / "sec_json" / name))
        annual = us_facts.annual(facts)
        for field, years in right.get("annual", {}).items():
            for end, one in years.items():
                ours = annual[field].get(date.fromisoformat(end))
                yield f"{name} {field} {end}", ours and ours.value, one["value"]
        row = us_facts.latest_annual(facts, us_facts.SERIES)
        for field, one in right.get("latest_fy", {}).items():
            if one is not None:
                yield f"{name} {field}", row[field].value if field in row else None, one["value"]


def _transforms(corpus: Path) -> Iterator[Compared]:
    expected = _expected(corpus, "synthetic_transforms.json")
    for file in sorted(corpus.glob("ix_features/synthetic_transforms*.html")):
        facts = {fact.local: fact.value for fact in read(file.read_bytes()).facts}
        for name, right in expected.items():
            yield f"{file.name} {name}", facts.get(name), None if right is None else Decimal(right)


def _expected(corpus: Path, name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((corpus / "expected" / name).read_bytes(), parse_float=Decimal)
    return found


def _text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _data(file: Path) -> bytes:
    packed = file.with_name(file.name + ".gz")
    return gzip.decompress(packed.read_bytes()) if packed.exists() else _unpacked(file)


def _unpacked(file: Path) -> bytes:
    return gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
