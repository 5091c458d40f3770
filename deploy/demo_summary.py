"""What the demo shows at its end: rows and causes from the database, calls as the sandbox counted them."""

from __future__ import annotations

import csv
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from store import export, lists, tally


def summarise(conn: psycopg.Connection, seconds: float, stats: bytes, repeats: bytes) -> dict[str, Any]:
    """The summary that `var/demo.json` holds; `stats` and `repeats` are the sandbox's answers."""
    counted = json.loads(stats)
    stored_again, not_stored = _repeated(conn, json.loads(repeats))
    unheard = sum(key["calls"] - sum(key["answers"].values()) for key in counted["keys"].values())
    rows: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    for count in tally.read(conn):
        rows[count.status] += count.n
        if count.cause:
            causes[f"{count.status}: {count.cause}"] += count.n
    return {
        "seconds": round(seconds, 1),
        "rows": dict(rows),
        "causes": dict(causes),
        "calls": counted["calls"],
        "over_limit": counted["over_limit"],
        "repeated": stored_again,
        "in_flight_at_kills": not_stored + unheard,
        "keys": {
            label: {"calls": key["calls"], "over_limit": key["over_limit"]}
            for label, key in sorted(counted["keys"].items())
            if key["calls"]
        },
    }


def _repeated(conn: psycopg.Connection, repeats: list[dict[str, Any]]) -> tuple[int, int]:
    """Calls sent again after an answer: one that was stored by then, and one that a kill had lost."""
    stored_again = not_stored = 0
    for repeat in repeats:
        kept_at = _kept_at(conn, repeat["service"], repeat["request"])
        for arrived_at in repeat["arrived_at"][1:]:
            if any(at < arrived_at for at in kept_at):
                stored_again += 1
            elif any(at < arrived_at for at in repeat["answered_at"]):
                not_stored += 1
    return stored_again, not_stored


def _kept_at(conn: psycopg.Connection, service: str, request: str) -> list[float]:
    """When answers to this request were stored, on this machine's clock."""
    row = conn.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    ahead = row[0] - time.time() if row else 0.0
    return [
        at - ahead
        for (at,) in conn.execute(
            "SELECT extract(epoch FROM kept_at)::float8 FROM answer WHERE service = %s AND request = %s",
            (service, request),
        )
    ]


def write_csv(conn: psycopg.Connection, names: Sequence[str], path: Path) -> None:
    """One CSV of several lists: the columns of all, with the list's name first."""
    seen = [lists.see(conn, name)[0] for name in names]
    fields = list(dict.fromkeys(name for one in seen for name in one.fields))
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, ["list", *export.header(fields)], restval="")
        writer.writeheader()
        for one in seen:
            columns = export.header(one.fields)
            for row in export.rows(conn, one.id, one.fields):
                cells = dict(zip(columns, map(export.harmless, row), strict=True))
                writer.writerow({"list": one.name, **cells})


def as_text(summary: dict[str, Any]) -> str:
    """The summary for people."""
    rows = ", ".join(f"{n} {status}" for status, n in sorted(summary["rows"].items()))
    lines = [f"Ready in {summary['seconds']} s: {rows}"]
    lines += [f"  {n:>4}  {cause}" for cause, n in sorted(summary["causes"].items())]
    lines += ["Calls, as the services counted them:"]
    lines += [
        f"  {key['calls']:>4}  {label}, {key['over_limit']} over its limit"
        for label, key in summary["keys"].items()
    ]
    lines += [
        f"Sent again although the answer was stored: {summary['repeated']};"
        f" in flight when a worker died: {summary['in_flight_at_kills']}"
    ]
    return "\n".join(lines)
