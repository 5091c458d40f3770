"""The pages: a module and a folder of templates each. A new one is a line here."""

from __future__ import annotations

from flask import Blueprint

from webapp.pages import (
    account,
    alerts,
    dashboard,
    failures,
    health,
    job,
    jobs,
    key_secrets,
    keys,
    list_files,
    list_refresh,
    list_uploads,
    lists,
    signing_in,
    workers,
)

BLUEPRINTS: tuple[Blueprint, ...] = (
    dashboard.blueprint,
    signing_in.blueprint,
    account.blueprint,
    lists.blueprint,
    list_uploads.blueprint,
    list_files.blueprint,
    list_refresh.blueprint,
    jobs.blueprint,
    failures.blueprint,
    health.blueprint,
    job.blueprint,
    keys.blueprint,
    key_secrets.blueprint,
    workers.blueprint,
    alerts.blueprint,
)
