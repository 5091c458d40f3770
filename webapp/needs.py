"""What needs a person, and the one sentence that every page begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum

from services.causes import CAUSES
from services.registry import SERVICES, needs_key
from store.alerts import AlertSeen
from store.key_use import KeyUse
from store.states import Status
from webapp.formats import counted
from webapp.questions import Look

MOST_SHOWN = 5
SILENT_AFTER = timedelta(minutes=1)
MOST_IN_SENTENCE = 2


class Severity(IntEnum):
    """How loudly it asks. `BAD`: work stands still or a key is lost; `WARN`: a person can do better."""

    INFO = 0
    WARN = 1
    BAD = 2


LOUDNESS = {"info": Severity.INFO, "warning": Severity.WARN, "critical": Severity.BAD}


@dataclass(frozen=True, slots=True)
class Need:
    """One thing for a person: what, where it is put right, and what it does meanwhile.

    `part`: the page of the bar that it counts on.
    """

    severity: Severity
    title: str
    url: str
    detail: str
    part: str
    since: datetime | None = None
    since_is: str = "last used"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Is all well? `tone`: ok, warn or bad. `more`: how many needs the sentence has no room for."""

    tone: str
    sentence: str
    needs: Sequence[Need] = ()
    more: int = 0


def needs(look: Look) -> list[Need]:
    """Everything that needs a person, the loudest first.

    An alert lasts before it opens, so what can be seen at once is looked for here too; what both say is
    said once, by the alert.
    """
    alerts = _alerts(look)
    told = {need.url for need in alerts}
    seen = [n for n in (*_no_workers(look), *_keys(look), *_services(look)) if n.url not in told]
    found = [*alerts, *seen, *_failures(look), *_silent_monitor(look)]
    return sorted(found, key=lambda need: -need.severity)


def verdict(look: Look) -> Verdict:
    """The sentence, and the links it carries."""
    open_needs = [need for need in needs(look) if need.severity > Severity.INFO]
    running = look.list_states.get("active", 0)
    if not open_needs:
        return Verdict("ok", _all_well(look, running))
    is_bad = open_needs[0].severity is Severity.BAD
    begins = "Nothing runs" if _no_workers(look) else "Running" if running else "Not running"
    return Verdict(
        "bad" if is_bad else "warn",
        f"{begins}, with {counted(len(open_needs), 'thing')} for you.",
        open_needs[:MOST_IN_SENTENCE],
        max(len(open_needs) - MOST_IN_SENTENCE, 0),
    )


def _all_well(look: Look, running: int) -> str:
    if running:
        return f"All is well. {counted(running, 'list')} running."
    if paused := look.list_states.get("paused", 0):
        return f"All is quiet. {counted(paused, 'list')} paused."
    return "All is quiet. No list is running."


def _alerts(look: Look) -> list[Need]:
    """The open alerts; of one that somebody takes care of, or that is muted, nobody need be told again."""
    return [
        Need(
            LOUDNESS[one.severity] if is_unheard(one, look.as_of) else Severity.INFO,
            one.message,
            one.link,
            _detail(one, look.as_of),
            one.link.strip("/").partition("/")[0].partition("?")[0] or "dashboard",
            one.opened_at,
            "since",
        )
        for one in look.alerts
    ]


def is_unheard(alert: AlertSeen, now: datetime) -> bool:
    """Whether an open alert waits for somebody: neither acknowledged nor muted."""
    return alert.acknowledged_at is None and not (alert.muted_until and alert.muted_until > now)


def _detail(alert: AlertSeen, now: datetime) -> str:
    if alert.acknowledged_by:
        return f"{alert.rule} · {alert.acknowledged_by} takes care"
    if not is_unheard(alert, now):
        return f"{alert.rule} · muted: {alert.mute_reason}"
    return f"{alert.rule} · {alert.advice}" if alert.advice else alert.rule


def _silent_monitor(look: Look) -> list[Need]:
    looked = look.monitor.looked_at
    detail = "no alert can be sent until it is back · start it: python -m monitor"
    if looked is None:
        return [Need(Severity.INFO, "No monitor has looked yet", "/alerts", detail, "alerts")]
    if look.as_of - looked <= SILENT_AFTER:
        return []
    return [
        Need(
            Severity.WARN,
            "The monitor does not look any more",
            "/alerts",
            detail,
            "alerts",
            looked,
            "last looked",
        )
    ]


def _no_workers(look: Look) -> list[Need]:
    alive = [one for one in look.workers if one.is_alive]
    known = {service for one in alive for service in one.services}
    if not look.services - known or not look.totals.status[Status.PENDING]:
        return []
    waits = counted(look.totals.status[Status.PENDING], "job")
    if not alive:
        title, detail = "No worker is running", f"{waits} wait · start one: python -m worker"
    else:
        named = ", ".join(title_of(service) for service in sorted(look.services - known))
        title, detail = f"No worker asks {named}", "start one that does: python -m worker"
    return [Need(Severity.BAD, title, "/workers", detail, "workers")]


def _keys(look: Look) -> list[Need]:
    found = []
    for service in sorted({key.service for key in look.keys} | look.services):
        its = [key for key in look.keys if key.service == service]
        usable = [key for key in its if key.is_usable]
        works = service in look.services
        found += [_lost_key(key, len(usable), works) for key in its if key.state in ("invalid", "exhausted")]
        if not its and works and needs_key(service):
            detail = f"jobs that ask {title_of(service)} wait, none fails"
            title = f"No key of {title_of(service)} yet"
            found.append(Need(Severity.BAD, title, "/keys/new", detail, "keys"))
    return found


def _services(look: Look) -> list[Need]:
    """Services that nobody may call now while lists want them; both kinds come back by themselves."""
    found = []
    for one in look.held_services:
        if one.name in look.services:
            what = "does not answer" if one.opened_at else "asked everybody to pause"
            severity = Severity.WARN if one.opened_at else Severity.INFO
            now = "" if one.rest_until else " · a try is under way"
            detail = f"{one.rest_cause or 'it said no more'} · its jobs wait unharmed{now}"
            title = f"{title_of(one.name)} {what}"
            found.append(Need(severity, title, "/keys", detail, "keys", one.rest_until, "next try"))
    return found


def _lost_key(key: KeyUse, others: int, works: bool) -> Need:
    what = "was rejected" if key.state == "invalid" else "has used up its quota"
    carry_on = f"{counted(others, 'other key')} {'carries' if others == 1 else 'carry'} on"
    then = carry_on if others else "its jobs wait" if works else "no other key"
    severity = Severity.WARN if others or not works else Severity.BAD
    detail = f"{title_of(key.service)} · {then}"
    return Need(severity, f"Key “{key.label}” {what}", f"/keys/{key.id}", detail, "keys", key.used_at)


def _failures(look: Look) -> list[Need]:
    found = []
    for cause, n in look.totals.to_fix.items():
        known = CAUSES.get(cause)
        meaning = known.meaning[0].lower() + known.meaning[1:].rstrip(".") if known else cause
        detail = f"{cause} · {known.advice.value}" if known else cause
        title = f"{counted(n, 'job')} failed: {meaning}"
        found.append(Need(Severity.WARN, title, f"/failures?cause={cause}", detail, "failures"))
    return found


def title_of(service: str) -> str:
    """What people call the service."""
    return SERVICES[service].title if service in SERVICES else service
