"""Facts -> columns, for every period and scope."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Final, NamedTuple

from services.extraction import Source, Value
from services.ixbrl import Fact, Filing
from services.uk_accounts.columns import EMPLOYEES, PER_PERIOD, Choice
from services.uk_accounts.duplicates import agree
from services.uk_accounts.general import general
from services.uk_accounts.model import Accounts, Period, Span, scope_and_rest, source_of


class _Candidate(NamedTuple):
    """`rank`: smaller is better; whether it is a total member's, then the place of its tag in the column."""

    rank: tuple[bool, int]
    fact: Fact


def _by_tag() -> dict[str, list[tuple[str, int, Choice]]]:
    places: dict[str, list[tuple[str, int, Choice]]] = {}
    for column, choices in PER_PERIOD.items():
        for place, choice in enumerate(choices):
            places.setdefault(choice.tag, []).append((column, place, choice))
    return places


_BY_TAG: Final = _by_tag()
_AMERICAN: Final = "fasb.org"
"""us-gaap has a ProfitLoss too: a 10-K must not pass for British accounts."""


def normalise(filing: Filing, origin: Source | None = None) -> Accounts:
    """The columns of every period and scope. `origin` gives document, filing date and form to each source."""
    origin = origin or Source()
    found: dict[Span, dict[str, list[_Candidate]]] = {}
    for fact in filing.facts:
        for span, column, candidate in _candidates(fact):
            found.setdefault(span, {}).setdefault(column, []).append(candidate)
    spans = sorted(found, key=lambda span: (span.scope, span.end, span.start), reverse=True)
    periods = tuple(_period(span, found[span], origin) for span in spans)
    return Accounts(
        general=general(filing, origin),
        periods=periods,
        covered=frozenset((fact.start, fact.end) for fact in filing.facts if fact.start and fact.end),
        flags=_flags(filing.facts, periods),
    )


def is_total(dimension: str, member: str) -> bool:
    """Whether a member sums its whole dimension: TotalGeographicSegments does, TotalRestrictedFunds not."""
    stem = dimension.removesuffix("Dimension").removesuffix("Axis")
    return member.startswith("Total") and stem in member


def _candidates(fact: Fact) -> Iterator[tuple[Span, str, _Candidate]]:
    places = _BY_TAG.get(fact.local)
    if not places or not isinstance(fact.value, Decimal) or not fact.context or not fact.end:
        return
    if _AMERICAN in (fact.namespace or ""):
        return
    start = fact.end if fact.context.instant else fact.start
    if start is None:
        return
    scope, rest = scope_and_rest(fact.context.dimensions)
    for column, place, choice in places:
        wanted = [(choice.dimension, choice.member)] if choice.dimension else []
        total = not wanted and len(rest) == 1 and is_total(*rest[0])
        if rest == wanted or total:
            yield Span(scope, start, fact.end), column, _Candidate((total, place), fact)


def _period(span: Span, candidates: dict[str, list[_Candidate]], origin: Source) -> Period:
    values: dict[str, Value] = {}
    totals: dict[str, Value] = {}
    for column in PER_PERIOD:
        if column in candidates:
            best = min(candidate.rank for candidate in candidates[column])
            facts = [candidate.fact for candidate in candidates[column] if candidate.rank == best]
            is_of_total = best[0]
            (totals if is_of_total else values)[column] = _value(column, facts, origin, total=is_of_total)
    return Period(span, values, totals)


def _value(column: str, facts: list[Fact], origin: Source, *, total: bool) -> Value:
    fact, flags = agree(facts)
    if total:
        flags = (*flags, "total_member")
    if column == EMPLOYEES and isinstance(fact.value, Decimal) and fact.value % 1:
        flags = (*flags, "fractional_employees")
    return Value(fact.value, source_of(fact, origin), (*fact.flags, *flags))


def _flags(facts: Iterable[Fact], periods: Iterable[Period]) -> tuple[str, ...]:
    """What a person should know of this document: flags of its facts and of the columns' values."""
    of_facts = {flag for fact in facts for flag in fact.flags}
    of_values = {flag for period in periods for value in period.values.values() for flag in value.flags}
    return tuple(sorted(of_facts | of_values))
