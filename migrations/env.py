"""Alembic's entry: runs migrations on the app's database, one runner at a time, and says what came of it."""

from __future__ import annotations

from typing import Any

import click
from alembic import context
from flask import current_app
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

# Any number that no other user of the database locks; the second runner waits for the first.
RUNNER_LOCK = 5_782_301


def is_declared(_object: Any, name: str | None, kind: str, _reflected: bool, _other: Any) -> bool:
    """Leave out the partitions: they come and go with time and are no part of the models."""
    return not (kind == "table" and name is not None and name.startswith(("answer_", "call_")))


def run() -> None:
    database = current_app.extensions["migrate"].db
    try:
        with database.engine.connect() as connection:
            migrate(connection, database.metadata)
    except DBAPIError as error:
        raise click.ClickException(f"Nothing was changed. The database refused: {in_short(error)}") from None


def migrate(connection: Connection, metadata: Any) -> None:
    context.configure(
        connection=connection,
        target_metadata=metadata,
        include_object=is_declared,
        transaction_per_migration=True,
    )
    connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": RUNNER_LOCK})
    connection.commit()
    try:
        before = revisions()
        refuse_unknown()
        with context.begin_transaction():
            context.run_migrations()
        if "destination_rev" in context.get_context().opts:  # it moves the schema and does not only look
            after = revisions()
            click.echo(
                f"The schema is {after}." if after == before else f"The schema is {after}, it was {before}."
            )
    finally:
        connection.rollback()
        connection.execute(text("SELECT pg_advisory_unlock(:lock)"), {"lock": RUNNER_LOCK})
        connection.commit()


def refuse_unknown() -> None:
    """Raise `click.ClickException` when the database has a schema of which this program knows nothing."""
    known = {one.revision for one in context.script.walk_revisions()}
    if set(context.get_context().get_current_heads()) - known:
        raise click.ClickException(
            f"The database's schema is {revisions()}, newer than this program's"
            f" {context.script.get_current_head()}. Install the newer program, or restore a backup of before."
            " Nothing was changed."
        )


def revisions() -> str:
    """What the database says it has."""
    return ", ".join(context.get_context().get_current_heads()) or "empty"


def in_short(error: DBAPIError) -> str:
    """One line, with what to do when the role may not make tables or somebody works on them."""
    said = " ".join(str(error.orig).split())
    match getattr(error.orig, "sqlstate", None):
        case "42501":
            return f"{said}. The role must own the database: ALTER DATABASE … OWNER TO …"
        case "55P03":
            return f"{said}. Stop the workers, then try again."
        case _:
            return said


run()
