"""The app: pages, API and commands, over one database."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from flask import Flask, current_app
from flask_migrate import Migrate
from flask_wtf import CSRFProtect
from werkzeug.middleware.proxy_fix import ProxyFix

from store.settings import BadSetting, Settings
from webapp import access, commands, display, errors, headers
from webapp.database import Database, db
from webapp.pages import BLUEPRINTS
from webapp.panels import PANELS, polling
from webapp.panels.shelf import Shelf

ROOT = Path(__file__).resolve().parent.parent
MIGRATIONS = ROOT / "migrations"
LARGEST_REQUEST_BYTES = 1_000_000


def create_app(settings: Settings) -> Flask:
    """An app on the database of these settings, which is looked for when first needed.

    Commands need no more than that; pages are refused until there is a secret that signs sessions.
    """
    app = Flask(__name__, static_folder=ROOT / "static")
    database = Database(settings)
    app.extensions["database"] = database
    app.config["SQLALCHEMY_DATABASE_URI"] = "postgresql+psycopg://"
    app.config["SQLALCHEMY_ENGINE_OPTIONS"] = {"creator": database.connect, "pool_pre_ping": True}
    db.init_app(app)
    Migrate(app, db, directory=str(MIGRATIONS))
    commands.register(app)
    _serve(app, settings)
    return app


def _serve(app: Flask, settings: Settings) -> None:
    """Everything that answers requests, from the outside in: proxies, who may, forms, pages."""
    try:
        app.secret_key = settings.secret_key()
    except BadSetting:
        app.before_request(_refuse_without_secret)
    if settings.trusted_proxies:
        hops = settings.trusted_proxies
        app.wsgi_app = ProxyFix(app.wsgi_app, x_for=hops, x_proto=hops, x_host=hops)  # type: ignore[method-assign]
    app.config.update(
        PERMANENT_SESSION_LIFETIME=timedelta(seconds=access.SESSION_SECONDS),
        SESSION_REFRESH_EACH_REQUEST=False,  # 12 hours from the sign-in, not from the last poll
        SESSION_COOKIE_SAMESITE="Lax",
        WTF_CSRF_TIME_LIMIT=None,  # as long as the session: pages stay open for hours
        MAX_CONTENT_LENGTH=LARGEST_REQUEST_BYTES,
    )
    app.extensions["shelf"] = Shelf(PANELS)
    headers.register(app)
    access.register(app)
    CSRFProtect(app)
    display.register(app)
    errors.register(app)
    for blueprint in (*BLUEPRINTS, polling.blueprint):
        app.register_blueprint(blueprint)


def _refuse_without_secret() -> None:
    """Raises `BadSetting`: `flask run` was started without it."""
    current_app.extensions["database"].settings.secret_key()
