"""What templates may use beside their variables: formats, icons, what the viewer may do."""

from __future__ import annotations

from datetime import UTC, datetime

from flask import Flask, url_for
from markupsafe import Markup

from webapp import access, formats
from webapp.needs import title_of
from webapp.option_fields import options_of
from webapp.panels.overview import there_is

# Status or state: icon, words, and whose colours it has.
LOOKS: dict[str, tuple[str, str, str]] = {
    "pending": ("clock", "Pending", "pending"),
    "in_progress": ("loader", "In progress", "in_progress"),
    "done": ("check", "Done", "complete"),
    "complete": ("check", "Complete", "complete"),
    "partial": ("circle-half", "Partial", "partial"),
    "empty": ("circle-dashed", "Empty", "empty"),
    "failed": ("x", "Failed", "failed"),
    "cancelled": ("ban", "Cancelled", "cancelled"),
    "active": ("check", "Active", "complete"),
    "running": ("player-play", "Running", "in_progress"),
    "working": ("check", "Working", "complete"),
    "idle": ("circle-dashed", "Idle", "pending"),
    "paused": ("player-pause", "Paused", "cancelled"),
    "finished": ("check", "Finished", "complete"),
    "resting": ("clock", "Resting", "partial"),
    "draining": ("player-pause", "Draining", "partial"),
    "late": ("alert-triangle", "Late", "partial"),
    "invalid": ("x", "Rejected", "failed"),
    "exhausted": ("x", "Exhausted", "failed"),
    "stalled": ("alert-triangle", "Stalled", "failed"),
    "lost": ("plug-off", "Lost", "failed"),
    "disabled": ("ban", "Disabled", "cancelled"),
    "stopped": ("ban", "Stopped", "cancelled"),
}


def register(app: Flask) -> None:
    app.jinja_env.trim_blocks = True
    app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(
        count=formats.count,
        tile=formats.tile,
        percent=formats.percent,
        duration=formats.duration,
        span=formats.span,
        rate=formats.rate,
        size=formats.size,
        iso=iso,
        exact=exact,
    )
    app.jinja_env.globals.update(
        icon=icon,
        look_of=look_of,
        counted=formats.counted,
        limit=formats.limit,
        may=access.may,
        person=access.person,
        title_of=title_of,
        options_of=options_of,
        there_is=there_is,
    )


def icon(name: str) -> Markup:
    """A drawing from the sprite; it says nothing to a screen reader, so words stand beside it."""
    return Markup('<svg class="i" aria-hidden="true"><use href="{}#{}"></use></svg>').format(
        url_for("static", filename="icons.svg"), name
    )


def look_of(state: str) -> tuple[str, str, str]:
    """Icon, words and colours of a status or state."""
    return LOOKS.get(state, ("info", state.replace("_", " ").capitalize(), "pending"))


def iso(at: datetime) -> str:
    """`2026-11-30T14:32:07Z`."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def exact(at: datetime) -> str:
    """`2026-11-30 14:32:07 UTC`: what stands on the page until the browser words it."""
    return at.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
