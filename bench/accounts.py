"""Small UK accounts in iXBRL, made up: of the mean size and number of facts of those in a daily archive."""

from __future__ import annotations

import random
from collections.abc import Mapping

FIGURES = {
    "fixed_assets": "FixedAssets",
    "current_assets": "CurrentAssets",
    "net_current_assets_liabilities": "NetCurrentAssetsLiabilities",
    "total_assets_less_current_liabilities": "TotalAssetsLessCurrentLiabilities",
    "net_assets_liabilities_including_pension_asset_liability": "NetAssetsLiabilities",
    "shareholder_funds": "Equity",
}
# Tagged as well, and in no column of the result.
OTHERS = tuple(f"Detail{n}" for n in range(20))
HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<html xmlns="http://www.w3.org/1999/xhtml" xmlns:ix="http://www.xbrl.org/2013/inlineXBRL"
 xmlns:ixt="http://www.xbrl.org/inlineXBRL/transformation/2020-02-12" xmlns:link="http://www.xbrl.org/2003/linkbase"
 xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:xbrli="http://www.xbrl.org/2003/instance"
 xmlns:iso4217="http://www.xbrl.org/2003/iso4217" xmlns:core="http://xbrl.frc.org.uk/fr/2023-01-01/core"
 xmlns:bus="http://xbrl.frc.org.uk/cd/2023-01-01/business">
<head><title>Accounts</title><style>td {{ padding: 2px 8px; text-align: right }}</style></head><body>
<div style="display:none"><ix:header><ix:hidden>
<ix:nonNumeric contextRef="year" name="bus:UKCompaniesHouseRegisteredNumber">{number}</ix:nonNumeric>
<ix:nonNumeric contextRef="year" name="bus:EntityCurrentLegalOrRegisteredName">{name}</ix:nonNumeric>
<ix:nonNumeric contextRef="year" name="bus:BalanceSheetDate">2023-12-31</ix:nonNumeric>
<ix:nonNumeric contextRef="year" name="bus:EntityDormantTruefalse">false</ix:nonNumeric>
</ix:hidden><ix:references><link:schemaRef xlink:type="simple"
 xlink:href="https://xbrl.frc.org.uk/FRS-102/2023-01-01/FRS-102-2023-01-01.xsd"/></ix:references><ix:resources>
{contexts}
<xbrli:unit id="GBP"><xbrli:measure>iso4217:GBP</xbrli:measure></xbrli:unit>
<xbrli:unit id="pure"><xbrli:measure>xbrli:pure</xbrli:measure></xbrli:unit>
</ix:resources></ix:header></div>
<h1>{name}</h1><table>
"""
CONTEXT = (
    '<xbrli:context id="{id}"><xbrli:entity><xbrli:identifier scheme="http://www.companieshouse.gov.uk/">'
    "{number}</xbrli:identifier></xbrli:entity><xbrli:period>{period}</xbrli:period></xbrli:context>"
)
PERIODS = {
    "year": "<xbrli:startDate>2023-01-01</xbrli:startDate><xbrli:endDate>2023-12-31</xbrli:endDate>",
    "end": "<xbrli:instant>2023-12-31</xbrli:instant>",
    "before": "<xbrli:instant>2022-12-31</xbrli:instant>",
}
ROW = (
    '<tr><td>{tag}</td><td><ix:nonFraction contextRef="end" name="core:{tag}" unitRef="GBP" decimals="0" '
    'format="ixt:num-dot-decimal">{now:,}</ix:nonFraction></td><td><ix:nonFraction contextRef="before" '
    'name="core:{tag}" unitRef="GBP" decimals="0" '
    'format="ixt:num-dot-decimal">{before:,}</ix:nonFraction></td></tr>\n'
)
NOTE = (
    '<div class="note" style="margin-top: 6pt"><p style="font-family: Arial; font-size: 9pt">'
    '<span style="font-weight: bold">{n}.</span> <span style="color: #000000">{words}</span></p></div>\n'
)
WORDS = "These accounts were made up for a benchmark, and no company stands behind them. " * 2
NOTES = 245


def figures(n: int) -> Mapping[str, int]:
    """The figures of the n-th filing at its year end."""
    made = random.Random(n)
    return {name: made.randrange(100, 9_000_000) for name in FIGURES}


def number(n: int) -> str:
    """The registered number of the n-th filing's company."""
    return f"{n + 1:08}"


def file_name(n: int) -> str:
    """What the n-th filing is called in a pack."""
    return f"Prod223_9999_{number(n)}_20231231.html"


def accounts(n: int) -> bytes:
    """The n-th filing."""
    contexts = "\n".join(
        CONTEXT.format(id=name, number=number(n), period=period) for name, period in PERIODS.items()
    )
    parts = [HEAD.format(number=number(n), name=f"MADE UP {n} LIMITED", contexts=contexts)]
    for name, now in figures(n).items():
        parts.append(ROW.format(tag=FIGURES[name], now=now, before=now // 2))
    parts += [ROW.format(tag=tag, now=n + at, before=at) for at, tag in enumerate(OTHERS)]
    parts.append("</table>\n")
    parts += [NOTE.format(n=note, words=WORDS) for note in range(1, NOTES)]
    parts.append("</body></html>\n")
    return "".join(parts).encode()
