"""Services that fail, keys that are refused, pauses: the right one pays and the rest goes on."""

from __future__ import annotations

from typing import Any

import pytest

UK, US = "companies_house", "sec_edgar"


def _key_states(scene: Any) -> dict[str, str]:
    return dict(scene.db.execute("SELECT label, state FROM key").fetchall())


def test_a_service_error_that_goes_away_costs_no_attempt(scene: Any) -> None:
    scene.sandbox([(US, "us1", "60/s")])
    scene.add_key(US, "us1", "50/s")
    list_id = scene.add_list(US, only=6)
    scene.faults({"match": ".*", "kind": "status", "status": 503, "count": 8})
    scene.worker()
    scene.until(scene.ended, 30.0)
    assert scene.differences(list_id) == []
    attempts, faults = scene.db.execute("SELECT sum(attempts), sum(faults) FROM job").fetchone()
    assert attempts == 0
    assert 5 <= faults <= 8  # once the circuit is open, a job that tries pays nothing


@pytest.mark.parametrize(
    ("service", "match"), [(US, ".*"), (UK, "^/company/"), (UK, "^/document/"), (UK, "^/storage/")]
)
def test_cut_and_garbled_answers_are_asked_for_again(scene: Any, service: str, match: str) -> None:
    scene.sandbox([(service, "one", "60/s")])
    scene.add_key(service, "one", "50/s")
    list_id = scene.add_list(service, only=6)
    scene.faults({"match": match, "kind": "cut", "count": 3}, {"match": match, "kind": "garbage", "count": 3})
    scene.worker()
    scene.until(scene.ended, 30.0)
    assert scene.differences(list_id) == []
    assert scene.summary()["repeated"] == 0


def test_a_key_that_becomes_invalid_is_disabled_once_and_the_others_go_on(scene: Any) -> None:
    keys = [(UK, label, "30/s") for label in ("bad", "good", "fine")]
    scene.sandbox(keys, "--latency", "50ms")
    for service, label, _ in keys:
        scene.add_key(service, label, "20/s")
    list_id = scene.add_list(UK, only=16)
    scene.faults({"match": ".*", "kind": "key_invalid", "key": "bad"})
    workers = [scene.worker("--slots", "4") for _ in range(2)]
    scene.until(scene.ended, 30.0)
    assert scene.differences(list_id) == []
    assert _key_states(scene) == {"bad": "invalid", "good": "active", "fine": "active"}
    assert sum(worker.log.count("companies_house: reject") for worker in workers) == 1
    assert scene.stats()["keys"]["bad"]["calls"] <= 2 * 4 + 16  # those under way, and a block of permits
    harmed = "SELECT count(*) FROM job WHERE status = 'done' AND attempts + losses > 0"
    assert scene.db.execute(harmed).fetchone() == (0,)


def test_without_a_valid_key_jobs_wait_unharmed_and_run_when_one_is_added(scene: Any) -> None:
    keys = [(UK, label, "60/s") for label in ("bad", "worse", "good")]
    scene.sandbox(keys)
    for label in ("bad", "worse"):
        scene.add_key(UK, label, "50/s")
        scene.faults({"match": ".*", "kind": "key_invalid", "key": label})
    list_id = scene.add_list(UK, only=12)
    worker = scene.worker()
    scene.until(lambda: set(_key_states(scene).values()) == {"invalid"})
    scene.until(lambda: scene.rows() == {"pending": 12})
    harm = "SELECT sum(attempts + losses + faults) FROM job"
    assert scene.db.execute(harm).fetchone() == (0,)
    calls = scene.stats()["calls"]
    scene.until(lambda: "no_key" in str(scene.db.execute("SELECT cause FROM job").fetchall()))
    assert scene.stats()["calls"] == calls
    scene.add_key(UK, "good", "50/s")
    scene.until(scene.ended)
    assert scene.differences(list_id) == []
    assert worker.runs()


def test_a_quota_that_is_used_up_takes_only_its_key_out(scene: Any) -> None:
    keys = [(UK, label, "60/s") for label in ("poor", "rich")]
    scene.sandbox(keys)
    for service, label, _ in keys:
        scene.add_key(service, label, "50/s")
    scene.faults({"match": ".*", "kind": "key_exhausted", "key": "poor"})
    list_id = scene.add_list(UK, only=12)
    scene.worker()
    scene.until(scene.ended)
    assert scene.differences(list_id) == []
    assert _key_states(scene)["rich"] == "active"
    assert _key_states(scene)["poor"] in ("exhausted", "active")


def test_the_rate_page_of_the_sec_stops_all_its_work_and_no_other(scene: Any) -> None:
    scene.sandbox([(US, "us1", "60/s"), (UK, "uk1", "60/s")], "--latency", "50ms")
    scene.add_key(US, "us1", "50/s")
    scene.add_key(UK, "uk1", "50/s")
    scene.faults({"match": ".*", "kind": "rate_storm", "service": US, "count": 1})
    us, uk = scene.add_list(US, only=16), scene.add_list(UK, only=16)
    workers = [scene.worker("--slots", "4") for _ in range(2)]
    resting = "SELECT rest_until > now() + interval '9 minutes' FROM service WHERE name = 'sec_edgar'"
    scene.until(lambda: scene.db.execute(resting).fetchone() == (True,))
    in_progress = "SELECT count(*) FROM job WHERE list_id = %s AND status = 'in_progress'"
    scene.until(lambda: scene.db.execute(in_progress, (us,)).fetchone() == (0,))
    calls = scene.stats()["keys"]["us1"]["calls"]
    ended = "SELECT count(*) FROM job WHERE list_id = %s AND status IN ('pending', 'in_progress')"
    scene.until(lambda: scene.db.execute(ended, (uk,)).fetchone() == (0,))
    assert scene.differences(uk) == []
    assert scene.stats()["keys"]["us1"]["calls"] == calls
    assert scene.db.execute(
        "SELECT sum(attempts + faults + losses) FROM job WHERE list_id = %s", (us,)
    ).fetchone() == (0,)
    assert sum(worker.log.count("sec_edgar: rest_service") for worker in workers) == 1
    scene.db.execute("UPDATE service SET rest_until = now() WHERE name = 'sec_edgar'")  # an operator may
    scene.until(scene.ended)
    assert scene.differences(us) == []
