"""The tables as the ORM sees them, for forms and for the check that models equal migrations.

No job is moved through these classes: moves are statements in `store.jobs`, `store.claims` and
`store.workers`. CHECK constraints and storage settings live in the migrations alone.
"""

from __future__ import annotations

from store.models import alerts, calls, keys, people, queue
from store.models.base import Base

# Whoever takes `Base` from here has all tables declared on it.
__all__ = ["Base", "alerts", "calls", "keys", "people", "queue"]
