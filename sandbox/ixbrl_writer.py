"""Makes the inline XBRL document of a set of accounts, with the oddities of its dialect."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from html import escape
from itertools import chain

from sandbox.figures import Figures
from sandbox.ixbrl_facts import FactWriter, Period
from sandbox.uk_accounts import BALANCE_SHEET, EMPLOYEES, PROFIT_AND_LOSS, Accounts, UkCompany
from sandbox.uk_dialects import DIALECTS, EQUITY, Dialect, Member

_GROUP: Member = ("GroupCompanyDataDimension", "Consolidated")
_NET = "net_assets_liabilities_including_pension_asset_liability"
_FUNDS = "shareholder_funds"


def damaged(company: UkCompany, accounts: Accounts) -> bytes:
    """A document that ends before its first fact: nothing can be read from it."""
    return render(company, accounts)[:600]


def render(company: UkCompany, accounts: Accounts) -> bytes:
    """The whole document, encoded as its dialect says."""
    page = _Page(company, accounts)
    dialect = page.dialect
    body = "".join(page.body())
    declared = "UTF-8" if dialect.encoding.startswith("utf") else dialect.encoding
    document = (
        f'<?xml version="1.0" encoding="{declared}"?>\n<html {_namespaces(dialect)}>'
        f"<head><title>Annual accounts</title>{_STYLE}</head><body>{body}{page.hidden()}</body></html>"
    )
    return document.encode(dialect.encoding)


class _Page:
    """The pieces of one document, in the order in which a reader meets them."""

    def __init__(self, company: UkCompany, accounts: Accounts) -> None:
        self.company, self.accounts = company, accounts
        self.dialect = DIALECTS[company.dialect]
        self.facts = FactWriter(company.number, self.dialect)
        self.scope: tuple[Member, ...] = (_GROUP,) if accounts.scope == "consolidated" else ()
        self.at_end = Period(accounts.made_up_to)
        self.during = Period(accounts.made_up_to, accounts.started)
        prior = accounts.prior_made_up_to
        self.prior_end = None if prior is None else Period(prior)
        self.prior_during = None if prior is None else Period(prior, accounts.prior_started)

    def body(self) -> Iterator[str]:
        yield f"<div><p>Registered number {self._number()}</p><h1>{self._name()}</h1>"
        yield f"<p>Accounts made up to {self._made_up_to()}. Figures in £.</p></div>"
        yield self._table("Balance sheet", BALANCE_SHEET, self.at_end, self.prior_end)
        yield self._table("Profit and loss", PROFIT_AND_LOSS, self.during, self.prior_during)
        yield self._table("Employees", (EMPLOYEES,), self.during, self.prior_during)
        if self.accounts.standalone:
            yield self._standalone()
        yield "".join(f"<p>{note}</p>" for note in self._notes())
        if "continuation" in self.dialect.habits:
            yield f"<p>{self.facts.continuation('rest', self._split_name()[1])}</p>"

    def hidden(self) -> str:
        """The header with what the page does not show; written last, when all contexts are known."""
        ix = self.dialect.ix
        end = self.facts.text("EndDateForPeriodCoveredByReport", self.at_end.end.isoformat(), self.at_end)
        hidden = self._dormancy() + end
        return (
            f'<div style="display:none"><{ix}:header><{ix}:hidden>{hidden}</{ix}:hidden>'
            f"<{ix}:references><link:schemaRef xlink:type='simple' xlink:href='urn:sandbox:entry-point'/>"
            f"</{ix}:references><{ix}:resources>{self.facts.contexts()}{_UNITS}</{ix}:resources></{ix}:header></div>"
        )

    def _number(self) -> str:
        number = self.company.number
        shown = number.lstrip("0") if "bare_number" in self.dialect.habits else number
        return self.facts.text("UKCompaniesHouseRegisteredNumber", shown, self.during)

    def _split_name(self) -> tuple[str, str]:
        start, _, end = self.company.name.rpartition(" ")
        return start, f" {end}"

    def _name(self) -> str:
        concept, name = "EntityCurrentLegalOrRegisteredName", self.company.name
        if "continuation" in self.dialect.habits:
            return self.facts.continued(concept, self._split_name()[0], self.during, "rest")
        return self.facts.text(concept, escape(name), self.during)

    def _made_up_to(self) -> str:
        shown = self.dialect.date_text(self.accounts.made_up_to)
        return self.facts.text("BalanceSheetDate", shown, self.at_end, self.dialect.date_transform)

    def _dormancy(self) -> str:
        concept, manner = self.dialect.dormancy
        truth = str(self.accounts.is_dormant).lower()
        match manner:
            case "text":
                return self.facts.text(concept, truth, self.during)
            case "opposite":
                return self.facts.text(concept, str(not self.accounts.is_dormant).lower(), self.during)
            case _:
                return self.facts.text(concept, "see note 1", self.during, manner + truth)

    def _table(self, title: str, columns: tuple[str, ...], now: Period, before: Period | None) -> str:
        rows = []
        for column in columns:
            cells = [self._cell(column, self.accounts.current, now)]
            if before is not None:
                cells.append(self._cell(column, self.accounts.prior, before))
            if any(cells):
                label = column.replace("_", " ").capitalize()
                rows.append(f"<tr><td>{label}</td>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
        return f"<h2>{title}</h2><table>{''.join(rows)}</table>" if rows else ""

    def _cell(self, column: str, figures: Figures, period: Period) -> str:
        if column not in figures or (column == _FUNDS and self._is_nested(figures)):
            return ""
        inner = self._fact(_FUNDS, figures, period) if column == _NET and self._is_nested(figures) else None
        fact = self._fact(column, figures, period, inner)
        value = figures[column]
        if "duplicates" in self.dialect.habits and column == "current_assets" and value is not None:
            fact += self.facts.rounded("CurrentAssets", value, period, self.scope)
        return fact

    def _is_nested(self, figures: Figures) -> bool:
        return "nested" in self.dialect.habits and _FUNDS in figures and figures[_FUNDS] == figures.get(_NET)

    def _fact(self, column: str, figures: Figures, period: Period, inner: str | None = None) -> str:
        concept, member = self.dialect.taxonomy.tags[column]
        members = self.scope if member is None else (member, *self.scope)
        excluded = "*" if "exclude" in self.dialect.habits and column == "current_assets" else ""
        return self.facts.number(concept, figures[column], period, members, inner=inner, excluded=excluded)

    def _standalone(self) -> str:
        """The parent's own balance sheet, which the row of a group must not take."""
        tags = self.dialect.taxonomy.tags
        cells = []
        for column, value in self.accounts.standalone.items():
            concept, member = tags[column]
            cells.append(self.facts.number(concept, value, self.at_end, () if member is None else (member,)))
        return "<h2>Company balance sheet</h2>" + "".join(f"<p>{cell}</p>" for cell in cells)

    def _notes(self) -> Iterator[str]:
        """Facts that look like the wanted ones and are parts, other people's, or of another time."""
        decoys, typed = ("decoys" in self.dialect.habits), ("typed" in self.dialect.habits)
        return chain(self._decoys() if decoys else (), self._typed() if typed else ())

    def _decoys(self) -> Iterator[str]:
        facts, now, part = self.facts, self.at_end, Decimal(1234)
        vehicles = ("PropertyPlantEquipmentClassesDimension", "MotorVehicles")
        yield "Vehicles " + facts.number("PropertyPlantEquipment", part, now, (vehicles, *self.scope))
        premium = (EQUITY, "SharePremium")
        yield "Share premium " + facts.number("Equity", part, now, (premium, *self.scope))
        officer = ("EntityOfficersDimension", "Director1")
        yield "Owed by a director " + facts.number("Debtors", part, now, (officer,))
        lease = ("FinancialInstrumentCurrentNon-currentDimension", "Non-currentFinancialInstruments")
        yield "Creditors by kind " + facts.number("Creditors", part, now, (lease, *self.scope))
        if self.dialect.has_profit_and_loss:
            segment = ("OperatingSegmentsDimension", "Segment1")
            yield "Turnover abroad " + facts.number("TurnoverRevenue", part, self.during, (segment,))
        if self.prior_end is not None:
            long_ago = Period(self.prior_end.end - timedelta(days=365))
            yield "Equity two years ago " + facts.number("Equity", part, long_ago, self.scope)

    def _typed(self) -> Iterator[str]:
        typed = ("AnalysisDimension", "typed")
        for concept in ("Debtors", "FixedAssets", "Equity"):
            yield "One item " + self.facts.number(concept, Decimal(77), self.at_end, (typed, *self.scope))


_STYLE = "<style>td{text-align:right;padding:0 1em}</style>"
_UNITS = (
    '<xbrli:unit id="GBP"><xbrli:measure>iso4217:GBP</xbrli:measure></xbrli:unit>'
    '<xbrli:unit id="pure"><xbrli:measure>xbrli:pure</xbrli:measure></xbrli:unit>'
)


def _namespaces(dialect: Dialect) -> str:
    quote = "'" if "single_quotes" in dialect.habits else '"'
    names = {
        "xmlns": "http://www.w3.org/1999/xhtml",
        f"xmlns:{dialect.ix}": dialect.ix_namespace,
        "xmlns:ixt": dialect.transforms,
        "xmlns:xbrli": "http://www.xbrl.org/2003/instance",
        "xmlns:xbrldi": "http://xbrl.org/2006/xbrldi",
        "xmlns:link": "http://www.xbrl.org/2003/linkbase",
        "xmlns:xlink": "http://www.w3.org/1999/xlink",
        "xmlns:xsi": "http://www.w3.org/2001/XMLSchema-instance",
        "xmlns:iso4217": "http://www.xbrl.org/2003/iso4217",
        f"xmlns:{dialect.core}": dialect.taxonomy.core,
        f"xmlns:{dialect.business}": dialect.taxonomy.business,
    }
    return " ".join(f"{name}={quote}{value}{quote}" for name, value in names.items())
