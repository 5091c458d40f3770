"""What one document may cost: hostile pages of a few megabytes else mean hours of work or gigabytes.

Real filings stay far below each limit. What exceeds one is refused with a sentence, before the work is done.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from lxml import etree

BYTES_ALLOWED: Final = 64 * 1024 * 1024
"""Annual reports with pictures in them reach 60 MB."""
TREE_BYTES_ALLOWED: Final = 200_000_000
TEXT_ALLOWED: Final = 16 * 1024 * 1024
"""Of all facts together, in bytes. Facts nest and share continuations; in real filings their texts are a
tenth of the page."""
TAGGED_ALLOWED: Final = 120_000
"""Facts, continuations, contexts and units. The annual reports of large banks have some 40,000."""
NESTED_ALLOWED: Final = 20
NAMES_ALLOWED: Final = 5_000_000
"""Namespaces looked through for facts whose prefix the root does not declare."""

_COPIES: Final = 3  # the text as it came, without its document type, and in the tree
_OPENING, _CLOSING, _ATTRIBUTE, _REFERENCE = 240, 120, 215, 150
"""Bytes in libxml2's tree: an element with a text after it, a text before an end, an attribute with its
value; of a reference, what replacing it takes."""
_BYTES_OF_A_TEXT: Final = 49


class Unreadable(ValueError):
    """The bytes are not a filing that can be read. The message says why, as a sentence for people."""


def check_tree(text: bytes) -> None:
    """Refuse what would not fit into memory, by what it is made of."""
    ends = text.count(b"</")
    needed = (
        _COPIES * len(text)
        + _OPENING * (text.count(b"<") - ends)
        + _CLOSING * ends
        + _ATTRIBUTE * text.count(b"=")
        + _REFERENCE * text.count(b"&")
    )
    if needed > TREE_BYTES_ALLOWED:
        raise Unreadable(
            f"The document would take {needed // 1_000_000:,} MB of memory; "
            f"{TREE_BYTES_ALLOWED // 1_000_000} MB are allowed."
        )


class Allowance:
    """What is left of one document's limits; each method takes a share or raises `Unreadable`."""

    def __init__(self) -> None:
        self._text_left = TEXT_ALLOWED
        self._tagged_left = TAGGED_ALLOWED
        self._names_left = NAMES_ALLOWED

    def tagged(self) -> None:
        """One more fact, continuation, context or unit."""
        self._tagged_left -= 1
        if self._tagged_left < 0:
            raise Unreadable(f"The document has more than {TAGGED_ALLOWED:,} facts and contexts.")

    def text(self, size_bytes: int) -> None:
        """One more text of a fact."""
        self._text_left -= size_bytes + _BYTES_OF_A_TEXT
        if self._text_left < 0:
            raise Unreadable(
                f"The document's facts have more than {TEXT_ALLOWED // 1024**2} MB of text, repeats included."
            )

    def names(self, count: int) -> None:
        """Some more namespaces to look through."""
        self._names_left -= count
        if self._names_left < 0:
            raise Unreadable("The document declares too many namespaces inside.")


def check_nesting(above: Iterable[etree._Element]) -> None:
    """Refuse an element that stands in too many of its kind: each of them reads all that is inside."""
    for depth, _ in enumerate(above):
        if depth >= NESTED_ALLOWED:
            raise Unreadable(f"The document nests its facts more than {NESTED_ALLOWED} deep.")
