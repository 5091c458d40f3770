"""Every service that Sluice knows. A new one is its file, a line here and a test."""

from __future__ import annotations

from services.companies_house import COMPANIES_HOUSE
from services.filings_folder import FILINGS_FOLDER
from services.sec_edgar import SEC_EDGAR
from services.service import Service

SERVICES: dict[str, Service] = {
    "companies_house": COMPANIES_HOUSE,
    "filings_folder": FILINGS_FOLDER,
    "sec_edgar": SEC_EDGAR,
}


def needs_key(service: str) -> bool:
    """Whether its jobs wait for a key. One that is not known may."""
    return service not in SERVICES or SERVICES[service].needs_key
