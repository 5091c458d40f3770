"""`flask lists`: bring in a list of companies, watch it, steer it, take its results away."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import click
import psycopg

from services.causes import CAUSES
from services.filings_folder import FILINGS_FOLDER
from store import jobs, schedules
from store import lists as store
from store import rejects as rejected_lines
from store.lists import ListSeen
from webapp import timing, uploads
from webapp.commands import downloads, imports, progress
from webapp.commands.console import Group, counted, name_of, shown, typed
from webapp.database import connection
from webapp.display import exact
from webapp.exports import FORMATS

NEVER = "never"
NAME = click.argument("name", metavar="NAME", callback=name_of("list's name"))


@click.group("lists", cls=Group, short_help="Bring in lists, steer them, take results.")
def lists() -> None:
    """Bring in lists of companies, watch and steer them, take the results away."""


@lists.command("import", short_help="Make a list of the companies in FILE.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--name", required=True, callback=name_of("list's name"), help="What the list is called.")
@click.option("--service", required=True, help="Which service is asked, such as companies_house.")
@click.option("--option", "options", multiple=True, metavar="K=V", help="An option of the service.")
@click.option(
    "--field",
    "fields",
    multiple=True,
    metavar="NAME[:TYPE[:UNIT]]",
    help="A field to fill, such as revenue:money:USD. Default: all, as the service has them.",
)
@click.option("--require", "required", multiple=True, metavar="NAME", help="Without it a job is partial.")
@click.option("--priority", type=click.IntRange(-1000, 1000), help="Higher runs first. Default: 0.")
@click.option("--start-at", metavar="TIME", help="Nothing runs before, such as 2026-12-24T18:00 (UTC).")
@click.option("--due-by", metavar="TIME", help="When it is to be ready: the console says whether it will be.")
@click.option("--reuse", metavar="AGE", help="Use answers of other lists up to this age, such as 7d.")
@click.option("--keep", metavar="AGE", help="How long its answers and calls are kept. Default: 365d.")
@click.option("--wait", is_flag=True, help="Stay until the list has ended, and show how far it is.")
def import_list(
    file: Path,
    name: str,
    service: str,
    options: tuple[str, ...],
    fields: tuple[str, ...],
    required: tuple[str, ...],
    priority: int | None,
    start_at: str | None,
    due_by: str | None,
    reuse: str | None,
    keep: str | None,
    wait: bool,
) -> None:
    """Make a list of the companies in FILE (CSV, TSV or XLSX), or add what is new to it.

    For filings_folder, FILE is a folder or an archive of filings, and each filing is a job.
    """
    asked = timing.columns(start_at, due_by, reuse, keep, datetime.now(UTC))
    if priority is not None:
        asked["priority"] = priority
    new = replace(uploads.plan(name, service, imports.options(options), fields, 0, required), **asked)
    with connection() as conn:
        if service == FILINGS_FOLDER.name:
            stored = imports.folder(conn, new, file)
        else:
            companies = uploads.read(file.read_bytes(), file.name, service)
            stored = uploads.store(conn, new, companies)
            imports.report(stored, companies, file)
        imports.warn_of_what_stays(stored.of, asked)
        imports.warn_of_waiting(conn, stored.of, wait)
        if wait:
            progress.watch(conn, stored.of)


@lists.command(short_help="How far all lists are, or one in detail.")
@click.argument("name", metavar="[NAME]", required=False, callback=name_of("list's name"))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def status(name: str | None, as_json: bool) -> None:
    """How far all lists are, or one in detail."""
    with connection() as conn:
        found = [_found(conn, name)] if name else store.see(conn)
        progress.show(conn, found, in_detail=name is not None, as_json=as_json)


@lists.command(short_help="Send failed jobs back to the queue.")
@NAME
@click.option("--cause", help="Only jobs that failed for this cause, such as parse_error.")
@click.option(
    "--fresh", is_flag=True, help="Drop what was kept for them and ask the service for everything anew."
)
def retry(name: str, cause: str | None, fresh: bool) -> None:
    """Send failed jobs back to the queue. Kept answers are used again, unless fresh ones are asked for."""
    with connection() as conn:
        one = _found(conn, name)
        causes = progress.failed_by_cause(conn, one)
        if cause is not None and cause not in {*CAUSES, *causes}:
            known = ", ".join(causes or CAUSES)
            raise click.ClickException(f"There is no cause “{cause}”. Failed jobs have: {known}.")
        sent_back = jobs.retry(conn, one.id, cause, fresh=fresh)
        if sent_back == 0:
            of_cause = f" for {cause}" if cause else ""
            click.echo(f"No job of {_quoted(name)} has failed{of_cause}; nothing was changed.")
            return
        click.echo(f"{counted(sent_back, 'job')} sent back.")
        _say_if_held(one)


@lists.command(short_help="Run a list's ended jobs anew.")
@NAME
def refresh(name: str) -> None:
    """Run the ended jobs of a list anew: results and kept answers go, the service is asked again."""
    with connection() as conn:
        one = _found(conn, name)
        sent_back = jobs.refresh(conn, one.id)
        if sent_back == 0:
            click.echo(f"No job of {_quoted(name)} has ended; nothing was changed.")
            return
        click.echo(f"{counted(sent_back, 'job')} sent back. The service will be asked again.")
        _say_if_held(one)


@lists.command(short_help="Refresh a list every so often, or never.")
@NAME
@click.argument("every", metavar="EVERY", type=click.Choice([*schedules.EVERY, NEVER]))
def schedule(name: str, every: str) -> None:
    """Refresh a list every day, week, month, quarter or year once it has finished, or never."""
    with connection() as conn:
        schedules.schedule(conn, _found(conn, name).id, None if every == NEVER else every)
        at = _found(conn, name).refresh_at
        when = f"is refreshed every {every}, next at {exact(at)}" if at else "is refreshed by hand only"
        click.echo(f"{_quoted(name)} {when}.")


@lists.command(short_help="Start no more jobs of a list.")
@NAME
def pause(name: str) -> None:
    """Start no more jobs of a list; those in progress finish."""
    with connection() as conn:
        one = _found(conn, name)
        if store.pause(conn, one.id):
            running = progress.counts(conn, one).rows["in_progress"]
            click.echo(
                "Paused." + (f" {counted(running, 'job')} in progress will finish." if running else "")
            )
        else:
            _same_or_refuse(conn, one, "paused", "Only an active list can be paused.")


@lists.command()
@NAME
def resume(name: str) -> None:
    """Go on with a paused or cancelled list."""
    with connection() as conn:
        one = _found(conn, name)
        if store.resume(conn, one.id):
            waiting = progress.counts(conn, one).rows["pending"]
            click.echo(f"Resumed. {counted(waiting, 'job')} waiting to run.")
        else:
            _same_or_refuse(conn, one, "active", "Send failed jobs back with: flask lists retry")


@lists.command(short_help="Take pending jobs off the queue.")
@NAME
def cancel(name: str) -> None:
    """Take the pending jobs of a list off the queue; running ones stop at their next call, results stay."""
    with connection() as conn:
        one = _found(conn, name)
        cancelled = store.cancel(conn, one.id)
        if cancelled is None:
            _same_or_refuse(conn, one, "cancelled", "There is nothing to cancel.")
            return
        running = progress.counts(conn, one).rows["in_progress"]
        stop = f" {counted(running, 'job')} in progress will stop at the next call." if running else ""
        click.echo(f"Cancelled {counted(cancelled, 'pending job')}.{stop} Results stay.")
        click.echo(f"To take it up again: flask lists resume {typed(name)}")


@lists.command(short_help="Print rejected lines with reasons, as CSV.")
@NAME
def rejects(name: str) -> None:
    """Print the rejected lines of a list's file with reasons, as CSV."""
    with connection() as conn:
        downloads.print_rejects(rejected_lines.see(conn, _found(conn, name).id))


@lists.command(short_help="Write every job of a list with its values.")
@NAME
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The file. Default: standard output.")
@click.option("--format", "form", type=click.Choice(list(FORMATS)), help="Default: csv, or as FILE ends.")
@click.option("--sources", is_flag=True, help="Say beside each value where it is from (JSONL always does).")
@click.option("--bom", is_flag=True, help="Begin CSV with a byte order mark, for Excel to see UTF-8.")
def export(name: str, output: Path | None, form: str | None, sources: bool, bom: bool) -> None:
    """Write every job of a list with its values, as of this moment."""
    with connection() as conn:
        downloads.export(conn, _found(conn, name), output, form, sources, bom)


def _found(conn: psycopg.Connection, name: str) -> ListSeen:
    found = store.see(conn, name)
    if found:
        return found[0]
    there = [shown(one.name) for one in store.see(conn)]
    others = f" There is: {', '.join(there[:5])}{', …' if len(there) > 5 else ''}." if there else ""  # noqa: PLR2004
    raise click.ClickException(f"There is no list {_quoted(name)}.{others}")


def _quoted(name: str) -> str:
    return f"“{shown(name)}”"


def _same_or_refuse(conn: psycopg.Connection, one: ListSeen, wanted: str, otherwise: str) -> None:
    """The list's state did not allow the act: fine when it is as wanted already."""
    state = _found(conn, one.name).state
    if state != wanted:
        raise click.ClickException(f"{_quoted(one.name)} is {state}. {otherwise}")
    click.echo(f"{_quoted(one.name)} is {state} already.")


def _say_if_held(one: ListSeen) -> None:
    if one.state in ("paused", "cancelled"):
        click.echo(f"The list is {one.state}. To go on: flask lists resume {typed(one.name)}")
