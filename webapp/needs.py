"""What needs a person, and the one sentence that every page begins with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum

from services.causes import CAUSES
from services.registry import SERVICES
from store.keys import Headroom
from store.states import Status
from webapp.formats import counted
from webapp.questions import Look

MOST_SHOWN = 5
MOST_IN_SENTENCE = 2


class Severity(IntEnum):
    """How loudly it asks. `BAD`: work stands still or a key is lost; `WARN`: a person can do better."""

    INFO = 0
    WARN = 1
    BAD = 2


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


@dataclass(frozen=True, slots=True)
class Verdict:
    """Is all well? `tone`: ok, warn or bad. `until`: when the last running list will be ready."""

    tone: str
    sentence: str
    needs: Sequence[Need] = ()
    more: int = 0


def needs(look: Look) -> list[Need]:
    """Everything that needs a person, the loudest first.

    The one seam for alerts: once the monitor keeps episodes, they are what is asked here.
    """
    found = [*_no_workers(look), *_keys(look), *_failures(look)]
    return sorted(found, key=lambda need: -need.severity)


def verdict(look: Look) -> Verdict:
    """The sentence, and the links it carries."""
    open_needs = [need for need in needs(look) if need.severity > Severity.INFO]
    running = look.list_states.get("active", 0)
    if not open_needs:
        return Verdict("ok", _all_well(look, running))
    is_bad = open_needs[0].severity is Severity.BAD
    stands_still = is_bad and any(need.part == "workers" for need in open_needs)
    begins = "Nothing runs" if stands_still else "Running" if running else "Not running"
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
        if not its and works:
            detail = f"jobs that ask {title_of(service)} wait, none fails"
            title = f"No key of {title_of(service)} yet"
            found.append(Need(Severity.BAD, title, "/keys/new", detail, "keys"))
    return found


def _lost_key(key: Headroom, others: int, works: bool) -> Need:
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
