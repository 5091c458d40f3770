"""The app: pages, API and commands, over one database."""

from __future__ import annotations

from pathlib import Path

from flask import Flask
from flask_migrate import Migrate

from store.settings import Settings
from webapp import commands
from webapp.database import Database, db

MIGRATIONS = Path(__file__).resolve().parent.parent / "migrations"


def create_app(settings: Settings) -> Flask:
    """An app on the database of these settings, which is looked for when first needed."""
    app = Flask(__name__)
    database = Database(settings)
    app.extensions["database"] = database
    app.config["SQLALCHEMY_DATABASE_URI"] = "postgresql+psycopg://"
    app.config["SQLALCHEMY_ENGINE_OPTIONS"] = {"creator": database.connect, "pool_pre_ping": True}
    db.init_app(app)
    Migrate(app, db, directory=str(MIGRATIONS))
    commands.register(app)
    return app
