"""Keys of one account share its limits."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from store import keys
from store.accounts import LimitsDiffer

A = Callable[..., int]


def test_keys_of_one_account_have_one_set_of_limits(conn: psycopg.Connection, a_key: A) -> None:
    a_key(conn, "10/s", "600/5m", account="shared")
    a_key(conn, "10/s", "600/5m", account="shared")
    with pytest.raises(LimitsDiffer, match="Account “shared” of registry has 10/s, 600/5m"):
        a_key(conn, "10/s", account="shared")
    assert len(keys.see(conn)) == 2
    assert conn.execute("SELECT count(*) FROM account").fetchone() == (1,)
