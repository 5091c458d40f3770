"""Figures as they are written in data files, documents and the truth."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TypeAlias

Figures: TypeAlias = Mapping[str, Decimal | None]
"""Column to value. None: the document names it and says nothing (nil). An absent column is not named."""


def canonical(number: Decimal | int) -> str:
    """Plain decimal text: no exponent, no plus, no zeros that mean nothing."""
    text = format(Decimal(number), "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def read_figures(written: Mapping[str, str | int | None]) -> dict[str, Decimal | None]:
    """Figures of a data file. Fractions are text there, so that no digit is lost."""
    return {name: None if value is None else Decimal(value) for name, value in written.items()}
