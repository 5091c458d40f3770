"""A job is seen with what its list says of it."""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from store import job_details

A = Callable[..., int]


def test_a_job_is_seen_with_its_list(conn: psycopg.Connection, a_list: A) -> None:
    a_list(conn, 1, name="quarterly")
    (job_id,) = conn.execute("SELECT id FROM job").fetchall()[0]
    job = job_details.see(conn, job_id)
    assert job
    assert (job.list, job.service, job.company, job.status) == (
        "quarterly",
        "registry",
        "00000001",
        "pending",
    )
    assert job_details.see(conn, job_id + 1) is None
