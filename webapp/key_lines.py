"""Several keys pasted at once, one per line: the label, a comma or a tab, the secret. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from services.service import Service
from webapp import names
from webapp.key_defaults import wrong_with

MOST_KEYS = 100
_BETWEEN = re.compile(r"[,;\t]")


class BadLines(ValueError):
    """A line cannot be a key; the text says which and why, in words that do not hold its secret."""


@dataclass(frozen=True, slots=True)
class KeyLine:
    """A key of the paste. `no` counts lines from 1, blank ones too."""

    no: int
    label: str
    secret: str = field(repr=False)


def read(text: str, service: Service) -> list[KeyLine]:
    """The keys in `text`. Raises `BadLines` for the first line that is none, or when there are none."""
    found = [_line(no, line, service) for no, line in enumerate(text.splitlines(), start=1) if line.strip()]
    if not found:
        raise BadLines("Give a key per line: its label, a comma, its secret.")
    if len(found) > MOST_KEYS:
        raise BadLines(f"{len(found):,} keys are too many at once: at most {MOST_KEYS}.")
    for at, one in enumerate(found):
        for before in found[:at]:
            if one.label == before.label:
                raise BadLines(f"Line {one.no} has the label of line {before.no}.")
            if one.secret == before.secret:
                raise BadLines(f"Line {one.no} has the secret of line {before.no}.")
    return found


def _line(no: int, line: str, service: Service) -> KeyLine:
    parts = _BETWEEN.split(line, maxsplit=1)
    if len(parts) == 1:  # never the line itself: it may be a secret alone
        raise BadLines(f"Line {no} has no comma or tab between a label and a secret.")
    label, secret = (part.strip() for part in parts)
    # A label that cannot be printed is not repeated: the two may have been pasted the wrong way round.
    if names.problem("label", label):
        raise BadLines(f"The label in line {no} is blank, longer than {names.LONGEST_NAME}, or unprintable.")
    if wrong := wrong_with(secret, service):
        raise BadLines(f"Line {no}: {wrong}")
    return KeyLine(no, label, secret)
