"""A program of ours starts, or says in one line why not."""

from __future__ import annotations

import psycopg
import pytest

from store import settings, start
from store.start import CannotStart


def test_a_database_that_fits_is_ready(dsn: str) -> None:
    with start.ready_database(settings.read({"DATABASE_URL": dsn})) as url, psycopg.connect(url) as conn:
        assert conn.execute("SELECT count(*) FROM job").fetchone() == (0,)


def test_a_wrong_setting_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PORT", "many")
    with pytest.raises(CannotStart, match=r"^PORT is many: [^\n]+$"):
        start.read_settings()


def test_a_database_that_does_not_answer_is_one_line() -> None:
    nobody = settings.read({"DATABASE_URL": "postgresql://user:hush@127.0.0.1:1/none"})
    with (
        pytest.raises(
            CannotStart, match=r"^The database of DATABASE_URL does not answer: [^\n]+$"
        ) as refused,
        start.reachable_database(nobody),
    ):
        pass
    assert "hush" not in str(refused.value)


def test_a_database_of_another_schema_is_reachable_and_not_ready(dsn: str) -> None:
    with psycopg.connect(dsn) as conn:
        conn.execute("UPDATE alembic_version SET version_num = '0000'")
    chosen = settings.read({"DATABASE_URL": dsn})
    with start.reachable_database(chosen) as url:
        assert url == dsn
    with pytest.raises(CannotStart, match="flask db upgrade"), start.ready_database(chosen):
        pass
