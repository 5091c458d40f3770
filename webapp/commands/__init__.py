"""The `flask` commands. Each group is a module; `docs/operations.md` lists them all."""

from __future__ import annotations

from flask import Flask

from webapp.commands.doctor import doctor
from webapp.commands.filings import filings
from webapp.commands.keys import keys
from webapp.commands.lists import lists
from webapp.commands.users import users


def register(app: Flask) -> None:
    """Make every group known to this app."""
    for command in (lists, keys, users, filings, doctor):
        app.cli.add_command(command)
