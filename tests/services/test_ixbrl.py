"""The reader: every fact of real filings, and promises about damaged and hostile ones."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from services.ixbrl import Fact, Filing, Unreadable, read
from services.ixbrl.dates import printed_date
from services.ixbrl.document import as_utf8
from services.ixbrl.figures import number_in_words, printed_number

SHORTENED = 120
"""Texts of this length and more are only beginnings in the expected file."""

ABSURD_YEAR = "0001-01-01"
MIDNIGHT = "ix_features/ixviewer_document1.html"
"""It says `<endDate>2019-01-01T00:00:00</endDate>`: by XBRL 2.1, 4.7.2 the end of 2018."""


def page(body: str = "", *, ns: str = "http://www.xbrl.org/2013/inlineXBRL", prefix: str = "ix") -> bytes:
    """An inline document with contexts `c` (instant), `d` (duration) and a unit `GBP`."""
    return f"""<?xml version="1.0" encoding="UTF-8"?>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:{prefix}="{ns}" xmlns:t="http://example.test/t"
 xmlns:xbrli="http://www.xbrl.org/2003/instance" xmlns:xbrldi="http://xbrl.org/2006/xbrldi"
 xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:iso4217="http://www.xbrl.org/2003/iso4217">
<body><div><{prefix}:header><{prefix}:resources>
<xbrli:context id="c"><xbrli:entity><xbrli:identifier scheme="s">1</xbrli:identifier></xbrli:entity>
<xbrli:period><xbrli:instant>2024-12-31</xbrli:instant></xbrli:period></xbrli:context>
<xbrli:context id="d"><xbrli:entity><xbrli:identifier scheme="s">1</xbrli:identifier><xbrli:segment>
<xbrldi:explicitMember dimension="t:ScopeDimension">t:Consolidated</xbrldi:explicitMember>
<xbrldi:typedMember dimension="t:PlaceDimension"><t:place> York </t:place></xbrldi:typedMember>
</xbrli:segment></xbrli:entity><xbrli:period><xbrli:startDate>2024-01-01</xbrli:startDate>
<xbrli:endDate>2024-12-31</xbrli:endDate></xbrli:period></xbrli:context>
<xbrli:unit id="GBP"><xbrli:measure>iso4217:GBP</xbrli:measure></xbrli:unit>
</{prefix}:resources></{prefix}:header></div>{body}</body></html>""".encode()


def number(attributes: str, text: str) -> str:
    return f'<ix:nonFraction name="t:N" contextRef="c" unitRef="GBP" {attributes}>{text}</ix:nonFraction>'


def text(content: str, attributes: str = "") -> str:
    return f'<ix:nonNumeric name="t:T" contextRef="d" {attributes}>{content}</ix:nonNumeric>'


def only(data: bytes) -> Fact:
    (fact,) = read(data).facts
    return fact


def raw(corpus: Path, name: str) -> bytes:
    path = corpus / name
    return path.read_bytes() if path.exists() else gzip.decompress(Path(f"{path}.gz").read_bytes())


def expected_facts(corpus: Path) -> dict[str, list[list[Any]]]:
    loaded = json.loads(gzip.decompress((corpus / "expected/all_facts.json.gz").read_bytes()))
    files: dict[str, list[list[Any]]] = loaded["files"]
    return files


def differences(file: str, fact: Fact, expected: list[Any]) -> Iterator[str]:
    name, kind, value, nil, start, end, dimensions, unit = expected
    absurd = end == ABSURD_YEAR and "bad_date" in fact.flags
    if file == MIDNIGHT and end == "2019-01-01":
        end = "2018-12-31"
    wanted = {
        "name": name,
        "numeric": kind == "n",
        "value": Decimal(value) if kind == "n" and value is not None else value,
        "nil": nil,
        "start": None if absurd or start is None else date.fromisoformat(start),
        "end": None if absurd or end is None else date.fromisoformat(end),
        "dimensions": dimensions,
        "unit": unit,
    }
    for field, right in wanted.items():
        ours = getattr(fact, field)
        if field == "value" and isinstance(right, str) and len(right) >= SHORTENED:
            ours = ours[: len(right)]
        if ours != right:
            yield f"{name} {field}: {ours!r} instead of {right!r}"


def test_every_fact_of_every_real_filing_is_right(corpus: Path) -> None:
    wrong: list[str] = []
    seen = 0
    for name, expected in expected_facts(corpus).items():
        facts = read(raw(corpus, name)).facts
        if len(facts) != len(expected):
            wrong.append(f"{name}: {len(facts)} facts instead of {len(expected)}")
        for fact, right in zip(facts, expected, strict=False):
            seen += 1
            wrong += [f"{name}: {difference}" for difference in differences(name, fact, right)]
    assert not wrong, f"{len(wrong)} cells of {seen} facts are wrong:\n" + "\n".join(wrong[:20])
    assert seen == 17_393


@pytest.mark.parametrize(
    "name",
    [
        "synthetic_transforms.html",
        "synthetic_transforms_prefix_i.html",
        "synthetic_transforms_bom_latin1.html",
    ],
)
def test_transforms_are_right_whatever_prefix_and_encoding(corpus: Path, name: str) -> None:
    expected = json.loads((corpus / "expected/synthetic_transforms.json").read_text())
    facts = read((corpus / "ix_features" / name).read_bytes()).facts
    wanted = {key: None if value is None else Decimal(value) for key, value in expected.items()}
    assert {fact.local: fact.value for fact in facts} == wanted


def test_every_corrupt_file_gets_a_cause(corpus: Path) -> None:
    for path in sorted((corpus / "uk_corrupt").iterdir()):
        with pytest.raises(Unreadable, match=r"\.$"):
            read(path.read_bytes())


@pytest.mark.parametrize("year", ["2008", "2013"])
@pytest.mark.parametrize("prefix", ["ix", "i", "inline"])
def test_the_namespace_counts_and_never_the_prefix(year: str, prefix: str) -> None:
    uri = "http://www.xbrl.org/2008/inlineXBRL" if year == "2008" else "http://www.xbrl.org/2013/inlineXBRL"
    body = f'<{prefix}:nonFraction name="t:N" contextRef="c" unitRef="GBP">12</{prefix}:nonFraction>'
    fact = only(page(body, ns=uri, prefix=prefix))
    assert (fact.value, fact.unit, fact.end) == (Decimal(12), "GBP", date(2024, 12, 31))
    assert fact.namespace == "http://example.test/t"


def test_dimensions_come_from_elements_with_explicit_and_typed_members() -> None:
    fact = only(page(text("x")))
    assert fact.dimensions == {"ScopeDimension": "Consolidated", "PlaceDimension": "York"}
    assert (fact.start, fact.end) == (date(2024, 1, 1), date(2024, 12, 31))


@pytest.mark.parametrize(
    ("attributes", "shown", "value"),
    [
        ('sign="-"', "500", "-500"),
        ('sign="-" format="ixt:numdotdecimal"', "(500)", "-500"),
        ('sign="-" format="ixt:numdotdecimal"', "-500", "-500"),
        ('format="ixt4:num-dot-decimal" scale="3"', "1,234.5", "1234500"),
        ('format="ixt4:num_comma_decimal"', "1.234,56", "1234.56"),
        ('format="ixt:numdotdecimal"', "1\u00a0234", "1234"),
        ('format="ixt:zerodash"', "\u2013", "0"),
        ('sign="-" format="ixt:zerodash"', "-", "0"),
        ('format="ixt-sec:numwordsen"', "Twenty-Five", "25"),
        ('format="x:num-unit-decimal"', "1,005 pounds 5 pence", "1005.05"),
        ('format="ixt:numdotdecimal"', "1<span>,2</span>34", "1234"),
        ('format="ixt:numdotdecimal"', "1<!-- 9 -->,234", "1234"),
        ('format="ixt:numdotdecimal"', "1<ix:exclude>[note <b>3</b>]</ix:exclude>,2<i>3</i>4", "1234"),
        ("", "1234567890123456789012345678901234567890", "1234567890123456789012345678901234567890"),
        ('scale="6"', "1234567890123456789012345678.9", "1234567890123456789012345678900000"),
    ],
)
def test_numbers_are_exact(attributes: str, shown: str, value: str) -> None:
    fact = only(page(number(attributes, shown)))
    assert fact.value == Decimal(value)
    assert str(fact.value)[0] != "-" or value[0] == "-"


@pytest.mark.parametrize(
    ("attributes", "shown", "flag"),
    [
        ("", "", "empty"),
        ('format="ixt:numdotdecimal"', "n/a", "not_a_number"),
        ('scale="999999999"', "1", "not_a_number"),
        ('scale="x"', "1", "not_a_number"),
        ('format="ixt:numcommadecimal"', "1.2.3,4,5", "not_a_number"),
        ("", "9" * 5000, "not_a_number"),
    ],
)
def test_what_is_no_number_is_null_and_flagged(attributes: str, shown: str, flag: str) -> None:
    fact = only(page(number(attributes, shown)))
    assert fact.value is None
    assert flag in fact.flags


def test_nil_is_null_and_never_zero() -> None:
    fact = only(page(number('xsi:nil="true"', "")))
    assert (fact.value, fact.nil, fact.flags) == (None, True, ())


def test_an_unknown_transform_flags_its_fact_and_the_file_goes_on() -> None:
    facts = read(page(number('format="ixt2:numdotdecimalblahblah"', "2,909") + number("", "1"))).facts
    assert [(fact.value, fact.flags) for fact in facts] == [
        (Decimal(2909), ("unknown_transform",)),
        (Decimal(1), ()),
    ]


def test_an_unknown_transform_of_a_text_flags_it_too() -> None:
    assert only(page(text("5 mars", 'format="ixt:date-day-month"'))).flags == ()
    fact = only(page(text("5 mars", 'format="ixt:moonphase"')))
    assert (fact.value, fact.flags) == ("5 mars", ("unknown_transform",))


def test_a_minus_in_the_text_counts_only_without_a_sign_and_is_flagged() -> None:
    assert printed_number("(500)", "ixt:numdotdecimal", None, None) == (Decimal(-500), ("lenient_number",))


def test_a_parents_text_includes_the_nested_facts_text() -> None:
    facts = read(page(text("The charge was " + number("", "7") + " pounds."))).facts
    assert [fact.value for fact in facts] == ["The charge was 7 pounds.", Decimal(7)]


def test_continuations_are_joined_in_order() -> None:
    body = text("One", 'continuedAt="a"') + (
        '<ix:continuation id="b"> three</ix:continuation>'
        '<ix:continuation id="a" continuedAt="b"> two</ix:continuation>'
    )
    assert only(page(body)).value == "One two three"


@pytest.mark.parametrize(
    ("chain", "flag"),
    [
        ('<ix:continuation id="a" continuedAt="a">x</ix:continuation>', "continuation_loop"),
        ('<ix:continuation id="a" continuedAt="gone">x</ix:continuation>', "continuation_missing"),
    ],
)
def test_continuations_that_lead_back_or_nowhere_end_with_a_flag(chain: str, flag: str) -> None:
    fact = only(page(text("One ", 'continuedAt="a"') + chain))
    assert (fact.value, fact.flags) == ("One x", (flag,))


def test_a_fact_says_where_it_stands() -> None:
    facts = read(page(number("", "1") + number('id="f7"', "2") + number("", "3"))).facts
    assert [fact.position for fact in facts] == ["fact 1", "#f7", "fact 3"]


def test_a_continuation_that_many_facts_share_is_read_for_each() -> None:
    shared = '<ix:continuation id="a"> and more</ix:continuation>'
    facts = read(page(text("one", 'continuedAt="a"') * 3 + shared)).facts
    assert [fact.value for fact in facts] == ["one and more"] * 3


def test_a_missing_context_is_flagged() -> None:
    fact = only(page(number("", "1").replace('contextRef="c"', 'contextRef="gone"')))
    assert (fact.value, fact.end, fact.dimensions, fact.flags) == (Decimal(1), None, None, ("no_context",))


def test_the_year_0001_is_null_and_flagged() -> None:
    fact = only(page(number("", "1")).replace(b"<xbrli:instant>2024", b"<xbrli:instant>0001"))
    assert (fact.end, fact.flags) == (None, ("bad_date",))


def test_midnight_ends_the_day_before() -> None:
    fact = only(
        page(number("", "1")).replace(b"2024-12-31</xbrli:instant>", b"2025-01-01T00:00:00</xbrli:instant>")
    )
    assert fact.end == date(2024, 12, 31)


@pytest.mark.parametrize(
    "encoded",
    [
        lambda source: b"\r\n" * 6 + source.encode(),
        lambda source: b"\xef\xbb\xbf" + source.encode(),
        lambda source: b"\xef\xbb\xbf" + source.replace("UTF-8", "ISO-8859-1").encode("latin-1"),
        lambda source: source.replace("UTF-8", "ISO-8859-1").encode("latin-1"),
        lambda source: source.encode("cp1252"),
        lambda source: source.replace("UTF-8", "utf-16").encode(),
        lambda source: source.replace("UTF-8", "utf-16").encode("utf-16"),
        lambda source: source.replace("UTF-8", "utf-16").encode("utf-16-le"),
        lambda source: source.replace("UTF-8", "utf-16").encode("utf-16-be"),
        lambda source: source.replace("UTF-8", "nonsense-9").encode(),
        lambda source: source.replace('<?xml version="1.0" encoding="UTF-8"?>', "<!DOCTYPE html>").encode(),
        lambda source: source.replace("£", "&pound;").encode(),
        lambda source: source.replace("£", "\x00\x01£").encode(),
    ],
)
def test_real_encodings_are_recognised(encoded: Any) -> None:
    assert only(encoded(page(text("Café £5")).decode())).value == "Café £5"


@pytest.mark.parametrize("tail", [b"", b"\n"])
def test_utf16_declared_in_readable_letters_is_a_slip(tail: bytes) -> None:
    source = page(text("Plain")).replace(b"UTF-8", b"UTF-16") + tail
    assert only(source).value == "Plain"


def test_a_page_with_unclosed_tags_inside_is_read() -> None:
    assert only(page("<p>one<br>two" + number("", "3"))).value == Decimal(3)


@pytest.mark.parametrize("cut", [200, 900, -9])
def test_a_page_cut_short_is_refused_rather_than_half_read(cut: int) -> None:
    with pytest.raises(Unreadable):
        read(page(number("", "3"))[:cut])


def test_entities_never_grow_and_nothing_is_fetched() -> None:
    laughs = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
    doctype = f'<!DOCTYPE html [<!ENTITY e0 "ha"><!ENTITY file SYSTEM "file:///etc/passwd">{laughs}]>'
    hostile = page(text("&e11;&file;", 'id="&e11;"')).decode().replace("<html", doctype + "<html", 1)
    assert only(hostile.encode()).value == ""


def test_a_doctype_that_hides_another_is_refused() -> None:
    hostile = '<!DOCTYPE a [<!ENTITY x "]>"><!ENTITY y "z"> ]><html>&y;</html>'
    with pytest.raises(Unreadable, match="unsafe"):
        read(hostile.encode())


def test_instances_are_read_with_tuples_and_unprefixed_facts() -> None:
    source = """<xbrl xmlns="http://www.xbrl.org/2003/instance" xmlns:o="http://old.test/">
    <context id="c"><entity><identifier scheme="s">1</identifier>
    <segment><o:Branch>North</o:Branch></segment></entity>
    <period><instant>2020-12-31</instant></period></context>
    <unit id="u"><divide><unitNumerator><measure>iso:GBP</measure></unitNumerator>
    <unitDenominator><measure>shares</measure></unitDenominator></divide></unit>
    <o:Shares><Par xmlns="http://old.test/" contextRef="c" unitRef="u"> 1.5E1 </Par></o:Shares></xbrl>"""
    fact = only(source.encode())
    assert (fact.name, fact.namespace, fact.value) == ("Par", "http://old.test/", Decimal(15))
    assert (fact.unit, fact.dimensions) == ("GBP/shares", {"Branch": "North"})


def test_a_document_without_facts_is_a_filing_without_facts() -> None:
    assert read(b"<html><body>Annual report</body></html>") == Filing("ixbrl", [], {})


@pytest.mark.parametrize(
    ("shown", "format_name", "meant"),
    [
        ("31 October 2017", "ixt:datedaymonthyearen", date(2017, 10, 31)),
        ("30th April 2021", None, date(2021, 4, 30)),
        ("31.3.19", "ixt2:datedaymonthyear", date(2019, 3, 31)),
        ("1/2/2020", "ixt:dateslasheu", date(2020, 2, 1)),
        ("1/2/2020", "ixt:dateslashus", date(2020, 1, 2)),
        ("March 29, 2025", "ixt:date-monthname-day-year-en", date(2025, 3, 29)),
        ("2020-12-31", None, date(2020, 12, 31)),
        ("31 Rhagfyr 2020", "ixt:date-day-monthname-year-cy", date(2020, 12, 31)),
        ("31 February 2020", None, None),
        ("0001-01-01", None, None),
        ("year end", None, None),
    ],
)
def test_printed_dates_mean_what_people_mean(shown: str, format_name: str | None, meant: date | None) -> None:
    assert printed_date(shown, format_name) == meant


@given(st.integers(0, 10**12 - 1))
@settings(max_examples=60, deadline=None)
def test_words_count_as_numbers_do(value: int) -> None:
    assert number_in_words(in_words(value)) == value


ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
)
TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety"


def in_words(value: int) -> str:
    ones = ONES.split()
    tens = TENS.split()
    for size, word in ((10**9, "billion"), (10**6, "million"), (1000, "thousand"), (100, "hundred")):
        if value >= size:
            rest = value % size
            return f"{in_words(value // size)} {word}" + (f" and {in_words(rest)}" if rest else "")
    if value < 20:
        return ones[value]
    return tens[value // 10] + (f"-{ones[value % 10]}" if value % 10 else "")


SAMPLE = page(
    text("One", 'continuedAt="a"')
    + '<ix:continuation id="a" continuedAt="a">x</ix:continuation>'
    + number('format="ixt:numdotdecimal" scale="3"', "1<ix:exclude>n</ix:exclude>,234")
)


@given(data=st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_damaged_documents_raise_unreadable_and_nothing_else(data: st.DataObject) -> None:
    damaged = bytearray(SAMPLE)
    for _ in range(data.draw(st.integers(1, 8))):
        at = data.draw(st.integers(0, len(damaged) - 1)) if damaged else 0
        length = data.draw(st.integers(0, 40))
        damaged[at : at + length] = data.draw(st.binary(max_size=12))
    read_or_refuse(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
    read_or_refuse(bytes(damaged))


@given(st.binary(max_size=300))
@example(b"\xff\xfe<")
@example(b"\xff\xfe\x00\x00<")
@example(b"<?xml version='1.0' encoding='base64'?><a/>")
@example(b"<?xml version='1.0' encoding='idna'?><a>\xff</a>")
@example(b"<" * 300)
@settings(max_examples=200, deadline=None)
def test_any_bytes_raise_unreadable_and_nothing_else(data: bytes) -> None:
    read_or_refuse(data)
    read_or_refuse(b"<" + data)


def test_elements_as_deep_as_a_mine_are_no_crash() -> None:
    read_or_refuse(page("<b>" * 5_000 + number("", "1") + "</b>" * 5_000))


def read_or_refuse(data: bytes) -> None:
    try:
        facts = read(data).facts
    except Unreadable:
        return
    for fact in facts:
        assert fact.value is None or isinstance(fact.value, Decimal if fact.numeric else str)


def test_utf8_pages_are_not_copied_through_text() -> None:
    source = "<?xml version='1.0' encoding='utf-8'?><a>é</a>".encode()
    assert as_utf8(b"\n" + source) == source
