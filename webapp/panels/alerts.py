"""The panels of alerts: what is open or was resolved, and one episode with its deliveries."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from werkzeug.exceptions import NotFound

from store import alert_rules, deliveries
from store import alerts as store
from store.alerts import AlertSeen
from store.deliveries import DeliverySeen
from webapp.panels.panel import Args, id_of
from webapp.questions import Look

MOST_RESOLVED = 100
MOST_DELIVERIES = 30


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


def rules(look: Look, _args: Args) -> Mapping[str, Any]:
    """What does the monitor look for, from when on is it an alert, and what is to be done then?"""
    return {
        "rules": alert_rules.see(look.conn),
        "open": len(look.alerts),
        "open_by_rule": Counter(one.rule for one in look.alerts),
    }


def channels(look: Look, _args: Args) -> Mapping[str, Any]:
    """Who is told, and does it arrive?"""
    return {
        "channels": look.monitor.channels,
        "last": {one.channel: one for one in deliveries.last_of_channels(look.conn)},
        "deliveries": deliveries.latest(look.conn, MOST_DELIVERIES),
        "most": MOST_DELIVERIES,
        "open": len(look.alerts),
    }


def _told(look: Look, shown: list[AlertSeen]) -> Mapping[int, list[DeliverySeen]]:
    found: dict[int, list[DeliverySeen]] = defaultdict(list)
    for one in deliveries.of_alerts(look.conn, [alert.id for alert in shown]):
        if one.alert_id is not None:
            found[one.alert_id].append(one)
    return found
