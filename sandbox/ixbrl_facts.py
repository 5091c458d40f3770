"""Contexts and facts of one inline document: markup of single values, in the dialect of the filer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from xml.sax.saxutils import escape

from sandbox.figures import canonical
from sandbox.uk_dialects import Dialect, Member


@dataclass(frozen=True, slots=True)
class Period:
    """`start` None: the instant at the end of `end`."""

    end: date
    start: date | None = None


class FactWriter:
    """Writes facts and remembers the contexts that they need."""

    def __init__(self, number: str, dialect: Dialect) -> None:
        self.dialect = dialect
        self._number = number
        self._contexts: dict[tuple[Period, tuple[Member, ...]], str] = {}

    def text(self, concept: str, content: str, period: Period, transform: str | None = None) -> str:
        """A text fact of the business taxonomy. `content` is markup already."""
        name, context = f"{self.dialect.business}:{concept}", self._context(period, ())
        return self._element("nonNumeric", name, context, _format(transform), content)

    def continued(self, concept: str, start: str, period: Period, link: str) -> str:
        """A text fact that goes on in the element `continuation(link, …)`."""
        name, context = f"{self.dialect.business}:{concept}", self._context(period, ())
        return self._element("nonNumeric", name, context, f' continuedAt="{link}"', escape(start))

    def continuation(self, link: str, content: str) -> str:
        return (
            f'<{self.dialect.ix}:continuation id="{link}">{escape(content)}</{self.dialect.ix}:continuation>'
        )

    def exclude(self, content: str) -> str:
        return f"<{self.dialect.ix}:exclude>{escape(content)}</{self.dialect.ix}:exclude>"

    def number(
        self,
        concept: str,
        value: Decimal | None,
        period: Period,
        members: Iterable[Member] = (),
        *,
        inner: str | None = None,
        excluded: str = "",
    ) -> str:
        """A numeric fact; None is written as nil. `inner`: a nested fact of the same figure."""
        unit = "pure" if "Employees" in concept else "GBP"
        name = f"{self.dialect.core}:{concept}"
        context = self._context(period, tuple(members))
        if value is None:
            return self._element("nonFraction", name, context, f' unitRef="{unit}" xsi:nil="true"', "")
        scale = self._scale(value) if unit == "GBP" else 0
        transform, shown = self._shown(abs(value).scaleb(-scale))
        attributes = f' unitRef="{unit}" decimals="{-scale}"{_format(transform)}'
        attributes += f' scale="{scale}"' if scale else ""
        attributes += ' sign="-"' if value < 0 else ""
        if excluded:
            shown = shown[:1] + self.exclude(excluded) + shown[1:]
        fact = self._element("nonFraction", name, context, attributes, shown if inner is None else inner)
        return f"({fact})" if value < 0 and inner is None and "brackets" in self.dialect.habits else fact

    def rounded(self, concept: str, value: Decimal, period: Period, members: Iterable[Member] = ()) -> str:
        """The same fact again, less precise: in thousands."""
        attributes = ' unitRef="GBP" decimals="-3" scale="3"' + (' sign="-"' if value < 0 else "")
        shown = canonical(round(abs(value) / 1000))
        name, context = f"{self.dialect.core}:{concept}", self._context(period, tuple(members))
        return self._element("nonFraction", name, context, attributes, shown)

    def contexts(self) -> str:
        """All contexts asked for so far, as markup."""
        return "".join(
            f'<xbrli:context id="{name}"><xbrli:entity>'
            f'<xbrli:identifier scheme="http://www.companieshouse.gov.uk/">{self._number}</xbrli:identifier>'
            f"{self._segment(members)}</xbrli:entity><xbrli:period>{_dates(period)}</xbrli:period></xbrli:context>"
            for (period, members), name in self._contexts.items()
        )

    def _element(self, kind: str, name: str, context: str, attributes: str, content: str) -> str:
        tag = f"{self.dialect.ix}:{kind}"
        return f'<{tag} name="{name}" contextRef="{context}"{attributes}>{content}</{tag}>'

    def _scale(self, value: Decimal) -> int:
        return 3 if "thousands" in self.dialect.habits and value and value % 1000 == 0 else 0

    def _shown(self, value: Decimal) -> tuple[str, str]:
        style = self.dialect.numbers
        if value == 0 and style.zero_transform is not None:
            return style.zero_transform, style.zero
        return style.transform, f"{int(value):,}".replace(",", style.group)

    def _context(self, period: Period, members: tuple[Member, ...]) -> str:
        """A new name per context. Some filers' names say something that is not so."""
        wanted = (period, members)
        if wanted not in self._contexts:
            place = len(self._contexts) + 1
            hint = "_ShareCapital" if not members else ""
            misleads = "misleading_ids" in self.dialect.habits
            self._contexts[wanted] = f"ctx{place}{hint}" if misleads else f"c{place}"
        return self._contexts[wanted]

    def _segment(self, members: tuple[Member, ...]) -> str:
        if not members:
            return ""
        return f"<xbrli:segment>{''.join(map(self._member, members))}</xbrli:segment>"

    def _member(self, member: Member) -> str:
        axis, value = member
        taxonomy = self.dialect.business if axis in _BUSINESS_AXES else self.dialect.core
        if value == "typed":
            held = f"<{taxonomy}:AnalysisHeading>1</{taxonomy}:AnalysisHeading>"
            return f'<xbrldi:typedMember dimension="{taxonomy}:{axis}">{held}</xbrldi:typedMember>'
        dimension = f'dimension="{taxonomy}:{axis}"'
        return f"<xbrldi:explicitMember {dimension}>{taxonomy}:{value}</xbrldi:explicitMember>"


_BUSINESS_AXES = {"GroupCompanyDataDimension", "EntityOfficersDimension"}


def _format(transform: str | None) -> str:
    return f' format="ixt:{transform}"' if transform else ""


def _dates(period: Period) -> str:
    if period.start is None:
        return f"<xbrli:instant>{period.end}</xbrli:instant>"
    return f"<xbrli:startDate>{period.start}</xbrli:startDate><xbrli:endDate>{period.end}</xbrli:endDate>"
