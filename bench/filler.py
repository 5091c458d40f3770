"""`python -m bench.filler`: the worker itself, with one service that is asked nothing and fills 1 KB."""

from __future__ import annotations

import sys

import psycopg

from services.extraction import Company, Extraction, Fields, Options, Value
from services.service import Field, Kind, Service
from services.verdicts import Usable
from store import jobs, lists
from store.jobs import NewJob
from store.lists import NewList
from worker.__main__ import main

NAMES = [f"line_{n}" for n in range(1, 5)]
LINE = " ".join(["The quick brown fox jumps over the lazy dog."] * 5)


def _fill(company: Company, options: Options) -> Extraction:
    yield from ()
    return Fields({name: Value(f"{company.number} {LINE}") for name in options.fields})


FILLER = Service(
    name="filler",
    title="Filler",
    key_is="nothing",
    hosts={},
    headers=lambda _secret: {},
    check_secret=lambda _secret: None,
    limits=(),
    fields=tuple(Field(name, Kind.TEXT, required=True) for name in NAMES),
    identify=str,
    extract=_fill,
    judge=lambda _status, _headers, _body, _now: Usable(),
    probe="1",
    needs_key=False,
)


def a_list(conn: psycopg.Connection, name: str, size: int) -> int:
    """A list of so many companies for the service; returns its id."""
    list_id = lists.create(conn, NewList(name, FILLER.name, NAMES, NAMES))
    with conn.transaction():
        jobs.enqueue(
            conn, list_id, (NewJob(f"{line:08}", f"Company {line}", line=line) for line in range(size))
        )
    return list_id


if __name__ == "__main__":
    sys.exit(main(services={FILLER.name: FILLER}))
