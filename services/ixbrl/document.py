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

from services.ixbrl.limits import BYTES_ALLOWED, Unreadable, check_tree

CHUNK_BYTES: Final = 1024 * 1024
_BOMS: Final = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_DECLARATION: Final = re.compile(rb"\A<\?xml[^>]*\?>")
_DECLARED: Final = re.compile(rb"""\A<\?xml[^>]{0,200}?encoding\s*=\s*["']([A-Za-z0-9._:-]{1,40})["']""")
_PLACEHOLDER: Final = b"ATTACHMENTPLACEHOLDER"
_DOCTYPE: Final = re.compile(rb"<!DOCTYPE[^\[>]*(?:\[.*?\]\s*)?>", re.DOTALL)
_ENTITY: Final = re.compile(rb"&([A-Za-z][A-Za-z0-9]{1,31});")
_XML_ENTITIES: Final = frozenset((b"amp", b"lt", b"gt", b"quot", b"apos"))
_ISO_LATIN: Final = frozenset(("iso8859-1", "ascii"))
_SLOW: Final = frozenset(("idna", "punycode"))
_EMBEDDED: Final = re.compile(rb"(data:[a-z]+/[A-Za-z0-9.+-]+;base64,)[A-Za-z0-9+/=\r\n]{64,}")


def parse(data: bytes) -> etree._Element:
    """The root element of an XML or XHTML document. Raises `Unreadable` and nothing else."""
    if len(data) > BYTES_ALLOWED:
        raise Unreadable(f"The document is larger than the {BYTES_ALLOWED // 1024**2} MB allowed.")
    text = without_doctype(without_pictures(as_utf8(data)))
    check_tree(text)
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
    """The document from its first `<`, in UTF-8."""
    text, by_mark = _without_mark(data)
    if by_mark not in (None, "utf-8"):
        return _transcoded(text, str(by_mark), "replace")
    text = text.lstrip()
    if not text:
        raise Unreadable("The document is empty.")
    if text.startswith(_PLACEHOLDER):
        raise Unreadable("The document is a placeholder for an attachment; the filing itself is not in it.")
    by_shape = {b"<\0": "utf-16-le", b"\0<": "utf-16-be"}.get(text[:2])
    if by_shape:
        return _transcoded(text, by_shape, "replace")
    if not text.startswith(b"<"):
        raise Unreadable("The document is neither XML nor XHTML: it does not begin with a tag.")
    return _decoded(text, marked=by_mark is not None)


def without_pictures(text: bytes) -> bytes:
    """The text without embedded pictures and fonts: most of a large annual report, and never a fact."""
    return _EMBEDDED.sub(rb"\1", text) if b";base64," in text else text


def without_doctype(text: bytes) -> bytes:
    """The text without its document type, whose entities could grow without bound in attribute values.

    One is taken out, and only once: what then still declares something is hostile.
    """
    found = _DOCTYPE.match(text, text.find(b"<!DOCTYPE")) if b"<!DOCTYPE" in text else None
    if found:
        text = text[: found.start()] + b" " + text[found.end() :]
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
            return _transcoded(text, encoding)
        except (ValueError, LookupError):
            continue
    return _transcoded(text, "latin-1")


def _transcoded(text: bytes, encoding: str, errors: str = "strict") -> bytes:
    """The text in UTF-8; piece by piece, since one rare character makes a decoded text four times as long."""
    decoder = codecs.getincrementaldecoder(encoding)(errors)
    pieces = (
        decoder.decode(text[at : at + CHUNK_BYTES], at + CHUNK_BYTES >= len(text))
        for at in range(0, len(text), CHUNK_BYTES)
    )
    if encoding == "utf-8":
        for _ in pieces:
            pass
        return text
    return _without_declaration(b"".join(piece.encode("utf-8", "replace") for piece in pieces))


def _candidates(text: bytes, *, marked: bool) -> list[str]:
    found = _DECLARED.match(text)
    declared = _canonical(found.group(1).decode("ascii")) if found else "utf-8"
    return ["utf-8", declared, "cp1252"] if marked else [declared, "utf-8", "cp1252"]


def _canonical(declared: str) -> str:
    """The codec's name; latin-1 and ASCII read as their superset cp1252, as every browser does."""
    try:
        codec = codecs.lookup(declared)
        b" ".decode(codec.name)  # base64 and its like are codecs and no encodings
    except (LookupError, ValueError):
        return "utf-8"
    if codec.name.startswith(("utf-16", "utf-32")) or codec.name in _SLOW:
        return "utf-8"
    return "cp1252" if codec.name in _ISO_LATIN else codec.name


def _without_declaration(text: bytes) -> bytes:
    return _DECLARATION.sub(b"", text.removeprefix(codecs.BOM_UTF8).lstrip(), count=1)


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
