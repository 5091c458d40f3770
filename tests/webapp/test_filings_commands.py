"""`flask filings read`: what is in files, without a database."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.testing import Result

from webapp.commands.filings import NARROW_FILE_WIDTH, _aligned, _narrow

Run = Callable[..., Result]

UNREACHABLE = "postgresql://nobody@127.0.0.1:1/nowhere"
COMPANYFACTS = {
    "cik": 42,
    "entityName": "Example \x1b[31mCorp",
    "facts": {
        "us-gaap": {
            tag: {
                "units": {
                    "USD": [
                        {
                            "start": "2023-01-01",
                            "end": "2023-12-31",
                            "val": value,
                            "accn": "0000000042-24-000001",
                            "form": "10-K",
                            "filed": "2024-02-01",
                        }
                    ]
                }
            }
            for tag, value in (("Revenues", 1234567), ("NetIncomeLoss", -5))
        }
    },
}


def run_without_database(run_with: Callable[..., Run]) -> Run:
    return run_with(DATABASE_URL=UNREACHABLE)


def test_a_document_is_one_line_and_needs_no_database(run_with: Callable[..., Run], tmp_path: Path) -> None:
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps(COMPANYFACTS))
    broken = tmp_path / "broken.html"
    broken.write_text("<html>")
    result = run_without_database(run_with)("filings", "read", facts, broken)
    assert result.exit_code == 0
    first, second = result.stdout.splitlines()
    assert first.split("\t") == [
        "facts.json", "ok", "42", "Example �[31mCorp", "2023-12-31", "1234567", "-5", "", "USD", "",
    ]  # fmt: skip
    assert second.split("\t")[:2] == ["broken.html", "parse_error"]


def test_json_has_an_object_per_document_with_periods_and_facts_when_asked(
    run_with: Callable[..., Run], tmp_path: Path
) -> None:
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps(COMPANYFACTS))
    run = run_without_database(run_with)
    document = json.loads(run("filings", "read", "--json", facts).stdout)
    assert document["revenue"] == "1234567"
    assert document["units"] == {"revenue": "USD", "net_income": "USD"}
    assert document["periods"] == [
        {
            "scope": "consolidated",
            "period_start": "2023-01-01",
            "period_end": "2023-12-31",
            "revenue": "1234567",
            "net_income": "-5",
        }
    ]
    assert "facts" not in document
    with_facts = json.loads(run("filings", "read", "--facts", facts).stdout)
    assert [fact["name"] for fact in with_facts["facts"]] == ["us-gaap:Revenues", "us-gaap:NetIncomeLoss"]


def test_a_file_that_cannot_be_opened_stops_no_other_and_fails_at_the_end(
    run_with: Callable[..., Run], tmp_path: Path
) -> None:
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps(COMPANYFACTS))
    result = run_without_database(run_with)("filings", "read", tmp_path / "nix.html", facts)
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")
    assert "nix.html cannot be read: No such file or directory." in result.stderr
    assert result.stdout.startswith("facts.json\tok")


def test_json_of_another_shape_is_a_parse_error(run_with: Callable[..., Run], tmp_path: Path) -> None:
    for number, text in enumerate(
        ('{"facts": [1]}', '{"facts": {"us-gaap": {"Revenues": 3}}}', "{", '{"a":1}')
    ):
        file = tmp_path / f"{number}.json"
        file.write_text(text)
        document = json.loads(run_without_database(run_with)("filings", "read", "--facts", file).stdout)
        assert document["cause"] in ("parse_error", "no_facts")


def test_real_filings_and_archives_are_read(run_with: Callable[..., Run], corpus: Path) -> None:
    archive = corpus / "uk_bulk_zip" / "Accounts_Bulk_Data-2023-03-02.zip"
    result = run_without_database(run_with)(
        "filings", "read", "--json", archive, corpus / "uk_corrupt" / "empty.html"
    )
    documents = [json.loads(line) for line in result.stdout.splitlines()]
    by_number = {d.get("companies_house_registered_number"): d for d in documents}
    assert by_number["09355500"]["shareholder_funds"] == "375004"
    assert documents[-1]["cause"] == "parse_error"


def test_a_line_of_a_narrow_terminal_fits_into_eighty_columns() -> None:
    document: dict[str, Any] = {
        "file": "a" * 200,
        "cause": None,
        "flags": [],
        "cik": "1652044",
        "entity_name": "ALPHABET INC. AND MORE",
        "period_end": "2025-12-31",
        "stockholders_equity": "415265000000",
        "units": {"stockholders_equity": "USD"},
    }
    cells = list(_aligned(document, _narrow(), NARROW_FILE_WIDTH, 59))
    assert len("  ".join(cells[:-1])) == 80
    refused = {"file": "a", "cause": "parse_error", "message": "x" * 500}
    assert len("  ".join(_aligned(refused, (), NARROW_FILE_WIDTH, 59))) == 80
