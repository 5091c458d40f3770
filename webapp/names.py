"""What people may call things: what can be printed and typed again."""

from __future__ import annotations

import unicodedata

LONGEST_NAME = 200
UNPRINTABLE = ("Cc", "Cs", "Zl", "Zp")


def problem(what: str, name: str) -> str | None:
    """What is wrong with a name that has no blanks around it, as a sentence; None: nothing."""
    if not name:
        return f"The {what} is blank."
    if len(name) > LONGEST_NAME:
        return f"The {what} is longer than {LONGEST_NAME} characters."
    if any(unicodedata.category(c) in UNPRINTABLE for c in name):
        return f"The {what} “{name}” has characters that cannot be printed."
    return None
