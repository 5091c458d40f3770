"""UK accounts in columns: every period and scope of a filing, and one row for its latest year.

A value is the filer's own: nothing is repaired, added up or guessed. What looks wrong gets a flag:
`total_member`, `inconsistent_duplicate`, `fractional_employees`, and the reader's (`services.ixbrl.Fact`).
"""

from services.uk_accounts.columns import EMPLOYEES, PER_PERIOD, ROW
from services.uk_accounts.general import padded_number
from services.uk_accounts.latest import latest
from services.uk_accounts.model import COMPANY, CONSOLIDATED, Accounts, Period, Span
from services.uk_accounts.periods import normalise

__all__ = [
    "COMPANY",
    "CONSOLIDATED",
    "EMPLOYEES",
    "PER_PERIOD",
    "ROW",
    "Accounts",
    "Period",
    "Span",
    "latest",
    "normalise",
    "padded_number",
]
