"""The `flask` commands. Each group is a module; `docs/operations.md` lists them all."""

from __future__ import annotations

from flask import Flask

from webapp.commands.doctor import doctor
from webapp.commands.filings import filings
from webapp.commands.keys import keys
from webapp.commands.lists import lists


def register(app: Flask) -> None:
    """Make `flask lists`, `flask keys`, `flask filings` and `flask doctor` known to this app."""
    for command in (lists, keys, filings, doctor):
        app.cli.add_command(command)
