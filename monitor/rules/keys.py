"""Rules about keys and services: rejected, exhausted, resting, slowed down, short of quota.

A window that is used up to its limit is what the ledger is for and no trouble; answers of 429 are.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from monitor.episodes import Damping
from monitor.rule import Finding, Rule
from monitor.seen import KeyFacts, Snapshot
from monitor.words import because, count, duration, moment, quoted, titled
from services.registry import needs_key
from store.alerts import Severity

LONG_REST_SECONDS = 600.0
SHORT_REST_SECONDS = 60.0
LONG_OUTAGE_SECONDS = 900.0
LIMITED_LEAST = 5
LIMITED_SHARE = 0.02
QUOTA_SECONDS = 3600.0


def invalid(snapshot: Snapshot) -> Iterator[Finding]:
    """Keys that their service rejected."""
    yield from _out_of_use(snapshot, "invalid", "was rejected")


def exhausted(snapshot: Snapshot) -> Iterator[Finding]:
    """Keys whose quota or money is used up."""
    yield from _out_of_use(snapshot, "exhausted", "is exhausted")


def _out_of_use(snapshot: Snapshot, state: str, what: str) -> Iterator[Finding]:
    for key in snapshot.keys:
        if key.state == state:
            is_last = not any(k.state == "active" for k in snapshot.keys if k.service == key.service)
            yield Finding(
                f"key:{key.id}",
                Severity.CRITICAL if is_last else Severity.WARNING,
                f"Key {quoted(key.label)} of {titled(key.service)} {what}{because(key.last_error)}",
                f"/keys/{key.id}",
            )


def resting(snapshot: Snapshot) -> Iterator[Finding]:
    """Accounts that rest for long; their keys rest with them."""
    for account, key in {k.account_id: k for k in snapshot.keys if k.state == "active"}.items():
        if key.rest_seconds > LONG_REST_SECONDS:
            until = moment(snapshot.now + timedelta(seconds=key.rest_seconds))
            yield Finding(
                f"account:{account}",
                Severity.WARNING,
                f"Key {quoted(key.label)} of {titled(key.service)} rests until {until}"
                f"{because(key.rest_cause)}",
                f"/keys/{key.id}",
            )


def rate_limited(snapshot: Snapshot) -> Iterator[Finding]:
    """Keys whose calls are answered with 429 although the ledger keeps to their limits."""
    for key in snapshot.keys:
        if key.limited >= LIMITED_LEAST and key.limited >= LIMITED_SHARE * key.calls:
            yield Finding(
                f"key:{key.id}",
                Severity.WARNING,
                f"Key {quoted(key.label)} of {titled(key.service)} is over its limit at the service: 429 to "
                f"{key.limited:,} of its last {count(key.calls, 'call')}",
                f"/keys/{key.id}",
            )


def none_usable(snapshot: Snapshot) -> Iterator[Finding]:
    """Jobs could run and no key of their service can be used."""
    for service in filter(needs_key, sorted({seen.service for seen in snapshot.lists})):
        due = snapshot.due_lists(service)
        keys = [key for key in snapshot.keys if key.service == service]
        if not due or any(k.state == "active" and k.rest_seconds <= SHORT_REST_SECONDS for k in keys):
            continue
        waiting = count(sum(seen.pending for seen in due), "job")
        rests = [key.rest_seconds for key in keys if key.state == "active"]
        back = f", the first is back in {duration(min(rests))}" if rests else ""
        yield Finding(
            f"service:{service}",
            Severity.CRITICAL,
            f"No key of {titled(service)} can be used{back}: {waiting} wait",
            "/keys",
        )


def quota_short(snapshot: Snapshot) -> Iterator[Finding]:
    """A day quota (any limit of an hour or longer) that is used up before the work left is done."""
    for service in sorted({key.service for key in snapshot.keys}):
        keys = [key for key in snapshot.keys if key.service == service and key.state == "active"]
        left = sum(s.left for s in snapshot.lists if s.service == service and s.state == "active")
        quotas = [_quota_left(key) for key in {k.account_id: k for k in keys}.values()]
        limited = [quota for quota in quotas if quota is not None]
        if not left or not limited or len(limited) < len(quotas):
            continue  # nothing to do, or an account without a quota does it
        needed = round(left * _calls_per_job(keys))
        if needed > sum(limited):
            yield Finding(
                f"service:{service}",
                Severity.WARNING,
                f"The quota of {titled(service)} runs out before its work is done: about "
                f"{count(needed, 'call')} for {count(left, 'job')}, {sum(limited):,} left",
                "/keys",
            )


def _quota_left(key: KeyFacts) -> int | None:
    limits = zip(key.amounts, key.per_seconds, key.used, strict=True)
    left = [max(amount - used, 0) for amount, per_seconds, used in limits if per_seconds >= QUOTA_SECONDS]
    return min(left, default=None)


def _calls_per_job(keys: list[KeyFacts]) -> float:
    jobs = sum(key.jobs for key in keys)
    return max(sum(key.calls for key in keys) / jobs, 1.0) if jobs else 1.0


def service_resting(snapshot: Snapshot) -> Iterator[Finding]:
    """Services that nobody may call for now, while jobs wait for them."""
    for seen in snapshot.services:
        if seen.open_seconds is None and seen.rest_seconds > 0 and snapshot.due_lists(seen.name):
            back = duration(seen.rest_seconds)
            yield Finding(
                f"service:{seen.name}",
                Severity.WARNING,
                f"{titled(seen.name)} is not called for another {back}{because(seen.rest_cause)}",
                "/keys",
            )


def service_down(snapshot: Snapshot) -> Iterator[Finding]:
    """Services whose circuit is open, while jobs wait for them."""
    for seen in snapshot.services:
        if seen.open_seconds is not None and (due := snapshot.due_lists(seen.name)):
            waiting = count(sum(one.pending for one in due), "job")
            tried = f"in {duration(seen.rest_seconds)}" if seen.rest_seconds > 0 else "now"
            yield Finding(
                f"service:{seen.name}",
                Severity.CRITICAL if seen.open_seconds > LONG_OUTAGE_SECONDS else Severity.WARNING,
                f"{titled(seen.name)} does not answer, next try {tried}: {waiting} wait"
                f"{because(seen.rest_cause)}",
                "/keys",
            )


RULES = (
    Rule(
        "key_invalid",
        invalid,
        Damping(for_seconds=0, clear_seconds=60),
        "The service does not accept the key. Nobody uses it any more; its jobs went back unharmed.",
        "Replace its secret with one that the service accepts: Rotate, on its page. Other keys go on "
        "meanwhile.",
    ),
    Rule(
        "key_exhausted",
        exhausted,
        Damping(for_seconds=0, clear_seconds=60),
        "The key's quota or credit is used up. Nobody uses it any more; its jobs went back unharmed.",
        "Raise the quota or top up at the service, then enable the key.",
    ),
    Rule(
        "key_resting",
        resting,
        Damping(for_seconds=30, clear_seconds=120),
        f"The service asked this key's account to pause for more than {duration(LONG_REST_SECONDS)}.",
        "It comes back by itself. If it happens often, somebody else uses the key, or its limit is too high.",
    ),
    Rule(
        "rate_limited",
        rate_limited,
        Damping(for_seconds=30, clear_seconds=300),
        f"The service says 429 to {LIMITED_LEAST} or more of the key's last calls, and to "
        f"{LIMITED_SHARE:.0%} of them, although we keep to the limit that is set for the key.",
        "Lower the key's limit to what the service really allows, or find who else uses the key.",
    ),
    Rule(
        "no_usable_key",
        none_usable,
        Damping(for_seconds=60, clear_seconds=60),
        "Jobs are due and every key of their service is rejected, exhausted, disabled or resting, or "
        "there is none. The jobs wait; none fails.",
        "Add a key, or enable one after its cause is fixed.",
    ),
    Rule(
        "quota_short",
        quota_short,
        Damping(for_seconds=300, clear_seconds=900),
        "At the calls per job of the last minutes, the work left needs more calls than are left of limits "
        f"that hold for {duration(QUOTA_SECONDS)} or longer.",
        "Add a key of another account, raise the quota, or let it take the days it takes.",
    ),
    Rule(
        "service_resting",
        service_resting,
        Damping(for_seconds=60, clear_seconds=120),
        "The service asked everybody to stop, whatever the key. Its jobs wait unharmed.",
        "It comes back by itself. If it lasts, look at the service's status page.",
    ),
    Rule(
        "service_down",
        service_down,
        Damping(for_seconds=30, clear_seconds=120),
        "Most calls to the service failed, so no worker calls it; one job at a time tries it again. "
        "The jobs wait unharmed.",
        "It comes back by itself. If it lasts, look at the service's status page and at our own network.",
    ),
)
