"""`python -m bench`: measures figures, prints them as a table, writes `var/bench/latest.json`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence

from bench.figure import Absent, Figure, Measured
from bench.figures import FIGURES
from bench.place import VAR
from deploy.parts import PartFailed


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure; returns the exit code: 0 when all that was measured holds, 1 when some does not."""
    chosen = _chosen(arguments)
    latest = VAR / "latest.json"
    rows: list[dict[str, object]] = []
    print(f"{'figure':<34} {'value':>10} {'reach':>19} {'':5} runs")
    for figure in chosen:
        print(f"  {figure.id}: {figure.meaning} ({figure.takes}) …", file=sys.stderr, flush=True)
        try:
            measured = figure.measure()
        except (Absent, PartFailed) as error:
            print(f"{figure.id:<34} {'-':>10} {'':>19} {'none':5} {error}", flush=True)
            rows.append(_row(figure, None))
        else:
            print("\n".join(_lines(figure, measured)), flush=True)
            rows.append(_row(figure, measured))
        VAR.mkdir(parents=True, exist_ok=True)
        latest.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    print(f"Written: {latest}")
    return 0 if all(row["holds"] for row in rows) else 1


def _chosen(arguments: Sequence[str] | None) -> list[Figure]:
    known = {one.id: one for one in FIGURES}
    parser = argparse.ArgumentParser(
        prog="make bench",
        description="Measures figures; the machine should do nothing else meanwhile.",
        epilog="\n".join(f"{one.id}: {one.meaning} ({one.takes})" for one in FIGURES),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--only", default="", metavar="ID,ID", help="these; all without it")
    wanted = [name.strip() for name in parser.parse_args(arguments).only.split(",") if name.strip()]
    for name in wanted:
        if name not in known:
            parser.error(f"there is no figure {name}. Known: {', '.join(known)}")
    return [known[name] for name in wanted] or list(FIGURES)


def _lines(figure: Figure, measured: Measured) -> Iterator[str]:
    says = "holds" if figure.holds(measured.value) else "FAILS"
    reach = f"{figure.better} {figure.reach:g}"
    runs = " ".join(f"{run:.3g}" for run in measured.runs)
    yield f"{figure.id:<34} {measured.value:>10.3g} {reach:>19} {says:5} {runs} {figure.unit}"
    yield from (f"    {note}" for note in measured.notes)


def _row(figure: Figure, measured: Measured | None) -> dict[str, object]:
    """`value` None: it could not be measured here, and so it does not hold."""
    return {
        "id": figure.id,
        "value": measured.value if measured else None,
        "unit": figure.unit,
        "reach": figure.reach,
        "holds": measured is not None and figure.holds(measured.value),
        "runs": list(measured.runs) if measured else [],
    }


if __name__ == "__main__":
    sys.exit(main())
