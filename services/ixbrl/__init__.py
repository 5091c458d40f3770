"""Reads iXBRL documents and XBRL instances: `read(data)` gives every fact, or says why it cannot."""

from services.ixbrl.limits import Unreadable
from services.ixbrl.model import Context, Fact, Filing
from services.ixbrl.reader import read

__all__ = ["Context", "Fact", "Filing", "Unreadable", "read"]
