"""Hostile and damaged filings: refused or read, never a crash, a hang or a process that grows."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.ixbrl import Unreadable, read
from services.ixbrl import limits as ixbrl_limits
from services.ixbrl.contexts import PIECE, single_blanks
from services.ixbrl.document import without_pictures
from services.uk_accounts import latest, normalise

MEMORY_MB = 300
SECONDS = 180
"""For busy machines: on an idle core the slowest of them takes 4 s."""

HEAD = (
    '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:ix="http://www.xbrl.org/2013/inlineXBRL"'
    ' xmlns:x="http://www.xbrl.org/2003/instance" xmlns:d="http://xbrl.org/2006/xbrldi"><body>'
)
TAIL = "</body></html>"
OPEN_FACT, CLOSE_FACT = '<ix:nonNumeric name="a:b">', "</ix:nonNumeric>"
OPEN_CONTEXT = '<x:context id="q"><x:scenario><d:typedMember dimension="a:b">'
CLOSE_CONTEXT = "</d:typedMember></x:scenario></x:context>"

Parts = Sequence[tuple[str, int]]
"""Texts, each so many times over; `%d` in a text counts."""

HOSTILE: dict[str, Parts] = {
    "five million elements": [("<a/>", 5_000_000)],
    "as many as are allowed": [("<a/>x", 800_000)],
    "elements and as many errors": [('<a b="" b=""/>', 1_000_000)],
    "one element of many attributes": [("<a", 1), (' b%d=""', 300_000), ("/>", 1)],
    "an attribute as long as a book": [('<a b="', 1), ("x", 40_000_000), ('"/>', 1)],
    "pictures": [('<img src="data:image/png;base64,', 1), ("QUJD", 15_000_000), ('"/>', 1)],
    "text with one rare character": [(OPEN_FACT + "\U0001f600", 1), ("a", 30_000_000), (CLOSE_FACT, 1)],
    "short words": [(OPEN_FACT, 1), ("ab ", 5_000_000), (CLOSE_FACT, 1)],
    "words and references": [("&nbsp;", 3_000_000)],
    "facts in facts around a crowd": [(OPEN_FACT, 2_000), ("<a/>", 500_000), (CLOSE_FACT, 2_000)],
    "nearly too deep around a crowd": [
        (OPEN_FACT, 18),
        ("<ix:exclude>1</ix:exclude>", 1),
        ("<a/>", 200_000),
        (CLOSE_FACT, 18),
    ],
    "contexts in contexts around a crowd": [(OPEN_CONTEXT, 600), ("<a/>", 500_000), (CLOSE_CONTEXT, 600)],
    "facts without end": [('<ix:nonNumeric name="a:b"/>', 350_000)],
    "contexts without end": [('<x:context id="c%d"/>', 300_000)],
    "members without end": [
        ('<x:context id="c"><x:scenario>', 1),
        ('<d:explicitMember dimension="a:%d">b:%d</d:explicitMember>', 200_000),
        ("</x:scenario></x:context>", 1),
    ],
    "long chains that many facts share": [
        ('<ix:continuation id="c%d" continuedAt="c%d1"/>', 20_000),
        *[(f'<ix:continuation id="e{n}" continuedAt="e{n + 1}"/>', 1) for n in range(5_000)],
        ('<ix:nonNumeric name="a:b" continuedAt="e0"/>', 20_000),
    ],
    "a crowd that many facts share": [
        ('<ix:continuation id="c">', 1),
        ("<a/>", 500_000),
        ("</ix:continuation>", 1),
        ('<ix:nonNumeric name="a:b" continuedAt="c"/>', 20_000),
    ],
    "namespaces without end": [
        ("<div", 1),
        (' xmlns:n%d="u%d"', 3_000),
        (">", 1),
        ('<ix:nonNumeric name="n1:b"/>', 30_000),
        ("</div>", 1),
    ],
    "an end that never comes": [("<b>", 1_000_000)],
}

INSTANCE_HEAD = (
    '<x:xbrl xmlns:x="http://www.xbrl.org/2003/instance" xmlns:d="http://xbrl.org/2006/xbrldi"'
    ' xmlns:g="http://gaap.test/">'
)
INSTANCE_TAIL = "</x:xbrl>"
HOSTILE_INSTANCES: dict[str, Parts] = {
    "elements": [("<a/>", 5_000_000)],
    "facts without end": [('<g:Equity contextRef="c">1</g:Equity>', 200_000)],
    "a text as long as a book": [('<g:Equity contextRef="c">', 1), ("a b ", 6_000_000), ("</g:Equity>", 1)],
    "contexts in contexts around a crowd": [(OPEN_CONTEXT, 600), ("<a/>", 500_000), (CLOSE_CONTEXT, 600)],
    "measures without end": [
        ('<x:unit id="u">', 1),
        ("<x:measure>a:b</x:measure>", 250_000),
        ("</x:unit>", 1),
    ],
    "one fact, thousands of times in disagreement": [
        (
            '<x:context id="c"><x:entity/><x:period><x:instant>2020-12-31</x:instant></x:period></x:context>',
            1,
        ),
        ('<g:Equity contextRef="c" unitRef="u" decimals="0">%d</g:Equity>', 50_000),
    ],
}
PAGES = {f"a page: {name}": [(HEAD, 1), *parts, (TAIL, 1)] for name, parts in HOSTILE.items()} | {
    f"an instance: {name}": [(INSTANCE_HEAD, 1), *parts, (INSTANCE_TAIL, 1)]
    for name, parts in HOSTILE_INSTANCES.items()
}

WATCHED = """
import json, sys
from services.ixbrl import Unreadable, read
from services.uk_accounts import latest, normalise
data = b"".join(
    text.encode() * times if "%d" not in text
    else b"".join(text.replace("%d", str(n)).encode() for n in range(times))
    for text, times in json.loads(sys.stdin.read()))
try:
    latest(normalise(read(data)))
except Unreadable:
    pass
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_hostile_filings_take_neither_memory_nor_time(page: Parts) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WATCHED],
        input=json.dumps(page),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert int(ran.stdout) / 1024 < MEMORY_MB


def test_an_instance_of_facts_in_facts_is_refused() -> None:
    nested = '<z contextRef="a">' * 100 + "</z>" * 100
    with pytest.raises(Unreadable, match="deep"):
        read(f'<x:xbrl xmlns:x="http://www.xbrl.org/2003/instance">{nested}</x:xbrl>'.encode())


def test_a_scenario_within_another_is_read_with_it_and_not_again() -> None:
    """Else each of a thousand that are nested is read a thousand times."""
    inner = '<x:scenario><d:explicitMember dimension="a:inner">a:m</d:explicitMember></x:scenario>'
    member = f'<d:typedMember dimension="a:outer"><a>one</a>{inner}</d:typedMember>'
    context = f'<x:context id="c"><x:scenario>{member}</x:scenario></x:context>'
    assert read((HEAD + context + TAIL).encode()).contexts["c"].dimensions == {"outer": "onea:m"}


def test_nesting_that_multiplies_the_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ixbrl_limits, "TEXT_ALLOWED", 100_000)
    beside = (OPEN_FACT + "x" * 8_000 + CLOSE_FACT) * 10
    assert len(read((HEAD + beside + TAIL).encode()).facts) == 10
    within = OPEN_FACT * 15 + "x" * 8_000 + CLOSE_FACT * 15
    with pytest.raises(Unreadable, match="repeats"):
        read((HEAD + within + TAIL).encode())


@pytest.mark.parametrize("encoding", ["punycode", "idna", "base64", "rot13", "undefined"])
def test_encodings_that_are_none_or_take_for_ever_are_not_believed(encoding: str) -> None:
    page = f'<?xml version="1.0" encoding="{encoding}"?>{HEAD}{OPEN_FACT}one{CLOSE_FACT}{TAIL}'
    assert [fact.value for fact in read(page.encode()).facts] == ["one"]


def test_pictures_are_dropped_and_everything_else_stays() -> None:
    picture = b'<img src="data:image/png;base64,' + b"QUJD" * 100 + b'"/>'
    kept = b'<img src="data:image/png;base64,"/>'
    assert without_pictures(b"<p>a</p>" + picture + b"<p>b=c/d</p>") == b"<p>a</p>" + kept + b"<p>b=c/d</p>"


@given(st.text(alphabet=" \t\n\xa0ab", max_size=60), st.integers(1, 9))
def test_blanks_are_single_however_the_text_is_cut(text: str, piece: int) -> None:
    assert single_blanks(text) == " ".join(text.split())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("services.ixbrl.contexts.PIECE", piece)
        assert single_blanks(text) == " ".join(text.split())
    assert piece < PIECE


TOKENS = (
    *(
        b"<",
        b">",
        b"&",
        b'"',
        b"/>",
        b"]]>",
        b"<![CDATA[",
        b"<!--",
        b"-->",
        b"<?x?>",
        b"&nbsp;",
        b"&#0;",
        b"\0",
    ),
    *(b"\xff\xfe", b"\xc3", b"<!DOCTYPE x [", b"<!ENTITY a 'b'>", b'xsi:nil="true"', b' sign="-"'),
    *(b' scale="99"', b' scale="x"', b'contextRef="nowhere"', b' continuedAt="', b"<ix:exclude>", b"</div>"),
    *(b"ixt:numcommadecimal", b"0001-01-01", b"9" * 400, b"-", b"\xc2\xa0"),
)


@pytest.fixture(scope="module")
def filings(corpus: Path) -> list[bytes]:
    """Real filings of up to 60 KB, as damage is drawn many times over."""
    files = [*corpus.glob("uk_ixbrl/*"), *corpus.glob("uk_xbrl21/*"), *corpus.glob("ix_features/*")]
    found = [gzip.decompress(f.read_bytes()) if f.suffix == ".gz" else f.read_bytes() for f in sorted(files)]
    return [data for data in found if len(data) < 60_000]


@given(data=st.data())
@settings(
    max_examples=150,
    deadline=30_000,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
def test_damaged_real_filings_are_read_or_refused(filings: list[bytes], data: st.DataObject) -> None:
    damaged = bytearray(data.draw(st.sampled_from(filings)))
    for _ in range(data.draw(st.integers(1, 12))):
        at = data.draw(st.integers(0, len(damaged)))
        cut = data.draw(st.sampled_from((0, 1, 7, 300)))
        there = damaged[at : at + data.draw(st.sampled_from((0, 40, 2_000)))]
        damaged[at : at + cut] = data.draw(st.sampled_from(TOKENS)) + there
    try:
        filing = read(bytes(damaged))
    except Unreadable:
        return
    for fact in filing.facts:
        assert fact.value is None or isinstance(fact.value, Decimal if fact.numeric else str)
    latest(normalise(filing))
