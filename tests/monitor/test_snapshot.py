from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import LiteralString, cast
from uuid import uuid4

import psycopg
import pytest

from monitor import snapshot
from monitor.look import look
from monitor.rule import judge
from monitor.rules import RULES
from store import alerts, claims, jobs, lists, pulse, tally, workers
from store.claims import Settlement
from store.jobs import NewJob
from store.lists import NewList
from store.pulse import Leader
from store.states import Outcome, Status
from store.workers import Identity

HERE = Path(__file__).parent
ASKED = {"recent": 300.0, "span": 3900.0}


def a_list(conn: psycopg.Connection, size: int, name: str = "UK mid-caps") -> int:
    list_id = lists.create(conn, NewList(name, "uk", fields=["total"]))
    with conn.transaction():
        jobs.enqueue(conn, list_id, (NewJob(f"{line:08}", None, line=line) for line in range(size)))
    return list_id


def a_worker(conn: psycopg.Connection) -> Identity:
    who = Identity(uuid4(), "box · 1", "box", 1, "0", None, ["uk"], 8)
    workers.register(conn, who, 30.0)
    return who


def test_the_snapshot_holds_what_the_rules_ask_for(db: psycopg.Connection, a_key: Callable[..., int]) -> None:
    list_id, who, key_id = a_list(db, 10), a_worker(db), a_key(db, "CH main")
    taken = claims.claim(db, who.id, "uk", None, n=4, soon_seconds=2.0).claims
    ends = [
        Settlement(c.id, c.worker, c.claim_no, Status.FAILED, cause="parse_error", message="no")
        for c in taken[:3]
    ]
    claims.settle(db, ends)
    for fold in (False, True):
        if fold:
            tally.fold(db)
        seen = snapshot.take(db, HERE)
        (row,) = seen.lists
        assert (row.id, row.pending, row.in_progress, row.failed, row.failed_recent) == (list_id, 6, 1, 3, 3)
        assert row.oldest_due_at is not None
        assert row.last_end_at is not None
        assert list(seen.newest_claims) == [who.id]
    assert [(c.cause, c.recent, c.total) for c in seen.causes] == [("parse_error", 3, 3)]
    assert [(k.id, k.free, k.state) for k in seen.keys] == [(key_id, 600, "active")]
    assert seen.alive_workers("uk")[0].id == who.id
    assert seen.database.connections >= 1
    assert seen.own.disk_total_bytes
    assert abs(seen.own.clock_ahead_seconds) < 5


def test_a_done_job_counts_as_done(db: psycopg.Connection, a_key: Callable[..., int]) -> None:
    a_list(db, 1)
    who = a_worker(db)
    a_key(db, "CH main")
    (taken,) = claims.claim(db, who.id, "uk", None, n=4, soon_seconds=2.0).claims
    end = Settlement(
        taken.id, taken.worker, taken.claim_no, Status.DONE, outcome=Outcome.COMPLETE, result='{"values": {}}'
    )
    claims.settle(db, [end])
    lists.finish(db)
    (row,) = snapshot.take(db, HERE).lists
    assert (row.state, row.done, row.done_recent, row.oldest_due_at) == ("finished", 1, 1, None)


def test_calls_are_counted_from_the_last_200_of_each_key(
    db: psycopg.Connection, a_key: Callable[..., int]
) -> None:
    key_id = a_key(db, "CH main")
    db.execute(
        """INSERT INTO call (job_id, claim_no, worker, key_id, request, verdict, waited_ms, took_ms,
                             body_bytes, sent_at)
           SELECT n / 2, 1, gen_random_uuid(), %s, '/', CASE WHEN n <= 10 THEN 'key_rests' ELSE 'usable' END,
                  0, 0, 0, now() - n * interval '0.5 seconds' FROM generate_series(1, 1000) n""",
        (key_id,),
    )
    (key,) = snapshot.take(db, HERE).keys
    assert (key.calls, key.jobs, key.limited) == (200, 101, 10)


def test_no_statement_reads_the_job_table_as_a_whole(
    db: psycopg.Connection, a_key: Callable[..., int]
) -> None:
    """Not right after an import, when nothing is known of the table, and not later."""
    a_list(db, 20_000)
    a_key(db, "CH main")
    for _ in range(2):
        for name in ("LISTS", "CAUSES", "NEWEST_CLAIMS", "KEYS", "SERVICES", "SERVER", "CHANNELS"):
            statement = cast(LiteralString, "EXPLAIN " + getattr(snapshot, name))
            plan = "\n".join(line for (line,) in db.execute(statement, ASKED))
            assert "Seq Scan on job" not in plan, name
            assert "job_pkey" not in plan, name
        db.execute("ANALYZE")


def test_a_rejected_key_is_told_once_however_it_flaps(
    db: psycopg.Connection, a_key: Callable[..., int]
) -> None:
    key_id = a_key(db, "CH trial", "invalid")
    for turn in range(20):
        state = "active" if turn % 2 else "invalid"
        db.execute("UPDATE key SET state = %s WHERE id = %s", (state, key_id))
        assert look(db, ["email"], HERE) is (turn == 0)
    assert db.execute("SELECT count(*) FROM delivery").fetchone() == (1,)
    (seen,) = alerts.see_open(db)
    assert (seen.rule, seen.seen, seen.told) == ("key_invalid", 10, 1)


def test_two_looks_at_once_tell_once(
    db: psycopg.Connection, other: psycopg.Connection, a_key: Callable[..., int]
) -> None:
    """Both have seen the same before either writes."""
    from monitor.look import _changes, apply

    a_key(db, "CH trial", "invalid")
    seen = snapshot.take(db, HERE)
    judged = judge(seen, RULES.values())
    alerts.watch(db, judged.found, seen.now)
    wanted = _changes(db, judged, seen.now)
    assert wanted == _changes(other, judged, seen.now)
    assert apply(db, wanted, ["email"], seen.now)
    assert not apply(other, wanted, ["email"], seen.now)
    assert db.execute("SELECT count(*) FROM delivery").fetchone() == (1,)


def test_a_resolved_alert_is_told_when_the_key_is_back(
    db: psycopg.Connection, a_key: Callable[..., int]
) -> None:
    key_id = a_key(db, "CH trial", "invalid")
    look(db, ["email"], HERE)
    db.execute("UPDATE key SET state = 'active' WHERE id = %s", (key_id,))
    look(db, ["email"], HERE)
    db.execute("UPDATE alert SET clear_from = clear_from - interval '61 seconds'")
    assert look(db, ["email"], HERE)
    kinds = [kind for (kind,) in db.execute("SELECT kind FROM delivery ORDER BY id")]
    assert kinds == ["opened", "resolved"]
    assert alerts.see_open(db) == []


def test_a_muted_alert_is_shown_and_not_told(db: psycopg.Connection, a_key: Callable[..., int]) -> None:
    key_id = a_key(db, "CH trial", "invalid")
    look(db, ["email"], HERE)
    (seen,) = alerts.see_open(db)
    alerts.mute(db, seen.id, datetime.now(UTC) + timedelta(hours=1), "a new one is ordered", "ops")
    db.execute("UPDATE key SET state = 'active' WHERE id = %s", (key_id,))
    look(db, ["email"], HERE)
    db.execute("UPDATE alert SET clear_from = clear_from - interval '61 seconds'")
    look(db, ["email"], HERE)
    db.execute("UPDATE key SET state = 'invalid' WHERE id = %s", (key_id,))
    look(db, ["email"], HERE)
    (again,) = alerts.see_open(db)
    assert (again.id != seen.id, again.told, again.mute_reason) == (True, 0, "a new one is ordered")
    assert db.execute("SELECT count(*) FROM delivery").fetchone() == (1,)


def test_channels_that_do_not_deliver_are_seen(db: psycopg.Connection, a_key: Callable[..., int]) -> None:
    pulse.lead(db, Leader(uuid4(), "test", "0", ["email", "webhook"]), 30.0)
    a_key(db, "CH trial", "invalid")
    look(db, ["email"], HERE)
    db.execute("UPDATE delivery SET tries = 3, created_at = now() - interval '5 minutes', last_error = 'no'")
    email, webhook = snapshot.take(db, HERE).channels
    assert (email.waiting, email.tries, email.last_error) == (1, 3, "no")
    assert email.oldest_seconds == pytest.approx(300, abs=5)
    assert (webhook.waiting, webhook.last_error) == (0, None)
