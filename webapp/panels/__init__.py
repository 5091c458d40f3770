"""Every panel, and which page shows which. A panel is a function, a fragment and a line here."""

from __future__ import annotations

from collections.abc import Mapping

from webapp.job_filters import ARGS
from webapp.panels import alerts, job, jobs, keys, lists, overview, running, workers
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
    "list_index": Panel(lists.index, "lists/_index.html"),
    "list_head": Panel(lists.head, "lists/_head.html", args=("list",)),
    "list_causes": Panel(lists.causes, "lists/_causes.html", args=("list",)),
    "jobs": Panel(jobs.rows, "jobs/_rows.html", args=(*ARGS, "cursor"), least_seconds=2.0),
    "failures": Panel(
        jobs.failures, "failures/_groups.html", args=("list", "service", "cause", "since"), least_seconds=5.0
    ),
    "job": Panel(job.job, "job/_job.html", args=("job",)),
    "job_story": Panel(job.what_happened, "job/_story.html", args=("job",)),
    "job_fields": Panel(job.fields, "job/_fields.html", args=("job", "fields")),
    "job_answers": Panel(job.kept, "job/_answers.html", args=("job",)),
    "all_keys": Panel(keys.all_keys, "keys/_keys.html"),
    "key": Panel(keys.key, "keys/_key.html", args=("key",)),
    "key_calls": Panel(keys.key_calls, "keys/_calls.html", args=("key", "calls"), least_seconds=5.0),
    "all_workers": Panel(workers.all_workers, "workers/_workers.html"),
    "worker": Panel(workers.worker, "workers/_worker.html", args=("worker",)),
    "alerts": Panel(alerts.alerts, "alerts/_alerts.html", args=("show",)),
    "alert": Panel(alerts.alert, "alerts/_alert.html", args=("alert",)),
    "alert_rules": Panel(alerts.rules, "alerts/_rules.html", least_seconds=15.0),
    "alert_channels": Panel(alerts.channels, "alerts/_channels.html", least_seconds=2.0),
}

# Every page has these two; what stands before the first dot of a page's name is its place in the bar.
EVERYWHERE = ("bar", "verdict")

PAGES: Mapping[str, tuple[str, ...]] = {
    "dashboard": ("counts", "lists", "needs", "chart", "workers", "keys"),
    "dashboard.empty": ("first_run",),
    "lists": ("list_index",),
    "lists.one": ("list_head", "list_causes"),
    "jobs": ("jobs",),
    "failures": ("failures",),
    "jobs.moving": ("job", "job_story", "job_fields", "job_answers"),
    "keys": ("all_keys",),
    "keys.one": ("key", "key_calls"),
    "workers": ("all_workers",),
    "workers.one": ("worker",),
    "alerts": ("alerts",),
    "alerts.one": ("alert",),
    "alerts.rules": ("alert_rules",),
    "alerts.channels": ("alert_channels",),
}


def of_page(page: str) -> tuple[str, ...]:
    """The panels of a page, those of every page first. A page without panels of its own has no line."""
    return EVERYWHERE + PAGES.get(page, ())
