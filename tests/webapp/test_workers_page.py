"""Workers' pages: who works and who ended; one is drained, and hears of it at its next beat."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import psycopg
import pytest
from flask.testing import FlaskClient

from store import claims, workers
from store.workers import Identity, Vitals

AWorker = Callable[..., UUID]
Post = Callable[..., Any]
Notices = Callable[[FlaskClient, Any], str]


def state_of(web: psycopg.Connection, worker: UUID) -> str:
    return next(one.state for one in workers.see(web) if one.id == worker)


def ended(web: psycopg.Connection, worker: UUID, state: str, ago: str = "10 minutes") -> None:
    web.execute(
        "UPDATE worker SET state = %s, ended_at = now() - %s::interval WHERE id = %s", (state, ago, worker)
    )


def test_running_workers_and_those_that_ended_within_a_day_are_shown(
    web: psycopg.Connection, viewer: FlaskClient, a_worker: AWorker, a_key: Callable[..., int]
) -> None:
    key_id = a_key("CH main")
    busy, late, lost, old = a_worker(held=3), a_worker(), a_worker(), a_worker()
    web.execute(
        "UPDATE worker SET memory_bytes = 92000000, rows_per_minute = 94, keys_in_use = %s WHERE id = %s",
        ([key_id], busy),
    )
    web.execute("UPDATE worker SET seen_at = now() - interval '20 seconds' WHERE id = %s", (late,))
    ended(web, lost, "lost")
    ended(web, old, "stopped", "2 days")
    page = viewer.get("/workers").text
    running, gone = page.split("Ended in the last day")
    for words in ("Working", "3 of 8", "94/min", "92.0 MB", "CH main", "Late"):
        assert words in running
    assert f"worker-{lost}" in gone
    assert "Lost" in gone
    assert str(old) not in page
    assert "3 of 8" in viewer.get(f"/workers/{busy}").text


def test_a_drained_worker_hears_of_it_and_claims_no_more(
    web: psycopg.Connection,
    operator: FlaskClient,
    a_worker: AWorker,
    a_key: Callable[..., int],
    a_list: Callable[..., int],
    post: Post,
    notices: Notices,
) -> None:
    a_key("CH main")
    a_list(3)
    worker = a_worker(held=2)
    said = notices(operator, post(operator, f"/workers/{worker}/drain"))
    assert "is draining. 2 jobs in progress will finish" in said
    assert claims.claim(web, worker, "companies_house", None, n=3, soon_seconds=2.0).claims == []
    who = Identity(worker, "w", "h", 1, "0", None, ["companies_house"], 8)
    vitals = Vitals(False, 2, 0, 0.0, 0, [])
    assert workers.tick(web, who, vitals, lease_seconds=30.0, direct=False).state == "draining"
    again = notices(operator, post(operator, f"/workers/{worker}/drain"))
    assert "Nothing was changed" in again
    assert "it is draining" in again


@pytest.mark.parametrize("state", ["lost", "stopped"])
def test_a_worker_that_ended_is_not_drained(
    web: psycopg.Connection,
    operator: FlaskClient,
    a_worker: AWorker,
    post: Post,
    notices: Notices,
    state: str,
) -> None:
    worker = a_worker()
    ended(web, worker, state)
    assert f"it is {state}" in notices(operator, post(operator, f"/workers/{worker}/drain"))
    assert state_of(web, worker) == state
    assert "Drain" not in operator.get(f"/workers/{worker}").text


def test_a_worker_whose_lease_has_run_out_is_not_drained(web: psycopg.Connection, a_worker: AWorker) -> None:
    worker = a_worker()
    web.execute("UPDATE worker SET lease_until = now()")
    assert not workers.drain(web, worker)


def test_a_viewer_sees_no_button_and_may_not_drain(
    web: psycopg.Connection, viewer: FlaskClient, operator: FlaskClient, a_worker: AWorker, post: Post
) -> None:
    worker = a_worker()
    assert "Drain" in operator.get("/workers").text
    for path in ("/workers", f"/workers/{worker}"):
        page = viewer.get(path).text
        assert "Drain" not in page
        assert 'method="post"' not in page
    assert post(viewer, f"/workers/{worker}/drain").status_code == 403
    assert operator.post(f"/workers/{worker}/drain").status_code == 400
    assert state_of(web, worker) == "running"


def test_hostile_text_is_text(
    web: psycopg.Connection,
    operator: FlaskClient,
    a_worker: AWorker,
    hostile: str,
    is_text: Callable[[str], bool],
) -> None:
    worker = a_worker()
    web.execute(
        "UPDATE worker SET name = %(x)s, host = %(x)s, version = %(x)s, key_set = %(x)s", {"x": hostile}
    )
    assert is_text(operator.get("/workers").text)
    assert is_text(operator.get(f"/workers/{worker}").text)


def test_many_workers_ask_as_many_questions_as_one(
    web: psycopg.Connection,
    viewer: FlaskClient,
    a_worker: AWorker,
    expire: Callable[[], None],
    statements: list[str],
) -> None:
    def asked() -> int:
        expire()
        statements.clear()
        assert viewer.get("/workers").status_code == 200
        return len(statements)

    a_worker()
    few = asked()
    for _ in range(20):
        ended(web, a_worker(), "stopped")
        a_worker(held=1)
    assert asked() == few


def test_no_worker_is_said_with_what_waits(
    web: psycopg.Connection, viewer: FlaskClient, a_list: Callable[..., int]
) -> None:
    a_list(1)
    page = viewer.get("/workers").text
    assert "No worker is running." in page
    assert "1 job waits." in page


@pytest.mark.parametrize("path", ["/workers/1", "/workers/00000000-0000-4000-8000-000000000000"])
def test_a_worker_that_is_not_there_is_not_found(
    web: psycopg.Connection, viewer: FlaskClient, path: str
) -> None:
    assert viewer.get(path).status_code == 404
    assert "not there any more" in viewer.get("/panels/worker?worker=x").text
