"""Postgres: settings, tables, and every statement that changes them."""

__version__ = "0.1.0"
