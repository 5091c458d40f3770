"""JSON is exact or null, and what would take too much is refused before the work is done."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services import json_limits
from services.extraction import Answer
from services.filings import read_companyfacts
from services.json_limits import BYTES_ALLOWED, loads

MEMORY_MB = 300
SECONDS = 120
"""For busy machines: on an idle core the slowest of them takes 4 s."""

Parts = Sequence[tuple[str, int]]
"""Texts, each so many times over; `%d` in a text counts."""

FACT = '{"start":"2023-01-01","end":"2023-12-31","val":%d,"accn":"{}%d","form":"10-K","filed":"2024-01-01"},'
LAST_FACT = FACT.replace("%d", "1").removesuffix(",")


def of_items(item: str, times: int) -> Parts:
    return [('{"facts":{"us-gaap":{"A":[', 1), (item, times), ("0]}}}", 1)]


def of_text(character: str, times: int) -> Parts:
    return [('{"facts":{"a":"', 1), (character, times), ('"}}', 1)]


def of_facts(times: int, *tags: tuple[str, str]) -> Parts:
    """As many facts of one year for each of these tags, each of a report of its own."""
    parts: list[tuple[str, int]] = [('{"facts":{"us-gaap":{', 1)]
    for tag, report in tags:
        parts += [(f'"{tag}":{{"units":{{"USD":[', 1), (FACT.replace("{}", report, 1), times)]
        parts += [(LAST_FACT + "]}},", 1)]
    return [*parts, ('"None":{}}}}', 1)]


HOSTILE: dict[str, Parts] = {
    "objects without end": of_items("{},", 16_000_000),
    "as many objects as are allowed": of_items("{},", 800_000),
    "arrays": of_items("[],", 1_950_000),
    "keys that are all different": [('{"facts":{', 1), ('"%d":0,', 650_000), ('"a":{}}}', 1)],
    "decimals": of_items("1.1,", 1_250_000),
    "decimals without end": of_items("1.1,", 12_000_000),
    "whole numbers": of_items("999,", 4_100_000),
    "texts": of_items('"%d",', 1_500_000),
    "a text with one rare character": [('{"facts":{"\U0001f600":"', 1), ("a", 24_000_000), ('"}}', 1)],
    "a text as long as a library": of_text("a", 70_000_000),
    "a text of escapes": of_text("\\u0101", 12_000_000),
    "a decimal as long as a book": [*of_items("0.", 1)[:2], ("1", 35_000_000), (",0]}}}", 1)],
    "a mine": [('{"a":', 5_000_000)],
    "a year told by many reports": of_facts(
        20_000, ("Revenues", "r"), ("CostOfRevenue", "c"), ("LiabilitiesAndStockholdersEquity", "l")
    ),
}

WATCHED = """
import json, sys
from services.filings import read_file
data = b"".join(
    text.encode() * times if "%d" not in text
    else b"".join(text.replace("%d", str(n)).encode() for n in range(times))
    for text, times in json.loads(sys.stdin.read()))
causes = [found["cause"] for found in read_file("a.json", data)]
assert set(causes) <= {None, "no_facts", "parse_error"}, causes
with open("/proc/self/status") as status:
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
@pytest.mark.parametrize("parts", HOSTILE.values(), ids=HOSTILE)
def test_hostile_json_takes_neither_memory_nor_time(parts: Parts) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", WATCHED],
        input=json.dumps(parts),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=True,
    )
    assert int(ran.stdout) / 1024 < MEMORY_MB


def test_what_is_too_costly_is_refused_with_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({f"key {n}": n for n in range(100)}).encode()
    assert len(loads(body)) == 100
    monkeypatch.setattr(json_limits, "BYTES_ALLOWED", 10_000)
    with pytest.raises(ValueError, match="memory allowed"):
        loads(body)
    with pytest.raises(ValueError, match="memory allowed"):
        Answer(200, body).json()
    refused = read_companyfacts(body)
    assert getattr(refused, "cause", None) == "parse_error"


def test_keys_that_objects_share_cost_less(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps([{"val": 1, "end": 2}] * 100, separators=(",", ":")).encode()
    monkeypatch.setattr(json_limits, "BYTES_ALLOWED", 60_000)
    with pytest.raises(ValueError, match="memory allowed"):
        loads(body)
    assert len(loads(body, usual_keys=("val", "end"))) == 100


def test_real_answers_stay_far_below_the_limit(corpus: Path) -> None:
    sizes = []
    for path in corpus.glob("sec_json/*"):
        data = path.read_bytes()
        body = gzip.decompress(data) if path.suffix == ".gz" else data
        sizes.append((json_limits._needed(body, ()), len(body)))
    needed, size = max(sizes)
    assert needed < BYTES_ALLOWED / 2
    assert 10_000_000 * needed / size < BYTES_ALLOWED, "answers of 10 MB are made of the same"


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("0.10", Decimal("0.10")),
        ("1e2", Decimal("1e2")),
        ("123456789012345678901234567890.5", Decimal("123456789012345678901234567890.5")),
        ("1e400", Decimal("1e400")),
        ("1e401", None),
        ("-1e-999999999", None),
        ("1e99999999999999999999", None),
        ("NaN", None),
        ("-Infinity", None),
        ("5", 5),
        ('"5"', "5"),
    ],
)
def test_a_number_is_exact_or_of_no_use(written: str, read: object) -> None:
    (found,) = loads(f"[{written}]".encode())
    assert (found, type(found)) == (read, type(read))


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe{", b"[" * 200_000, b"9" * 5_000, b"{} {}"])
def test_what_is_no_json_is_a_value_error(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        loads(body)


@given(st.binary(max_size=200) | st.text('{}[]",:.eE-+0123456789\\untrf ', max_size=60).map(str.encode))
def test_any_bytes_are_json_or_a_value_error(body: bytes) -> None:
    with suppress(ValueError):
        loads(body)


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**18), 10**18) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@given(anything, st.sampled_from(["utf-8", "utf-16", "utf-32"]))
def test_what_was_written_comes_back(value: Any, encoding: str) -> None:
    assert loads(json.dumps(value).encode(encoding)) == value
