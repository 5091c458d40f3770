"""What inline documents and instances share: contexts, units and names by their ids, and limits."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from lxml import etree

from services.ixbrl.contexts import CONTEXT, UNIT, read_context, read_unit
from services.ixbrl.limits import Allowance, check_nesting
from services.ixbrl.model import Context, Fact

XSI_NIL: Final = "{http://www.w3.org/2001/XMLSchema-instance}nil"


class Document:
    """A document being read."""

    def __init__(self, root: etree._Element) -> None:
        self.root = root
        self.namespaces = root.nsmap
        self.allowance = Allowance()
        self.facts_read = 0
        self.contexts: dict[str, Context] = {}
        self.units: dict[str, str] = {}

    def keep_context_or_unit(self, element: etree._Element) -> None:
        """The first of two with the same id stays: it is the one a browser would find."""
        element_id = element.get("id") or ""
        check_nesting(element.iterancestors(CONTEXT, UNIT))
        if element.tag == CONTEXT:
            if element_id not in self.contexts:
                self.contexts[element_id] = read_context(element)
        elif element_id not in self.units:
            self.units[element_id] = read_unit(element)

    def fact(
        self,
        element: etree._Element,
        name: str,
        namespace: str | None,
        value: Decimal | str | None,
        *,
        numeric: bool,
        nil: bool,
        flags: tuple[str, ...],
    ) -> Fact:
        context_id = element.get("contextRef")
        context = self.contexts.get(context_id) if context_id else None
        if context is None:
            flags = (*flags, "no_context")
        elif context.flags:
            flags = flags + context.flags
        unit_id = element.get("unitRef")
        element_id = element.get("id")
        self.facts_read += 1
        return Fact(
            name=name,
            namespace=namespace,
            local=name.rpartition(":")[2],
            value=value,
            numeric=numeric,
            nil=nil,
            context_id=context_id,
            context=context,
            unit=self.units.get(unit_id) if unit_id else None,
            decimals=element.get("decimals"),
            scale=element.get("scale"),
            format=element.get("format"),
            flags=flags,
            position=f"#{element_id}" if element_id else f"fact {self.facts_read}",
        )

    def counted(self, text: str) -> str:
        """Nesting can make a small page mean terabytes of text."""
        self.allowance.text(len(text))
        return text


def is_nil(element: etree._Element) -> bool:
    """`xsi:nil`, as the XML Schema instance namespace writes true."""
    return (element.get(XSI_NIL) or "").strip() in ("true", "1")
