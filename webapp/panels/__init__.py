"""Every panel, and which page shows which. A panel is a function, a fragment and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from webapp.panels import overview, running
from webapp.panels.panel import Panel

PANELS: Mapping[str, Panel] = {
    "bar": Panel(overview.bar, "_bar.html", args=("page",)),
    "verdict": Panel(overview.verdict, "_verdict.html"),
    "counts": Panel(overview.counts, "dashboard/_counts.html"),
    "lists": Panel(running.lists, "dashboard/_lists.html"),
    "needs": Panel(overview.needs, "dashboard/_needs.html", least_seconds=5.0),
    "chart": Panel(running.chart, "dashboard/_chart.html", args=("range",), least_seconds=15.0),
    "workers": Panel(running.workers, "dashboard/_workers.html"),
    "keys": Panel(running.keys, "dashboard/_keys.html"),
    "first_run": Panel(overview.first_run, "dashboard/_first_run.html"),
}

# Every page has these two; what stands before the first dot of a page's name is its place in the bar.
EVERYWHERE = ("bar", "verdict")

PAGES: Mapping[str, tuple[str, ...]] = {
    "dashboard": ("counts", "lists", "needs", "chart", "workers", "keys"),
    "dashboard.empty": ("first_run",),
}


def of_page(page: str) -> tuple[str, ...]:
    """The panels of a page, those of every page first. A page without panels of its own has no line."""
    return EVERYWHERE + PAGES.get(page, ())
