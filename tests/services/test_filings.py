"""Files on disk: documents, archives, and what is only pretending to be one."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from services import archives
from services.causes import CAUSES
from services.filings import plain, read_file

INSTANCE = b"""<?xml version="1.0"?><xbrl xmlns="http://www.xbrl.org/2003/instance" xmlns:g="http://gaap.test/">
<context id="c"><entity><identifier scheme="s">1</identifier></entity>
<period><instant>2020-12-31</instant></period></context>
<unit id="u"><measure>iso4217:GBP</measure></unit>
<g:BalanceSheetDate contextRef="c">2020-12-31</g:BalanceSheetDate>
<g:Debtors contextRef="c" unitRef="u" decimals="0">1000.50</g:Debtors></xbrl>"""


def packed(members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()


def causes(name: str, data: bytes) -> dict[str, str | None]:
    return {found["file"]: found["cause"] for found in read_file(name, data)}


def test_a_document_becomes_plain_values_ready_for_json() -> None:
    (found,) = read_file("Prod223_1_1234567_20201231.xml", INSTANCE, with_facts=True)
    facts = found.pop("facts")
    assert found == {
        "file": "Prod223_1_1234567_20201231.xml",
        "cause": None,
        "message": "",
        "companies_house_registered_number": "01234567",
        "balance_sheet_date": "2020-12-31",
        "scope": "company",
        "period_end": "2020-12-31",
        "debtors": "1000.5",
        "units": {"debtors": "GBP"},
        "periods": [
            {
                "scope": "company",
                "period_start": "2020-12-31",
                "period_end": "2020-12-31",
                "debtors": "1000.5",
            }
        ],
        "flags": ["from_file_name"],
    }
    assert facts[1] == {
        "name": "g:Debtors",
        "kind": "n",
        "value": "1000.50",
        "nil": False,
        "start": None,
        "end": "2020-12-31",
        "dims": {},
        "unit": "GBP",
        "decimals": "0",
        "flags": [],
    }
    assert json.loads(json.dumps(found)) == found


def test_archives_in_archives_give_each_document_once_and_leave_out_the_rest() -> None:
    inner = packed({"CIC-15052776/accounts/a.xhtml": INSTANCE, "CIC-15052776/cic34/report.xhtml": INSTANCE})
    outer = packed(
        {
            "Prod223_1_15052776_20240831_CIC.zip": inner,
            "__MACOSX/._b.html": b"\0\x05\x16\x07",
            "b.html": gzip.compress(INSTANCE),
            "b.xsd": b"<schema/>",
            "folder/": b"",
            "Prod224_0095_04869811_20210131.zip": b"ATTACHMENTPLACEHOLDER137191381",
            "garbage.zip": b"\x00\x01\x02",
            "called.zip": INSTANCE,
        }
    )
    assert causes("daily.zip", outer) == {
        "daily.zip/Prod223_1_15052776_20240831_CIC.zip/CIC-15052776/accounts/a.xhtml": None,
        "daily.zip/b.html": None,
        "daily.zip/Prod224_0095_04869811_20210131.zip": "parse_error",
        "daily.zip/garbage.zip": "parse_error",
        "daily.zip/called.zip": None,
    }


def test_one_bad_member_stops_no_archive() -> None:
    data = packed({"a.xml": INSTANCE, "b.xml": INSTANCE}, zipfile.ZIP_STORED)
    at = data.index(b"1000.50")
    damaged = data[:at] + b"9" + data[at + 1 :]
    assert causes("a.zip", damaged) == {"a.zip/a.xml": "parse_error", "a.zip/b.xml": None}


def test_a_bomb_is_refused_with_a_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "BYTES_WITHOUT_QUESTION", 100_000)
    bomb = packed({f"{n}.xml": b" " * 1_000_000 for n in range(5)})
    assert causes("bomb.zip", bomb) == {"bomb.zip/0.xml": "too_large"}
    assert causes("bomb.gz", gzip.compress(b" " * 2_000_000)) == {"bomb.gz": "too_large"}


def test_nested_bombs_share_one_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "BYTES_WITHOUT_QUESTION", 100_000)
    layer = packed({f"{n}.xml": b" " * 60_000 for n in range(9)})
    found = causes("bomb.zip", packed({f"{n}.zip": layer for n in range(9)}))
    assert "too_large" in found.values()
    assert len(found) < 30


def test_a_member_larger_than_allowed_is_refused_whatever_its_header_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(archives, "MEMBER_BYTES_ALLOWED", 1_000)
    assert causes("a.zip", packed({"a.xml": INSTANCE * 3, "b.xml": INSTANCE})) == {
        "a.zip/a.xml": "too_large",
        "a.zip/b.xml": None,
    }


def test_archives_nested_too_deep_are_refused() -> None:
    data = INSTANCE
    for _ in range(archives.DEPTH_ALLOWED + 1):
        data = packed({"x.zip": data})
    assert [*causes("deep.zip", data).values()] == ["too_large"]


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        (b"", "parse_error"),
        (b"%PDF-1.4", "parse_error"),
        (b"<html><body>Nothing tagged</body></html>", "no_facts"),
        (packed({"[Content_Types].xml": b"<Types/>"}), "parse_error"),
        (b"PK\x03\x04 and no more", "parse_error"),
        (b"\x1f\x8b and no more", "parse_error"),
        (b"  {}", "parse_error"),
    ],
)
def test_what_is_no_filing_has_a_cause_and_a_sentence(data: bytes, cause: str) -> None:
    (found,) = read_file("x", data)
    assert (found["cause"], found["periods"], found["flags"]) == (cause, [], [])
    assert found["message"].endswith(".")
    assert cause in CAUSES


def test_a_member_without_a_name_is_read_too() -> None:
    data = packed({"abc": INSTANCE})
    nameless = bytearray(data)
    at = data.index(b"PK\x01\x02")
    nameless[at + 28 : at + 30] = b"\0\0"
    nameless[at + 46 : at + 49] = b""
    end = nameless.index(b"PK\x05\x06")
    nameless[end + 12] -= 3
    assert [*causes("a.zip", bytes(nameless))] == ["a.zip/"]


@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_damaged_archives_never_raise(data: st.DataObject) -> None:
    damaged = bytearray(packed({"a.xml": INSTANCE, "b.zip": packed({"c.xml": INSTANCE})}))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + data.draw(st.integers(0, 8))] = data.draw(st.binary(max_size=8))
    for found in read_file("a.zip", bytes(damaged)):
        assert found["cause"] is None or found["cause"] in CAUSES


def test_real_archives_give_every_filing(corpus: Path) -> None:
    found: dict[str, dict[str, Any]] = {}
    for path in sorted((corpus / "uk_bulk_zip").iterdir()):
        found |= {document["file"]: document for document in read_file(path.name, path.read_bytes())}
    assert len(found) == 11
    assert {document["cause"] for document in found.values()} == {None}
    assert all(len(document["companies_house_registered_number"]) == 8 for document in found.values())


def test_facts_and_periods_have_the_shape_and_values_of_the_expected_files(corpus: Path) -> None:
    facts = json.loads(gzip.decompress((corpus / "expected/all_facts.json.gz").read_bytes()))
    periods = json.loads((corpus / "expected/uk_normalised.json").read_text())
    for name in ("uk_xbrl21/kanedata_account_1.xml", "uk_ixbrl/kanedata_account_3.html"):
        (found,) = read_file(name, (corpus / name).read_bytes(), with_facts=True)
        assert [[fact[column] for column in facts["columns"]] for fact in found["facts"]] == facts["files"][
            name
        ]
        assert [
            {
                ("tangible_fixed_assets" if key == "fixed_assets" else key): value
                for key, value in period.items()
            }
            for period in found["periods"]
        ] == periods[name]["periods"]


def test_every_corrupt_file_has_a_cause_and_keeps_its_number(corpus: Path) -> None:
    found = [
        document
        for path in sorted((corpus / "uk_corrupt").iterdir())
        for document in read_file(path.name, path.read_bytes())
    ]
    assert [document["cause"] for document in found] == ["parse_error"] * 4
    assert found[0]["companies_house_registered_number"] == "11426842"


def test_numbers_are_text_without_trailing_zeros() -> None:
    assert [plain(Decimal(text)) for text in ("5.00", "100", "1E+3", "-0.50")] == ["5", "100", "1000", "-0.5"]


def test_companyfacts_become_a_row_and_a_year_for_each_period_end(corpus: Path) -> None:
    text = (corpus / "expected/us_companyfacts.json").read_text()
    expected = json.loads(text, parse_float=Decimal)
    for path in sorted((corpus / "sec_json").glob("companyfacts_*")):
        (found,) = read_file(path.name, path.read_bytes())
        known = expected[path.name.removesuffix(".gz")]
        assert found["cause"] is None
        assert (found["entity_name"], found["period_end"]) == (known["entityName"], known["latest_fy_end"])
        years = {year["period_end"]: year for year in found["periods"]}
        for field, series in known["annual"].items():
            for end, fact in series.items():
                if field in found:
                    assert years[end][field] == plain(fact["value"]), (path.name, field, end)


@pytest.mark.parametrize(
    ("data", "cause"),
    [(b'{"facts": ', "parse_error"), (b'{"cik": 1}', "parse_error"), (b'{"facts": {}}', "no_facts")],
)
def test_json_that_holds_no_annual_facts_has_a_cause(data: bytes, cause: str) -> None:
    assert causes("x.json", data) == {"x.json": cause}
