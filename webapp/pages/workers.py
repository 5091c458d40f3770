"""Workers: who works, who ended, and letting one finish what it holds and stop."""

from __future__ import annotations

from uuid import UUID

from flask import Blueprint, abort, flash
from flask.typing import ResponseReturnValue

from store import workers
from store.people import Role
from store.workers import WorkerSeen
from webapp.access import needs
from webapp.answers import go_to
from webapp.database import page_connection
from webapp.formats import counted
from webapp.panels.polling import render_page

blueprint = Blueprint("workers", __name__)

ONE = "/workers/<uuid:worker_id>"


@blueprint.get("/workers")
def index() -> str:
    """All workers that run, and those that ended within a day."""
    return render_page("workers/index.html", "workers")


@blueprint.get(ONE)
def show(worker_id: UUID) -> str:
    """One worker."""
    return render_page(
        "workers/page.html", "workers.one", {"worker": str(worker_id)}, worker=_found(worker_id)
    )


@blueprint.post(ONE + "/drain")
@needs(Role.OPERATOR)
def drain(worker_id: UUID) -> ResponseReturnValue:
    """Let it finish what it holds, claim nothing more, and stop."""
    one = _found(worker_id)
    with page_connection() as conn:
        told = workers.drain(conn, worker_id)
    if told:
        flash(f"{one.name} is draining. {counted(one.held, 'job')} in progress will finish, then it stops.")
    else:
        flash(f"Nothing was changed: {one.name} is not running, it is {_found(worker_id).state}.")
    return go_to(f"/workers/{worker_id}")


def _found(worker_id: UUID) -> WorkerSeen:
    with page_connection() as conn:
        found = [one for one in workers.see(conn) if one.id == worker_id]
    return found[0] if found else abort(404)
