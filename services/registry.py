"""Every service that Sluice knows. A new one is its file, a line here and a test."""

from __future__ import annotations

from services.companies_house import COMPANIES_HOUSE
from services.sec_edgar import SEC_EDGAR
from services.service import Service

SERVICES: dict[str, Service] = {
    "companies_house": COMPANIES_HOUSE,
    "sec_edgar": SEC_EDGAR,
}
