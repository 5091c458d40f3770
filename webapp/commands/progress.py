"""How far lists are: counted, shown at once, or watched until the end."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import click
import psycopg

from services.causes import CAUSES
from store import lists, tally
from store.lists import ListSeen
from store.states import Outcome, Status
from store.tally import Count
from webapp.commands import waiting
from webapp.commands.console import counted, print_json, shown, table, typed
from webapp.display import exact, iso

LOOK_SECONDS = 0.5
LINE_SECONDS = 5.0
ENDED = ("finished", "cancelled")


@dataclass(frozen=True, slots=True)
class Counts:
    """Jobs of a list by status, by outcome, and by cause of those that ended with one."""

    rows: dict[str, int]
    outcomes: dict[str, int]
    causes: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.rows.values())

    @property
    def ended(self) -> int:
        return self.total - self.rows["pending"] - self.rows["in_progress"]


def counts(conn: psycopg.Connection, one: ListSeen) -> Counts:
    """The counts of a list, exact as of one statement."""
    return _added_up(tally.read(conn, [one.id]))


def failed_by_cause(conn: psycopg.Connection, one: ListSeen) -> dict[str, int]:
    """How many jobs of the list have failed for which cause, the commonest first."""
    failed: Counter[str] = Counter()
    for count in tally.read(conn, [one.id]):
        if count.status == Status.FAILED:
            failed[count.cause] += count.n
    return dict(failed.most_common())


def show(conn: psycopg.Connection, found: Sequence[ListSeen], *, in_detail: bool, as_json: bool) -> None:
    """Print these lists as a table, as one list in detail, or as JSON."""
    by_list: dict[int, list[Count]] = {one.id: [] for one in found}
    for count in tally.read(conn, list(by_list)):
        by_list[count.list_id].append(count)
    seen = [(one, _added_up(by_list[one.id])) for one in found]
    if as_json:
        print_json([_as_json(*pair) for pair in seen])
    elif in_detail:
        describe(*seen[0])
        _say_if_still(conn, *seen[0])
    elif seen:
        table(
            ("List", "Service", "State", *(_word(status) for status in Status), "Rejected"),
            [(one.name, one.service, one.state, *c.rows.values(), one.rejects) for one, c in seen],
        )
    else:
        click.echo("No lists yet. Make one: flask lists import FILE --name NAME --service SERVICE")


def describe(one: ListSeen, of: Counts) -> None:
    """Print one list: jobs by status, what the done ones hold, and why others ended, with what to do."""
    click.echo(f"{shown(one.name)}: {one.service}, {one.state}, {counted(of.total, 'job')}")
    if one.start_at > datetime.now(UTC):
        click.echo(f"  starts at {exact(one.start_at)}")
    if one.due_by:
        click.echo(f"  due by {exact(one.due_by)}")
    outcomes = ", ".join(f"{n:,} {name}" for name, n in of.outcomes.items() if n)
    table(
        ("Status", "Jobs", ""),
        [(_word(status), n, outcomes if status == Status.DONE else "") for status, n in of.rows.items()],
        indent="  ",
    )
    if of.causes:
        table(
            ("Cause", "Jobs", "What it means", "What to do"),
            [(cause, n, *_explained(cause)) for cause, n in of.causes.items()],
            indent="  ",
        )
    if one.rejects:
        rejected = counted(one.rejects, "line")
        click.echo(f"  {rejected} of the file rejected: flask lists rejects {typed(one.name)}")


def _say_if_still(conn: psycopg.Connection, one: ListSeen, of: Counts) -> None:
    stops = waiting.why(conn, one, of.rows["pending"], of.rows["in_progress"])
    if stops:
        click.echo(f"  Nothing moves: {stops}")


def watch(conn: psycopg.Connection, one: ListSeen) -> None:
    """Show progress until the list has finished or is cancelled, then what came of it."""
    follow = _as_bar if sys.stdout.isatty() else _as_lines
    try:
        follow(_looks(conn, one.name))
    except KeyboardInterrupt:
        click.echo(err=True)
        raise click.ClickException("Stopped watching. The list goes on: flask lists status") from None
    describe(*_look(conn, one.name))


def _looks(conn: psycopg.Connection, name: str) -> Iterator[Counts]:
    while True:
        one, now = _look(conn, name)
        yield now
        if one.state in ENDED:
            return
        time.sleep(LOOK_SECONDS)


def _look(conn: psycopg.Connection, name: str) -> tuple[ListSeen, Counts]:
    """The state first: counts that are read after a list has finished are its last."""
    found = lists.see(conn, name)
    if not found:
        raise click.ClickException(f"The list “{name}” was deleted meanwhile.")
    return found[0], counts(conn, found[0])


def _as_bar(looks: Iterator[Counts]) -> None:
    now = next(looks)
    with click.progressbar(length=now.total, label=_in_short(now), show_pos=True) as bar:
        bar.update(now.ended)
        for now in looks:
            bar.label, bar.length = _in_short(now), now.total
            bar.update(now.ended - bar.pos)


def _as_lines(looks: Iterator[Counts], clock: Callable[[], float] = time.monotonic) -> None:
    """One line when something changed, not too often, and always the last."""
    said: Counts | None = None
    now: Counts | None = None
    said_at = -LINE_SECONDS
    for now in looks:
        if now != said and clock() - said_at >= LINE_SECONDS:
            _say(now)
            said, said_at = now, clock()
    if now is not None and now != said:
        _say(now)


def _say(now: Counts) -> None:
    at = datetime.now().astimezone()
    click.echo(f"{at:%H:%M:%S}  {now.ended:,} of {counted(now.total, 'job')} ended: {_in_short(now)}")
    sys.stdout.flush()


def _in_short(now: Counts) -> str:
    parts = [f"{now.rows['done']:,} done", f"{now.rows['failed']:,} failed"]
    if now.rows["cancelled"]:
        parts.append(f"{now.rows['cancelled']:,} cancelled")
    return ", ".join([*parts, f"{now.rows['in_progress']:,} in progress"])


def _added_up(found: Sequence[Count]) -> Counts:
    rows: Counter[str] = Counter()
    outcomes: Counter[str] = Counter()
    causes: Counter[str] = Counter()
    for count in found:
        rows[count.status] += count.n
        if count.outcome:
            outcomes[count.outcome] += count.n
        if count.cause:
            causes[count.cause] += count.n
    return Counts(
        {status.value: rows[status] for status in Status},
        {outcome.value: outcomes[outcome] for outcome in Outcome},
        dict(causes.most_common()),
    )


def _as_json(one: ListSeen, of: Counts) -> dict[str, Any]:
    return {
        "name": one.name,
        "service": one.service,
        "state": one.state,
        "rows": of.rows,
        "outcomes": of.outcomes,
        "causes": of.causes,
        "rejects": one.rejects,
        "start_at": iso(one.start_at),
        "due_by": iso(one.due_by) if one.due_by else None,
    }


def _explained(cause: str) -> tuple[str, str]:
    known = CAUSES.get(cause)
    return (known.meaning, str(known.advice)) if known else ("", "")


def _word(status: str) -> str:
    return status.replace("_", " ").capitalize()
