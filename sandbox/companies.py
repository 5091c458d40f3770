"""Which companies there are: the sample shipped with the sandbox, and the generated ones behind it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from sandbox import uk_generated, us_generated
from sandbox.figures import read_figures
from sandbox.uk_accounts import Accounts, UkCompany
from sandbox.us_facts import Filing, UsCompany

DATA = Path(__file__).parent / "data"
_DAYS_TO_FILE = 60


class Companies:
    """Finds companies by number. `generated`: how many there are of each service beyond the sample."""

    def __init__(self, seed: int, generated: int) -> None:
        self._seed = seed
        self._generated = generated
        self.uk_sample = {c.number: c for c in map(_uk_company, _load("uk_companies.json"))}
        self.us_sample = {c.cik: c for c in map(_us_company, _load("us_companies.json"))}

    def uk(self, number: str) -> UkCompany | None:
        """The company of exactly this number; None when the register does not know it."""
        sample = self.uk_sample.get(number)
        if sample is not None:
            return None if sample.trouble == "unknown" else sample
        index = uk_generated.index_of(number)
        known = index is not None and index < self._generated
        return uk_generated.generate(self._seed, index) if known and index is not None else None

    def us(self, cik: int) -> UsCompany | None:
        sample = self.us_sample.get(cik)
        if sample is not None:
            return sample
        index = us_generated.index_of(cik)
        known = index is not None and index < self._generated
        return us_generated.generate(self._seed, index) if known and index is not None else None

    def every_uk(self) -> Iterator[UkCompany]:
        """The sample with its unknown company, then the generated ones."""
        yield from self.uk_sample.values()
        yield from (uk_generated.generate(self._seed, index) for index in range(self._generated))

    def every_us(self) -> Iterator[UsCompany]:
        yield from self.us_sample.values()
        yield from (us_generated.generate(self._seed, index) for index in range(self._generated))


def _load(name: str) -> list[dict[str, Any]]:
    loaded: list[dict[str, Any]] = json.loads((DATA / name).read_text(encoding="utf-8"))
    return loaded


def _uk_company(entry: dict[str, Any]) -> UkCompany:
    return UkCompany(
        number=entry["number"],
        name=entry["name"],
        dialect=entry["dialect"],
        accounts=_accounts(entry) if "made_up_to" in entry else None,
        trouble=entry.get("trouble"),
        older=tuple(_accounts(older) for older in entry.get("older", ())),
        is_dissolved=entry.get("is_dissolved", False),
    )


def _accounts(entry: dict[str, Any]) -> Accounts:
    return Accounts(
        made_up_to=date.fromisoformat(entry["made_up_to"]),
        started=_day(entry, "started"),
        prior_made_up_to=_day(entry, "prior_made_up_to"),
        prior_started=_day(entry, "prior_started"),
        current=read_figures(entry["current"]),
        prior=read_figures(entry.get("prior", {})),
        scope=entry.get("scope", "company"),
        is_dormant=entry.get("is_dormant", False),
        standalone=read_figures(entry.get("standalone", {})),
    )


def _us_company(entry: dict[str, Any]) -> UsCompany:
    cik = int(entry["cik"])
    return UsCompany(
        cik=cik,
        name=entry["name"],
        ticker=entry["ticker"],
        taxonomy=entry.get("taxonomy", "us-gaap"),
        filings=tuple(_filing(filing, cik) for filing in entry["filings"]),
        trouble=entry.get("trouble"),
    )


def _filing(entry: dict[str, Any], cik: int) -> Filing:
    """A day of filing and an accession number that the data leaves out are the sandbox's own."""
    end = date.fromisoformat(entry["end"])
    filed = _day(entry, "filed") or end + timedelta(days=_DAYS_TO_FILE)
    return Filing(
        start=date.fromisoformat(entry["start"]),
        end=end,
        form=entry["form"],
        filed=filed,
        accession=entry.get("accession", f"{cik:010d}-{filed:%y}-990001"),
        figures={name: Decimal(value) for name, value in entry["figures"].items()},
        extra={tag: Decimal(value) for tag, value in entry.get("extra", {}).items()},
        tags=entry.get("tags", {}),
    )


def _day(entry: dict[str, Any], name: str) -> date | None:
    return date.fromisoformat(entry[name]) if name in entry else None
