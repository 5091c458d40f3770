"""An export is a snapshot: every row once, as of one moment, in the order of the file."""

from __future__ import annotations

import csv
import io
import random
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from threading import Event, Semaphore

import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from store import claims, export, jobs
from store.claims import Claim, Settlement
from store.cleaning import to_json
from store.export import harmless
from store.jobs import NewJob
from store.states import Outcome, Status
from store.workers import Identity

A = Callable[..., int]
Connect = Callable[[], psycopg.Connection]
FIELDS = ["name", "total", "note"]


@pytest.fixture
def settled(
    conn: psycopg.Connection,
    a_key: A,
    a_list: A,
    a_worker: Callable[..., Identity],
    take: Callable[..., list[Claim]],
    settlement: Callable[..., Settlement],
) -> int:
    """A list with a row of every kind; its id."""
    a_key(conn)
    list_id = a_list(conn, 4)
    done, failed, _held = take(conn, a_worker(conn), 3)
    values = {"name": 'Bø & "Sons",\nLtd', "total": Decimal("-1234567890123456789.50"), "note": None}
    claims.settle(
        conn,
        [
            settlement(done, outcome=Outcome.PARTIAL, result=to_json({"values": values})),
            settlement(failed, Status.FAILED, message="=HYPERLINK(1)"),
        ],
    )
    return list_id


def parsed(chunks: Iterable[str]) -> list[list[str]]:
    return list(csv.reader(io.StringIO("".join(chunks), newline="")))


def test_every_row_is_there_with_its_values_exact(conn: psycopg.Connection, settled: int) -> None:
    assert list(export.rows(conn, settled, FIELDS)) == [
        [
            "00000001",
            "Company 1",
            "done",
            "partial",
            "",
            "",
            'Bø & "Sons",\nLtd',
            "-1234567890123456789.5",
            "",
        ],
        ["00000002", "Company 2", "failed", "", "not_found", "=HYPERLINK(1)", "", "", ""],
        ["00000003", "Company 3", "in_progress", "", "", "", "", "", ""],
        ["00000004", "Company 4", "pending", "", "", "", "", "", ""],
    ]


def test_csv_has_a_header_and_defused_cells(conn: psycopg.Connection, settled: int) -> None:
    lines = parsed(export.as_csv(conn, settled, FIELDS))
    assert lines[0] == ["company", "name", "status", "outcome", "cause", "message", *FIELDS]
    assert lines[1][6:] == ['Bø & "Sons",\nLtd', "-1234567890123456789.5", ""]
    assert lines[2][5] == "'=HYPERLINK(1)"
    assert len(lines) == 5


def test_columns_stay_in_their_order_whatever_a_row_holds(conn: psycopg.Connection, settled: int) -> None:
    lines = parsed(export.as_csv(conn, settled, ["note", "absent", "total"]))
    assert lines[0][6:] == ["note", "absent", "total"]
    assert lines[1][6:] == ["", "", "-1234567890123456789.5"]
    assert {len(line) for line in lines} == {9}


def test_a_field_name_is_text_and_no_statement(conn: psycopg.Connection, settled: int) -> None:
    odd = "x' || (SELECT 'y') || '%s{}"
    lines = parsed(export.as_csv(conn, settled, [odd, "=1+1"]))
    assert lines[0][6:] == [odd, "'=1+1"]
    assert lines[1][6:] == ["", ""]


def test_rows_come_in_the_order_of_the_file_and_added_ones_last(conn: psycopg.Connection, a_list: A) -> None:
    list_id = a_list(conn)
    with conn.transaction():
        jobs.enqueue(conn, list_id, [NewJob("unknown line"), NewJob("c", line=3), NewJob("a", line=1)])
    with conn.transaction():
        jobs.enqueue(conn, list_id, [NewJob("b", line=2)])
    assert [row[0] for row in export.rows(conn, list_id, [])] == ["a", "b", "c", "unknown line"]


def test_a_value_longer_than_a_csv_reader_expects_is_exported_whole(
    conn: psycopg.Connection, settled: int
) -> None:
    value = ["x" * 90_000] * 20
    conn.execute("UPDATE job SET result = %s WHERE status = 'done'", (to_json({"values": {"note": value}}),))
    (cell,) = next(iter(export.rows(conn, settled, ["note"])))[6:]
    assert len(cell) > 1_800_000


def test_an_export_is_as_of_one_moment_while_a_writer_changes_rows(
    dsn: str, connect: Connect, a_list: A
) -> None:
    """The writer moves one job from cancelled to pending with each that it moves the other way."""
    setup, reading, writing = connect(), connect(), connect()
    list_id = a_list(setup, 3000)
    setup.execute("UPDATE job SET status = 'cancelled', ended_at = now() WHERE line <= 1000")
    stop, written = Event(), Semaphore(0)

    def write() -> None:
        chance = random.Random(1)
        while not stop.is_set():
            with writing.transaction():
                first = chance.randint(1, 2001)
                back = "UPDATE job SET status = 'pending', ended_at = NULL WHERE status = 'cancelled'"
                away = "UPDATE job SET status = 'cancelled', ended_at = now() WHERE line BETWEEN %s AND %s"
                writing.execute(back)
                writing.execute(away, (first, first + 999))
            written.release()

    with ThreadPoolExecutor(1) as thread:
        writer = thread.submit(write)
        try:
            for _ in range(10):
                assert written.acquire(timeout=10)
                seen = [(row[0], row[2]) for row in export.rows(reading, list_id, [])]
                assert [company for company, _ in seen] == [f"{line:08}" for line in range(1, 3001)]
                cancelled = [int(company) for company, status in seen if status == "cancelled"]
                assert cancelled == list(range(cancelled[0], cancelled[0] + 1000))
        finally:
            stop.set()
        writer.result(10)


def test_nobody_reading_slowly_holds_a_transaction(dsn: str, connect: Connect, a_list: A) -> None:
    one, watcher = connect(), connect()
    reading = iter(export.rows(one, a_list(one, 2000), []))
    next(reading)
    state = watcher.execute("SELECT state FROM pg_stat_activity WHERE pid = %s", (one.info.backend_pid,))
    assert state.fetchone() == ("idle",)
    assert len(list(reading)) == 1999


def test_a_large_list_comes_in_chunks(conn: psycopg.Connection, a_list: A) -> None:
    chunks = list(export.as_csv(conn, a_list(conn, 5000), FIELDS))
    assert len(chunks) > 2
    assert max(map(len, chunks)) < 2 * export.CHUNK
    assert len(parsed(iter(chunks))) == 5001


@pytest.mark.parametrize(
    "cell",
    ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "-", "=", "-1e5", "+1,5"],
)
def test_a_cell_that_a_spreadsheet_would_run_is_defused(cell: str) -> None:
    assert harmless(cell) == "'" + cell


@pytest.mark.parametrize("cell", ["", "-5", "+5", "-1234.50", "5", "a=1", "Müller - Söhne", "'=1", "0"])
def test_numbers_and_plain_text_stay_as_they_are(cell: str) -> None:
    assert harmless(cell) == cell


@given(st.text())
def test_no_cell_but_a_number_begins_like_a_formula(cell: str) -> None:
    shown = harmless(cell)
    assert shown.endswith(cell)
    if shown[:1] in {"=", "+", "-", "@", "\t", "\r", "\n"}:
        float(shown)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4))
def test_a_number_is_never_changed(number: Decimal) -> None:
    assert harmless(f"{number:f}") == f"{number:f}"
