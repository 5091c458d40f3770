"""The panels of alerts: what is open or was resolved, and one episode with its deliveries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from werkzeug.exceptions import NotFound

from store import alerts as store
from store import deliveries
from store.alerts import AlertSeen
from store.deliveries import DeliverySeen
from webapp.panels.panel import Args, id_of
from webapp.questions import Look

MOST_RESOLVED = 100


def alerts(look: Look, args: Args) -> Mapping[str, Any]:
    """What is wrong, and who was told?"""
    resolved = args.get("show") == "resolved"
    shown = store.see_resolved(look.conn, MOST_RESOLVED if resolved else 1)
    last = shown[0].resolved_at if shown else None
    if not resolved:
        shown = look.alerts
    return {
        "alerts": shown,
        "open": len(look.alerts),
        "resolved": resolved,
        "last": last,
        "told": _told(look, shown),
        "monitor": look.monitor,
        "most": MOST_RESOLVED,
    }


def alert(look: Look, args: Args) -> Mapping[str, Any]:
    """What does it mean, what is to be done, and who was told?"""
    asked = id_of(args.get("alert", ""))
    one = None if asked is None else store.see_one(look.conn, asked)
    if one is None:
        raise NotFound
    return {"alert": one, "told": _told(look, [one])[one.id], "monitor": look.monitor}


def _told(look: Look, shown: list[AlertSeen]) -> Mapping[int, list[DeliverySeen]]:
    found: dict[int, list[DeliverySeen]] = defaultdict(list)
    for one in deliveries.of_alerts(look.conn, [alert.id for alert in shown]):
        if one.alert_id is not None:
            found[one.alert_id].append(one)
    return found
