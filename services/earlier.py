"""Names of columns that hold a period before: `revenue`, `revenue_prior`, `revenue_prior_2`, and so on."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_EARLIER: Final = re.compile(r"(.+?)_prior(?:_([1-9][0-9]*))?")


def column(name: str, back: int) -> str:
    """The column of `name` for the period that is `back` periods before the row's own."""
    return name if back == 0 else f"{name}_prior" if back == 1 else f"{name}_prior_{back}"


def split(name: str) -> tuple[str, int]:
    """`("revenue", 2)` for `revenue_prior_2`: what `column` was made from."""
    match = _EARLIER.fullmatch(name)
    return (match[1], int(match[2] or 1)) if match else (name, 0)


def furthest(names: Iterable[str]) -> int:
    """How many periods before the row's own these columns ask for."""
    return max((split(name)[1] for name in names), default=0)
