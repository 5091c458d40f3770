"""What no job was made of is kept, with why."""

from __future__ import annotations

from collections.abc import Callable

import psycopg

from store import lists, rejects
from store.rejects import Rejected

A = Callable[..., int]


def test_rejected_lines_are_kept_in_the_order_of_the_file(conn: psycopg.Connection, a_list: A) -> None:
    list_id = a_list(conn)
    rejects.keep(conn, list_id, [Rejected(7, "x\x00" * 900, "no number"), Rejected(2, "", "empty")])
    rejects.keep(conn, list_id, [Rejected(2, "", "empty")])  # the same file again
    rejects.keep(conn, list_id, [Rejected(2, "of another file", "no number")])
    kept = rejects.see(conn, list_id)
    assert [(r.line, r.reason) for r in kept] == [(2, "empty"), (2, "no number"), (7, "no number")]
    assert len(kept[2].content) <= 500
    assert lists.see(conn)[0].rejects == 3
