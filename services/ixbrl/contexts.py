"""`xbrli:context` and `xbrli:unit` elements -> when, about what, and in which unit."""

from __future__ import annotations

from datetime import date

from lxml import etree

from services.ixbrl.dates import context_date
from services.ixbrl.model import Context

XBRLI = "{http://www.xbrl.org/2003/instance}"
XBRLDI = "{http://xbrl.org/2006/xbrldi}"
DATE_ALLOWED = 40
PIECE = 1 << 18
CONTEXT, UNIT = XBRLI + "context", XBRLI + "unit"


def read_context(element: etree._Element) -> Context:
    """Dimensions come from the segment's and the scenario's elements, never from the text of the id."""
    entity = ""
    dates: dict[object, date | None] = {}
    dimensions: dict[str, str] = {}
    flags: tuple[str, ...] = ()
    for child in element.iter(_IDENTIFIER, _START, _END, _INSTANT, _SEGMENT, _SCENARIO):
        tag = child.tag
        if tag == _IDENTIFIER:
            entity = (child.text or "").strip()
        elif tag in (_SEGMENT, _SCENARIO):
            if next(child.iterancestors(_SEGMENT, _SCENARIO), None) is None:  # else read with the one around
                _add_dimensions(child, dimensions)
        else:
            dates[tag] = day = context_date((child.text or "")[:DATE_ALLOWED], ends=tag != _START)
            flags = flags if day else ("bad_date",)
    return Context(
        id=element.get("id") or "",
        entity=entity,
        start=dates.get(_START),
        end=dates.get(_END),
        instant=dates.get(_INSTANT),
        dimensions=dimensions,
        flags=flags,
    )


def read_unit(element: etree._Element) -> str:
    """`GBP`, `shares`, `USD/shares`: local names of the measures."""
    above: list[str] = []
    below: list[str] = []
    for measure in element.iter(XBRLI + "measure"):
        parent = measure.getparent()
        under = parent is not None and parent.tag == XBRLI + "unitDenominator"
        (below if under else above).append(local_name(measure.text or ""))
    return "*".join(above) + ("/" + "*".join(below) if below else "")


def local_name(qname: str) -> str:
    """`uk-bus:Consolidated` -> `Consolidated`."""
    return qname.strip().rpartition(":")[2]


def split_tag(element: etree._Element) -> tuple[str | None, str]:
    """Namespace and local name; a prefix that nothing declares is dropped."""
    namespace, _, name = str(element.tag).rpartition("}")
    return namespace[1:] or None, local_name(name)


def all_text(element: etree._Element) -> str:
    """The text of an element and all inside it, without comments and instructions."""
    if not len(element):
        return element.text or ""
    return etree.tostring(element, method="text", encoding="unicode", with_tail=False)


def single_blanks(text: str) -> str:
    """The text with one blank for each run of them, and none at its ends.

    Piece by piece: split in one go, a text of many short words takes thirty times its size.
    """
    if len(text) <= PIECE:
        return " ".join(text.split())
    pieces = (f"|{text[at : at + PIECE]}|" for at in range(0, len(text), PIECE))
    joined = "".join(" ".join(piece.split())[1:-1] for piece in pieces)
    while "  " in joined:  # only where pieces meet
        joined = joined.replace("  ", " ")
    return joined.strip()


def _add_dimensions(container: etree._Element, dimensions: dict[str, str]) -> None:
    """Segments older than XBRL Dimensions hold plain elements: they narrow the context just as well."""
    for member in container.iterchildren(etree.Element):
        dimension = local_name(member.get("dimension") or "")
        text = single_blanks(all_text(member))
        if member.tag == XBRLDI + "explicitMember":
            dimensions[dimension] = local_name(text)
        elif member.tag == XBRLDI + "typedMember":
            dimensions[dimension] = text
        else:
            dimensions[dimension or split_tag(member)[1]] = local_name(text)


_IDENTIFIER, _SEGMENT, _SCENARIO = XBRLI + "identifier", XBRLI + "segment", XBRLI + "scenario"
_START, _END, _INSTANT = XBRLI + "startDate", XBRLI + "endDate", XBRLI + "instant"
