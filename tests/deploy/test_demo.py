"""`make demo` goes on when its database is killed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psycopg
import pytest

from deploy.demo import revive_database
from store import start
from store.embedded import Server


def test_a_killed_embedded_server_is_started_again_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setattr(start, "VAR", tmp_path)
    with Server(tmp_path) as server:
        url = server.url
        postmaster = int((server.home / "data" / "postmaster.pid").read_text().splitlines()[0])
        os.kill(postmaster, signal.SIGKILL)
        assert revive_database()
        with psycopg.connect(url) as conn:  # the same port, and not stopped by who revived it
            assert conn.execute("SELECT 1").fetchone() == (1,)


def test_somebody_elses_server_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    assert not revive_database()
