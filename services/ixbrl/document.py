"""Bytes that claim to be a filing -> an element tree, or one sentence why not.

Filings are hostile by accident: a byte order mark before a latin-1 page, `encoding="utf-16"` on UTF-8
bytes, blank lines before the declaration, HTML entities without a document type. Content decides, never a
file's name. Entities are never expanded and nothing is ever fetched.
"""

from __future__ import annotations

import codecs
import html.entities
import re
from typing import Final

from lxml import etree

BYTES_ALLOWED: Final = 128 * 1024 * 1024
"""Large annual reports with embedded pictures reach 60 MB; a tree needs several times its text."""

_BOMS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARATION: Final = re.compile(r"\A<\?xml[^>]*\?>")
_DECLARED: Final = re.compile(rb"""\A<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']""")
_PLACEHOLDER: Final = b"ATTACHMENTPLACEHOLDER"
_DOCTYPE: Final = re.compile(rb"<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>", re.DOTALL)
_ENTITY: Final = re.compile(rb"&([A-Za-z][A-Za-z0-9]{1,31});")
_XML_ENTITIES: Final = frozenset((b"amp", b"lt", b"gt", b"quot", b"apos"))
_NOT_XML: Final = bytes(sorted({*range(0x20)} - {0x09, 0x0A, 0x0D}))
_ISO_LATIN: Final = frozenset(("iso8859-1", "ascii"))


class Unreadable(ValueError):
    """The bytes are not a filing that can be read. The message says why, as a sentence for people."""


def parse(data: bytes) -> etree._Element:
    """The root element of an XML or XHTML document. Raises `Unreadable` and nothing else."""
    if len(data) > BYTES_ALLOWED:
        raise Unreadable(f"The document is larger than the {BYTES_ALLOWED // 1024**2} MB allowed.")
    text = without_doctype(as_utf8(data))
    if _ENTITY.search(text):
        text = _ENTITY.sub(_spelled_out, text)
    parser = etree.XMLParser(
        encoding="utf-8",
        recover=True,
        huge_tree=True,
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
    )
    try:
        root = etree.fromstring(text, parser)
    except (etree.LxmlError, ValueError, AssertionError) as error:
        raise Unreadable(f"The document is not XML or XHTML ({error}).") from None
    if root is None:
        raise Unreadable("The document is not XML or XHTML: no element could be read.")
    if len(parser.error_log) and not _closes(root, text):
        raise Unreadable("The document is cut short: its end is missing.")
    return root


def as_utf8(data: bytes) -> bytes:
    """The document from its first `<`, in UTF-8 and free of characters that XML forbids."""
    text, by_mark = _without_mark(data)
    if by_mark not in (None, "utf-8"):
        return _encoded(text.decode(str(by_mark), "replace"))
    text = text.lstrip()
    if not text:
        raise Unreadable("The document is empty.")
    if text.startswith(_PLACEHOLDER):
        raise Unreadable("The document is a placeholder for an attachment; the filing itself is not in it.")
    by_shape = {b"<\0": "utf-16-le", b"\0<": "utf-16-be"}.get(text[:2])
    if by_shape:
        return _encoded(text.decode(by_shape, "replace"))
    if not text.startswith(b"<"):
        raise Unreadable("The document is neither XML nor XHTML: it does not begin with a tag.")
    return _decoded(text, marked=by_mark is not None)


def without_doctype(text: bytes) -> bytes:
    """The text without its document type, whose entities could grow without bound in attribute values.

    A blank takes its place, so that what stood around it can never join into another one.
    """
    if b"<!DOCTYPE" in text:
        text = _DOCTYPE.sub(b" ", text)
    if b"<!ENTITY" in text or b"<!DOCTYPE" in text:
        raise Unreadable("The document declares entities of its own, which is refused as unsafe.")
    return text


def _without_mark(data: bytes) -> tuple[bytes, str | None]:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :], encoding
    return data, None


def _decoded(text: bytes, *, marked: bool) -> bytes:
    """UTF-8 of text whose declaration is readable as ASCII, hence never UTF-16, whatever it declares."""
    for encoding in _candidates(text, marked=marked):
        try:
            decoded = text.decode(encoding)
        except (UnicodeDecodeError, LookupError):
            continue
        return text.translate(None, _NOT_XML) if encoding == "utf-8" else _encoded(decoded)
    return _encoded(text.decode("latin-1"))


def _candidates(text: bytes, *, marked: bool) -> list[str]:
    found = _DECLARED.match(text)
    declared = _canonical(found.group(1).decode("ascii")) if found else "utf-8"
    return ["utf-8", declared, "cp1252"] if marked else [declared, "utf-8", "cp1252"]


def _canonical(declared: str) -> str:
    """The codec's name; latin-1 and ASCII read as their superset cp1252, as every browser does."""
    try:
        codec = codecs.lookup(declared)
    except LookupError:
        return "utf-8"
    if codec.name.startswith(("utf-16", "utf-32", "utf-7")) or not codec._is_text_encoding:
        return "utf-8"
    return "cp1252" if codec.name in _ISO_LATIN else codec.name


def _encoded(text: str) -> bytes:
    text = _DECLARATION.sub("", text.lstrip("\ufeff \t\r\n"), count=1)
    return text.encode("utf-8", "replace").translate(None, _NOT_XML)


def _spelled_out(entity: re.Match[bytes]) -> bytes:
    """`&nbsp;` as the character: HTML's names mean nothing to an XML parser without a document type."""
    name = entity.group(1)
    if name in _XML_ENTITIES:
        return entity.group(0)
    character = html.entities.html5.get(name.decode("ascii") + ";")
    return character.encode() if character else b" "


def _closes(root: etree._Element, text: bytes) -> bool:
    """Pages with unclosed tags inside are only untidy; a page whose own end is missing has lost facts."""
    name = str(root.tag).rpartition("}")[2]
    tag = f"</{root.prefix}:{name}" if root.prefix else f"</{name}"
    return tag.encode() in text
