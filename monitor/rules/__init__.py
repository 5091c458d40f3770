"""All rules by name. A new one is a function in one of these modules, a line in its `RULES`, and a test."""

from __future__ import annotations

from monitor.rule import Rule
from monitor.rules import database, keys, lists, own, queue, workers

RULES: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        *workers.RULES,
        *queue.RULES,
        *keys.RULES,
        *lists.RULES,
        *database.RULES,
        *own.RULES,
    )
}
