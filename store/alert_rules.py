"""What the monitor's rules mean to people. The monitor writes it, so that pages need not know the rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg.rows import class_row

KEEP = """
WITH given AS (
    SELECT * FROM unnest(%(name)s::text[], %(meaning)s::text[], %(advice)s::text[], %(for_seconds)s::int[],
                         %(clear_seconds)s::int[])
      AS g(name, meaning, advice, for_seconds, clear_seconds)),
gone AS (DELETE FROM alert_rule WHERE name <> ALL (%(name)s))
INSERT INTO alert_rule SELECT * FROM given ORDER BY name
ON CONFLICT (name) DO UPDATE SET meaning = excluded.meaning, advice = excluded.advice,
    for_seconds = excluded.for_seconds, clear_seconds = excluded.clear_seconds
"""

SEE = "SELECT name, meaning, advice, for_seconds, clear_seconds FROM alert_rule ORDER BY name"


@dataclass(frozen=True, slots=True)
class RuleText:
    """What a rule means to people, kept so that pages can show it."""

    name: str
    meaning: str
    advice: str
    for_seconds: int
    clear_seconds: int


def keep(conn: psycopg.Connection, rules: Sequence[RuleText]) -> None:
    """These are the rules; others are forgotten, their alerts stay."""
    conn.execute(KEEP, {name: [getattr(r, name) for r in rules] for name in RuleText.__slots__})


def see(conn: psycopg.Connection) -> list[RuleText]:
    """All rules by name."""
    with conn.cursor(row_factory=class_row(RuleText)) as cursor:
        return cursor.execute(SEE).fetchall()
