"""Alembic's entry: runs migrations on the app's database, one runner at a time."""

from __future__ import annotations

from typing import Any

from alembic import context
from flask import current_app
from sqlalchemy import text

# Any number that no other user of the database locks; the second runner waits for the first.
RUNNER_LOCK = 5_782_301


def is_declared(_object: Any, name: str | None, kind: str, _reflected: bool, _other: Any) -> bool:
    """Leave out the partitions: they come and go with time and are no part of the models."""
    return not (kind == "table" and name is not None and name.startswith(("answer_", "call_")))


def run() -> None:
    database = current_app.extensions["migrate"].db
    with database.engine.connect() as connection:
        context.configure(
            connection=connection,
            target_metadata=database.metadata,
            include_object=is_declared,
            transaction_per_migration=True,
        )
        connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": RUNNER_LOCK})
        connection.commit()
        try:
            with context.begin_transaction():
                context.run_migrations()
        finally:
            connection.rollback()
            connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": RUNNER_LOCK})
            connection.commit()


run()
