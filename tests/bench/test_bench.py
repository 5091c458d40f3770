"""`make bench`: what it writes and what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench import __main__ as bench
from bench.figure import Absent, Figure, Measured
from bench.figures import FIGURES


def a_figure(name: str, *runs: float, reach: float = 1.0) -> Figure:
    def measure() -> Measured:
        if not runs:
            raise Absent("nobody to measure against")
        return Measured.median(runs, "a note")

    return Figure(name, "something", "x", "at least", reach, "1 s", measure)


@pytest.fixture
def latest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(bench, "VAR", tmp_path)
    figures = (a_figure("fast", 3.0, 1.0, 2.0), a_figure("slow", 0.5), a_figure("absent"))
    monkeypatch.setattr(bench, "FIGURES", figures)
    return tmp_path / "latest.json"


def test_the_median_of_the_runs_is_written_with_what_it_must_reach(latest: Path) -> None:
    assert bench.main(["--only", "fast"]) == 0
    row = {"id": "fast", "value": 2.0, "unit": "x", "reach": 1.0, "holds": True, "runs": [3.0, 1.0, 2.0]}
    assert json.loads(latest.read_text()) == [row]


def test_a_figure_that_falls_short_fails_the_command(latest: Path) -> None:
    assert bench.main(["--only", "fast, slow"]) == 1
    assert [row["holds"] for row in json.loads(latest.read_text())] == [True, False]


def test_a_figure_that_cannot_be_measured_says_why_and_does_not_hold(
    latest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert bench.main(["--only", "absent"]) == 1
    assert "nobody to measure against" in capsys.readouterr().out
    assert json.loads(latest.read_text())[0]["value"] is None


def test_an_unknown_figure_is_named_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--only", "fastest"])
    assert FIGURES[0].id in capsys.readouterr().err


def test_figures_have_names_of_their_own() -> None:
    names = [one.id for one in FIGURES]
    assert len(names) == len(set(names))
