"""The pages: a module and a folder of templates each. A new one is a line here."""

from __future__ import annotations

from flask import Blueprint

from webapp.pages import account, alerts, dashboard, health, job, keys, signing_in, workers

BLUEPRINTS: tuple[Blueprint, ...] = (
    dashboard.blueprint,
    signing_in.blueprint,
    account.blueprint,
    health.blueprint,
    job.blueprint,
    keys.blueprint,
    workers.blueprint,
    alerts.blueprint,
)
