"""What a rule is, and how all of them judge a snapshot."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from monitor.episodes import Damping
from monitor.seen import Snapshot
from store.alerts import Found, Severity

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Finding:
    """`subject` names the same thing in the same way at every look; `link` is the page that shows it."""

    subject: str
    severity: Severity
    message: str
    link: str


@dataclass(frozen=True, slots=True)
class Rule:
    """`judge` is pure. `meaning` and `advice` are for whoever gets the alert, one or two sentences each."""

    name: str
    judge: Callable[[Snapshot], Iterator[Finding]]
    damping: Damping
    meaning: str
    advice: str


@dataclass(frozen=True, slots=True)
class Judged:
    """`broken`: rules that raised; of their alerts nothing is known."""

    found: list[Found]
    broken: frozenset[str]


def judge(snapshot: Snapshot, rules: Iterable[Rule]) -> Judged:
    """What all rules find. A rule with a bug silences no other."""
    found: list[Found] = []
    broken: set[str] = set()
    for rule in rules:
        try:
            found += [
                Found(rule.name, f.subject, f.severity, f.message, f.link) for f in rule.judge(snapshot)
            ]
        except Exception:  # the others must be heard
            log.exception("the rule %s is broken", rule.name)
            broken.add(rule.name)
    return Judged(found, frozenset(broken))


def dampings(rules: Mapping[str, Rule]) -> dict[str, Damping]:
    return {name: rule.damping for name, rule in rules.items()}
