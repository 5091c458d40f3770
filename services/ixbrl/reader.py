"""One pass over a document: contexts, units, continuations and facts in the order of the document."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from lxml import etree

from services.ixbrl.contexts import (
    CONTEXT,
    UNIT,
    XBRLI,
    all_text,
    single_blanks,
    split_tag,
)
from services.ixbrl.document import parse
from services.ixbrl.figures import EXACT, plain_number, printed_number, transform_name
from services.ixbrl.limits import Unreadable, check_nesting
from services.ixbrl.model import Fact, Filing
from services.ixbrl.parts import Document, is_nil

INLINE: Final = ("{http://www.xbrl.org/2013/inlineXBRL}", "{http://www.xbrl.org/2008/inlineXBRL}")
INSTANCE: Final = XBRLI + "xbrl"
_TEXT_FORMATS: Final = (
    *("date", "cal", "boolean", "fixed", "nocontent", "dur", "boolballotbox", "yesno", "num", "zerodash"),
    *("exchname", "stateprovname", "countryname", "edgarprovcountry", "entityfilercategory"),
)


def _tags(local: str) -> frozenset[str]:
    return frozenset(namespace + local for namespace in INLINE)


_NUMBERS, _TEXTS, _FRACTIONS = _tags("nonFraction"), _tags("nonNumeric"), _tags("fraction")
_CONTINUATIONS, _EXCLUDES = _tags("continuation"), _tags("exclude")
_NUMERATORS, _DENOMINATORS = _tags("numerator"), _tags("denominator")
_FACTS: Final = _NUMBERS | _TEXTS | _FRACTIONS
_INTERESTING: Final = (*_FACTS, *_CONTINUATIONS, *_EXCLUDES, CONTEXT, UNIT)


def read(data: bytes) -> Filing:
    """Every fact of an iXBRL document (2008, 2013) or an XBRL 2.1 instance, in the document's order.

    Raises `Unreadable` and nothing else. A fact that cannot be understood is kept, with a flag; a document
    without any fact is a `Filing` without facts.
    """
    root = parse(data)
    instance = root if root.tag == INSTANCE else next(root.iter(INSTANCE), None)
    try:
        return _Instance(instance).filing() if instance is not None else _Inline(root).filing()
    except (etree.LxmlError, RecursionError, UnicodeError) as error:
        raise Unreadable(f"The document's elements could not be read ({error}).") from None


class _Inline(Document):
    def __init__(self, root: etree._Element) -> None:
        super().__init__(root)
        self.continuations: dict[str, etree._Element] = {}
        self.continuation_texts: dict[str, str] = {}
        self.has_excludes = False
        self.elements: list[etree._Element] = []

    def filing(self) -> Filing:
        for element in self.root.iter(*_INTERESTING):
            tag = element.tag
            self.allowance.tagged()
            if tag in _FACTS:
                self.elements.append(element)
            elif tag in (CONTEXT, UNIT):
                self.keep_context_or_unit(element)
            elif tag in _EXCLUDES:
                self.has_excludes = True
            else:
                self.continuations.setdefault(element.get("id") or "", element)
        return Filing("ixbrl", [self.read_fact(element) for element in self.elements], self.contexts)

    def read_fact(self, element: etree._Element) -> Fact:
        name = (element.get("name") or "").strip()
        nil = is_nil(element)
        tag = element.tag
        value: Decimal | str | None = None
        flags: tuple[str, ...] = ()
        if nil:
            pass
        elif tag in _TEXTS:
            value, flags = self.text_value(element)
        elif tag in _NUMBERS:
            text = self.text_of(element)
            value, flags = printed_number(
                text, element.get("format"), element.get("scale"), element.get("sign")
            )
        else:
            value, flags = self.fraction(element)
        namespace = self.namespace(element, name.partition(":")[0] if ":" in name else None)
        return self.fact(element, name, namespace, value, numeric=tag not in _TEXTS, nil=nil, flags=flags)

    def namespace(self, element: etree._Element, prefix: str | None) -> str | None:
        """`nsmap` of an element walks up to the root, so the root's is asked first."""
        found = self.namespaces.get(prefix)
        if found is not None:
            return found
        nearer = element.nsmap
        self.allowance.names(len(nearer))
        return nearer.get(prefix)

    def text_value(self, element: etree._Element) -> tuple[str, tuple[str, ...]]:
        text = self.text_of(element)
        flags: tuple[str, ...] = ()
        if element.get("continuedAt"):
            more, flags = self.continued(element)
            text = text + more
        format_name = element.get("format")
        if format_name and not transform_name(format_name).startswith(_TEXT_FORMATS):
            flags = (*flags, "unknown_transform")
        return single_blanks(text), flags

    def continued(self, element: etree._Element) -> tuple[str, tuple[str, ...]]:
        """The texts of the chain that starts at an element; chains in real filings can lead back."""
        parts: list[str] = []
        seen: set[str] = set()
        next_id = element.get("continuedAt")
        while next_id:
            if next_id in seen:
                return "".join(parts), ("continuation_loop",)
            seen.add(next_id)
            continuation = self.continuations.get(next_id)
            if continuation is None:
                return "".join(parts), ("continuation_missing",)
            parts.append(self.continuation_text(next_id, continuation))
            next_id = continuation.get("continuedAt")
        return "".join(parts), ()

    def continuation_text(self, continuation_id: str, continuation: etree._Element) -> str:
        """Read once, however many chains lead here."""
        text = self.continuation_texts.get(continuation_id)
        if text is None:
            text = self.continuation_texts[continuation_id] = self.text_of(continuation)
        else:
            self.counted(text)
        return text

    def text_of(self, element: etree._Element) -> str:
        """The text of an element and all inside it, without `ix:exclude`, comments and instructions."""
        if not len(element):
            return self.counted(element.text or "")
        check_nesting(element.iterancestors(*_FACTS, *_CONTINUATIONS))
        if not self.has_excludes or next(element.iter(*_EXCLUDES), None) is None:
            return self.counted(all_text(element))
        parts: list[str] = []
        skipped: etree._Element | None = None
        for event, node in etree.iterwalk(element, events=("start", "end", "comment", "pi")):
            starts = event == "start"
            if skipped is None and starts and node.tag in _EXCLUDES:
                skipped = node
            if skipped is None and starts:
                parts.append(node.text or "")
            if not starts and node is not element and skipped in (None, node):
                parts.append(node.tail or "")
                skipped = None
        return self.counted("".join(parts))

    def fraction(self, element: etree._Element) -> tuple[Decimal | None, tuple[str, ...]]:
        parts = []
        for tags in (_NUMERATORS, _DENOMINATORS):
            part = next(element.iter(*tags), None)
            if part is None:
                return None, ("not_a_number",)
            value, flags = printed_number(
                self.text_of(part), part.get("format"), part.get("scale"), part.get("sign")
            )
            if value is None:
                return None, flags
            parts.append(value)
        above, below = parts
        return (EXACT.divide(above, below), ()) if below else (None, ("not_a_number",))


class _Instance(Document):
    """Facts are whatever has a `contextRef`, in tuples too; a unit makes them numbers."""

    def filing(self) -> Filing:
        elements: list[etree._Element] = []
        for element in self.root.iter(etree.Element):
            if element.tag in (CONTEXT, UNIT):
                self.keep_context_or_unit(element)
            elif element.get("contextRef") is not None:
                elements.append(element)
            else:
                continue
            self.allowance.tagged()
        return Filing("xbrl", [self.read_fact(element) for element in elements], self.contexts)

    def read_fact(self, element: etree._Element) -> Fact:
        namespace, local = split_tag(element)
        name = f"{element.prefix}:{local}" if element.prefix else local
        numeric = element.get("unitRef") is not None
        nil = is_nil(element)
        value: Decimal | str | None = None
        flags: tuple[str, ...] = ()
        if not nil:
            if len(element):
                check_nesting(above for above in element.iterancestors() if above.get("contextRef"))
            text = self.counted(all_text(element))
            value, flags = plain_number(text) if numeric else (text.strip(), ())
        return self.fact(element, name, namespace, value, numeric=numeric, nil=nil, flags=flags)
