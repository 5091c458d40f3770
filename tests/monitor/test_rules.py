# ruff: noqa: E501 - a case per line
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor.rule import Rule, judge
from monitor.rules import RULES
from monitor.seen import (
    CauseFacts,
    ChannelFacts,
    DatabaseFacts,
    KeyFacts,
    ListFacts,
    OwnFacts,
    ServiceFacts,
    Snapshot,
    Transaction,
)
from services.causes import CAUSES
from store.alerts import Severity
from store.workers import WorkerSeen

NOW = datetime(2026, 3, 5, 14, 0, tzinfo=UTC)
WORKER_ID = UUID(int=7)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def a_worker(**more: Any) -> WorkerSeen:
    usual: dict[str, Any] = {
        "id": WORKER_ID, "name": "box · 0007", "host": "box", "pid": 1, "version": "0", "key_set": None,
        "services": ["uk"], "slots": 8, "state": "running", "started_at": ago(9000), "seen_at": ago(1),
        "lease_until": ago(-29), "held": 8, "settled": 0, "rows_per_minute": 60.0, "memory_bytes": 0,
        "keys_in_use": [], "is_alive": True,
    }  # fmt: skip
    return WorkerSeen(**(usual | more))


def a_list(**more: Any) -> ListFacts:
    usual: dict[str, Any] = {
        "id": 1, "name": "UK mid-caps", "service": "uk", "state": "active", "priority": 0,
        "start_at": ago(9000), "due_by": None, "finished_at": None, "oldest_due_at": ago(8000), "pending": 7412,
        "in_progress": 8, "done": 100, "failed": 3, "done_recent": 300, "done_before": 3600, "last_end_at": ago(5),
    }  # fmt: skip
    return ListFacts(**(usual | more))


def a_key(**more: Any) -> KeyFacts:
    usual: dict[str, Any] = {
        "id": 5, "service": "uk", "label": "CH main", "account_id": 3, "state": "active", "last_error": None,
        "rest_seconds": 0.0, "rest_cause": None, "amounts": (600,), "per_seconds": (300.0,), "used": (590,),
        "calls": 200, "jobs": 100, "limited": 0,
    }  # fmt: skip
    return KeyFacts(**(usual | more))


WELL = Snapshot(
    NOW,
    lists=(a_list(),),
    workers=(a_worker(),),
    newest_claims={WORKER_ID: ago(2)},
    keys=(a_key(),),
    services=(ServiceFacts("uk", 0.0, None),),
    own=OwnFacts(looked_at=ago(3), checked_at=ago(60), disk_free_bytes=10**11, disk_total_bytes=10**12),
)
NOTHING_MOVES = a_list(last_end_at=ago(400), in_progress=0, done_recent=0)


@dataclass(frozen=True)
class Case:
    """What differs from a snapshot in which all is well, and what is found then."""

    rule: str
    differs: Mapping[str, Any]
    subject: str | None = None
    severity: str = ""
    says: str = ""
    name: str = field(default="")


def no(rule: str, name: str, **differs: Any) -> Case:
    return Case(rule, differs, name=name)


CASES = [
    Case("worker_silent", {"workers": (a_worker(seen_at=ago(19), lease_until=ago(-11)),)},
         "host:box", "warning", "1 worker on “box” not heard of for 19 s, holding 8 jobs"),
    no("worker_silent", "a beat or two late", workers=(a_worker(seen_at=ago(17), lease_until=ago(-13)),)),
    no("worker_silent", "stopped", workers=(a_worker(state="stopped", seen_at=ago(900), lease_until=ago(870)),)),
    Case("worker_lost", {"workers": (a_worker(state="lost", is_alive=False, seen_at=ago(500)),) * 2},
         "host:box", "warning", "2 workers on “box” lost"),
    no("worker_lost", "long ago", workers=(a_worker(state="lost", is_alive=False, seen_at=ago(700)),)),
    Case("worker_stuck", {"workers": (a_worker(rows_per_minute=0.0),), "newest_claims": {WORKER_ID: ago(420)}},
         f"worker:{WORKER_ID}", "warning", "holds 8 jobs and has moved none for 7 min"),
    no("worker_stuck", "it waits for keys", keys=(a_key(used=(600,)),),
       workers=(a_worker(rows_per_minute=0.0),), newest_claims={WORKER_ID: ago(420)}),
    no("worker_stuck", "the service rests", services=(ServiceFacts("uk", 9.0, None),),
       workers=(a_worker(rows_per_minute=0.0),), newest_claims={WORKER_ID: ago(420)}),
    no("worker_stuck", "it holds nothing", workers=(a_worker(rows_per_minute=0.0),), newest_claims={}),
    Case("no_workers", {"workers": ()}, "workers", "critical", "No worker is running and 7,412 jobs wait"),
    Case("no_workers", {"workers": (a_worker(services=["us"]),)}, "service:uk", "critical", "No worker runs jobs of uk"),
    no("no_workers", "nothing is due yet", workers=(), lists=(a_list(oldest_due_at=ago(-60)),)),
    no("no_workers", "paused", workers=(), lists=(a_list(state="paused"),)),
    no("no_workers", "it starts tomorrow", workers=(), lists=(a_list(start_at=ago(-86400)),)),
    Case("queue_stuck", {"lists": (NOTHING_MOVES,), "newest_claims": {}},
         "service:uk", "critical", "does not move: 7,412 jobs wait"),
    no("queue_stuck", "jobs were claimed", lists=(NOTHING_MOVES,)),
    no("queue_stuck", "the keys are the brake", lists=(NOTHING_MOVES,), newest_claims={}, keys=(a_key(used=(600,)),)),
    Case("list_starved", {"lists": (a_list(), a_list(id=2, in_progress=0, done_recent=0))},
         "list:2", "warning", "no list goes before it"),
    Case("list_starved", {"lists": (a_list(priority=5), a_list(id=2, in_progress=0, done_recent=0))},
         "list:2", "info", "lists of higher priority go first"),
    no("list_starved", "nothing moves at all", lists=(NOTHING_MOVES,)),
    Case("failure_jump", {"lists": (a_list(done_recent=60, failed_recent=40, failed_before=40),)},
         "list:1", "warning", "40% of list “UK mid-caps” fail now: 40 of 100 jobs"),
    Case("failure_jump", {"lists": (a_list(done_recent=2, failed_recent=40, done_before=0),)}, "list:1", "critical"),
    no("failure_jump", "too few", lists=(a_list(done_recent=0, failed_recent=19),)),
    no("failure_jump", "as before", lists=(a_list(done_recent=60, failed_recent=40, done_before=60, failed_before=40),)),
    no("failure_jump", "new list, a third fails", lists=(a_list(done_recent=60, failed_recent=30, done_before=0),)),
    Case("new_cause", {"causes": (CauseFacts("uk", "parse_error", 3, 3),)},
         "cause:uk:parse_error", "warning", "New: 3 jobs of uk failed with parse_error: The document could not"),
    Case("new_cause", {"causes": (CauseFacts("uk", "never_heard_of", 3, 3),)}, "cause:uk:never_heard_of", "warning"),
    no("new_cause", "older ones are there", causes=(CauseFacts("uk", "parse_error", 3, 4),)),
    no("new_cause", "nothing to fix", causes=(CauseFacts("uk", "not_found", 30, 30),)),
    Case("key_invalid", {"keys": (a_key(), a_key(id=6, state="invalid", last_error="401 bad key"))},
         "key:6", "warning", "Key “CH main” of uk was rejected: 401 bad key"),
    Case("key_invalid", {"keys": (a_key(state="invalid"),)}, "key:5", "critical"),
    no("key_invalid", "a person disabled it", keys=(a_key(state="disabled"),)),
    Case("key_exhausted", {"keys": (a_key(state="exhausted"),)}, "key:5", "critical", "is exhausted"),
    Case("key_resting", {"keys": (a_key(rest_seconds=3600.0, rest_cause="429"),)},
         "account:3", "warning", "rests until 2026-03-05 15:00 UTC: 429"),
    no("key_resting", "a short rest", keys=(a_key(rest_seconds=300.0),)),
    Case("rate_limited", {"keys": (a_key(limited=5),)}, "key:5", "warning", "429 to 5 of its last 200 calls"),
    no("rate_limited", "a window used to its limit is success", keys=(a_key(used=(600,)),)),
    no("rate_limited", "one or two", keys=(a_key(limited=4),)),
    Case("no_usable_key", {"keys": (a_key(state="invalid"),)},
         "service:uk", "critical", "No key of uk can be used: 7,412 jobs wait"),
    Case("no_usable_key", {"keys": (a_key(rest_seconds=900.0),)},
         "service:uk", "critical", "the first is back in 15 min"),
    Case("no_usable_key", {"keys": (), "lists": (NOTHING_MOVES,)}, "service:uk", "critical"),
    no("no_usable_key", "a service that needs none", keys=(), lists=(a_list(service="filings_folder"),)),
    no("no_usable_key", "no work", keys=(a_key(state="invalid"),), lists=()),
    Case("quota_short", {"keys": (a_key(amounts=(20_000,), per_seconds=(86400.0,), used=(6000,)),)},
         "service:uk", "warning", "about 14,840 calls for 7,420 jobs, 14,000 left"),
    no("quota_short", "it is enough", keys=(a_key(amounts=(20_000,), per_seconds=(86400.0,), used=(5000,)),)),
    no("quota_short", "a short window is no quota"),
    no("quota_short", "another account has none",
       keys=(a_key(amounts=(9,), per_seconds=(86400.0,), used=(9,)), a_key(id=6, account_id=4))),
    Case("service_resting", {"services": (ServiceFacts("uk", 90.0, "rate page"),)},
         "service:uk", "warning", "uk is not called for another 1 min: rate page"),
    no("service_resting", "it does not answer: that is said once",
       services=(ServiceFacts("uk", 90.0, "503", 120.0),)),
    Case("service_down", {"services": (ServiceFacts("uk", 90.0, "503", 120.0),)},
         "service:uk", "warning", "uk does not answer, next try in 1 min: 7,412 jobs wait: 503"),
    Case("service_down", {"services": (ServiceFacts("uk", 0.0, None, 1000.0),)},
         "service:uk", "critical", "uk does not answer, next try now"),
    no("service_down", "it rests", services=(ServiceFacts("uk", 90.0, "rate page"),)),
    no("service_down", "nobody wants it", services=(ServiceFacts("us", 0.0, None, 120.0),)),
    no("service_resting", "nobody wants it", services=(ServiceFacts("us", 90.0, None),)),
    Case("list_finished", {"lists": (a_list(state="finished", finished_at=ago(60)),)},
         "list:1", "info", "List “UK mid-caps” is finished: 100 done, 3 failed"),
    no("list_finished", "old news", lists=(a_list(state="finished", finished_at=ago(85_000)),)),
    Case("list_late", {"lists": (a_list(due_by=ago(-7200)),)},
         "list:1", "warning", "7,420 jobs left, ready by 2026-03-05 16:03 UTC, wanted by 2026-03-05 16:00 UTC"),
    Case("list_late", {"lists": (a_list(due_by=ago(60)),)}, "list:1", "critical", "is late"),
    no("list_late", "in time", lists=(a_list(due_by=ago(-8000)),)),
    no("list_late", "too early to tell", lists=(a_list(due_by=ago(-60), done_recent=9, done_before=0),)),
    Case("long_transaction", {"database": DatabaseFacts(Transaction(400.0, "", 4711))},
         "database", "warning", "A transaction of “an unnamed program” has been open for 6 min (server process 4711)"),
    Case("long_transaction", {"database": DatabaseFacts(Transaction(4000.0, "psql", 1))}, "database", "critical"),
    no("long_transaction", "an export", database=DatabaseFacts(Transaction(200.0, "psql", 1))),
    Case("dead_rows", {"database": DatabaseFacts(dead_rows=200_000, live_rows=10_000)}, "database", "warning"),
    no("dead_rows", "few of many", database=DatabaseFacts(dead_rows=200_000, live_rows=10_000_000)),
    Case("connections_short", {"database": DatabaseFacts(connections=90)}, "database", "warning", "90 of 100"),
    no("connections_short", "room", database=DatabaseFacts(connections=89)),
    Case("counts_disagree", {"own": OwnFacts(counts_off=12, checked_at=NOW)}, "counts", "warning", "off by 12 jobs"),
    Case("alerts_undelivered", {"channels": (ChannelFacts("email", 2, 300.0, 4, 0, "550 no"),)},
         "channel:email", "warning", "Alerts do not get out by email: 2 messages waiting for 5 min: 550 no"),
    Case("alerts_undelivered", {"channels": (ChannelFacts("email", 0, 0.0, 0, 1, None),)},
         "channel:email", "warning", "1 given up"),
    no("alerts_undelivered", "on its way", channels=(ChannelFacts("email", 2, 30.0, 4, 0, None),)),
    Case("monitor_away", {"own": OwnFacts(looked_at=ago(3600))},
         "monitor", "warning", "No monitor looked from 2026-03-05 13:00 UTC to 2026-03-05 14:00 UTC"),
    no("monitor_away", "the first look of all", own=OwnFacts()),
    Case("clock_off", {"own": OwnFacts(clock_ahead_seconds=-7.0)}, "clock", "warning", "7 s behind the database's"),
    Case("clock_off", {"own": OwnFacts(looked_at=ago(-60))}, "clock", "warning", "went back by 1 min"),
    Case("disk_full", {"own": OwnFacts(disk_free_bytes=10**9, disk_total_bytes=10**12)}, "disk", "warning", "954 MB"),
    Case("disk_full", {"own": OwnFacts(disk_free_bytes=10**8, disk_total_bytes=10**12)}, "disk", "critical"),
    no("disk_full", "a small disk with room", own=OwnFacts(disk_free_bytes=10**9, disk_total_bytes=10**10)),
]  # fmt: skip


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case.rule}: {case.name or case.says or case.severity}"
)
def test_a_rule_finds_what_it_should_and_nothing_else(case: Case) -> None:
    found = list(RULES[case.rule].judge(replace(WELL, **case.differs)))
    if case.subject is None:
        assert found == []
        return
    (finding,) = found
    assert (finding.subject, finding.severity) == (case.subject, case.severity)
    assert case.says in finding.message


@pytest.mark.parametrize("name", RULES)
def test_every_rule_has_a_case_that_finds_something(name: str) -> None:
    assert any(case.rule == name and case.subject for case in CASES)


def test_nothing_is_found_when_all_is_well() -> None:
    judged = judge(WELL, RULES.values())
    assert (judged.found, judged.broken) == ([], frozenset())


@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_every_rule_says_what_it_means_and_what_to_do(rule: Rule) -> None:
    for text in (rule.meaning, rule.advice):
        assert text.endswith(".")
        assert len(text) < 300


def test_a_broken_rule_silences_no_other_and_is_named(caplog: pytest.LogCaptureFixture) -> None:
    def bug(snapshot: Snapshot) -> Any:
        raise ZeroDivisionError

    rules = [replace(RULES["no_workers"], name="bug", judge=bug), RULES["no_workers"]]
    judged = judge(replace(WELL, workers=()), rules)
    assert [found.rule for found in judged.found] == ["no_workers"]
    assert judged.broken == {"bug"}
    assert "the rule bug is broken" in caplog.text


NAMES = st.one_of(st.text(max_size=8), st.just("a\r\nBcc: b\x00\u2028“" + "x" * 999))
COUNTS = st.integers(0, 2**62)
SECONDS = st.one_of(st.floats(0, 4e8), st.sampled_from([0.0, 0.1, 600.0]))
MOMENTS = st.one_of(
    st.floats(-4e8, 4e8).map(ago), st.just(NOW), st.floats(0, 4e6).map(ago), st.floats(-60, 60).map(ago)
)
SERVICES = st.sampled_from(["uk", "us"])
WORKERS = st.builds(
    a_worker,
    host=NAMES, name=NAMES, services=st.lists(SERVICES), seen_at=MOMENTS, lease_until=MOMENTS,
    state=st.sampled_from(["running", "draining", "stopped", "lost"]), is_alive=st.booleans(),
    rows_per_minute=SECONDS, held=COUNTS, id=st.uuids(),
)  # fmt: skip
LISTS = st.builds(
    a_list,
    id=st.integers(1, 9), name=NAMES, service=SERVICES, state=st.sampled_from(["active", "finished"]),
    start_at=MOMENTS, due_by=st.none() | MOMENTS, finished_at=st.none() | MOMENTS,
    oldest_due_at=st.none() | MOMENTS, last_end_at=st.none() | MOMENTS,
    **dict.fromkeys(("pending", "in_progress", "done", "failed"), COUNTS),
    **dict.fromkeys(("done_recent", "failed_recent", "done_before", "failed_before"), COUNTS),
)  # fmt: skip
KEYS = st.lists(st.tuples(COUNTS, SECONDS, COUNTS), max_size=3).flatmap(
    lambda limits: st.builds(
        a_key,
        id=st.integers(1, 9), service=SERVICES, label=NAMES, account_id=st.integers(1, 4),
        state=st.sampled_from(["active", "invalid", "exhausted", "disabled"]), rest_seconds=st.floats(0, 366 * 86400),
        rest_cause=st.none() | NAMES, last_error=st.none() | NAMES,
        amounts=st.just([limit[0] for limit in limits]), per_seconds=st.just([limit[1] for limit in limits]),
        used=st.just([limit[2] for limit in limits]), calls=COUNTS, jobs=COUNTS, limited=COUNTS,
    )
)  # fmt: skip
SNAPSHOTS = st.builds(
    Snapshot,
    now=st.just(NOW),
    lists=st.lists(LISTS, max_size=4).map(tuple),
    causes=st.lists(st.builds(CauseFacts, SERVICES, st.sampled_from([*CAUSES, "?"]), COUNTS, COUNTS), max_size=3).map(tuple),
    workers=st.lists(WORKERS, max_size=3).map(tuple),
    newest_claims=st.dictionaries(st.uuids(), MOMENTS, max_size=2),
    keys=st.lists(KEYS, max_size=3).map(tuple),
    services=st.lists(st.builds(ServiceFacts, SERVICES, SECONDS, st.none() | NAMES), max_size=2).map(tuple),
    database=st.builds(
        DatabaseFacts, st.none() | st.builds(Transaction, SECONDS, NAMES, COUNTS), COUNTS, COUNTS, COUNTS, COUNTS
    ),
    channels=st.lists(st.builds(ChannelFacts, st.just("email"), COUNTS, SECONDS, COUNTS, COUNTS, st.none() | NAMES), max_size=2).map(tuple),
    own=st.builds(
        OwnFacts, st.none() | MOMENTS, COUNTS, st.none() | MOMENTS, st.floats(-4e8, 4e8), st.none() | COUNTS, st.none() | COUNTS
    ),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(SNAPSHOTS)
def test_no_snapshot_breaks_a_rule(snapshot: Snapshot) -> None:
    claims = {worker.id: ago(9000) for worker in snapshot.workers}
    judged = judge(replace(snapshot, newest_claims=claims), RULES.values())
    assert judged.broken == frozenset()
    for found in judged.found:
        assert found.severity in set(Severity)
        assert found.link.startswith("/")
        assert found.message
        assert len(found.message) < 700
        assert found.message.isprintable()
