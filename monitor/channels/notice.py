"""What is told: one delivery as every channel gets it, and what a channel is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from monitor.words import moment, one_line
from store.deliveries import Kind, Taken

LONGEST_SUBJECT = 200

BEGINS = {Kind.REMINDER: "Still open: ", Kind.RESOLVED: "Resolved: "}


class NotSent(Exception):
    """The channel did not take it. The text is shown to people and holds no secret."""


@dataclass(frozen=True, slots=True)
class Notice:
    """`key` is the same for every try of one delivery, so that receivers can drop doubles.

    Of a test only `key`, `kind` and `summary` are there.
    """

    key: str
    kind: str
    summary: str
    alert_id: int | None = None
    rule: str | None = None
    subject: str | None = None
    severity: str | None = None
    message: str | None = None
    meaning: str | None = None
    advice: str | None = None
    link: str | None = None
    opened_at: datetime | None = None
    resolved_at: datetime | None = None

    def lines(self) -> list[str]:
        """The notice as a person reads it, one paragraph each."""
        if self.alert_id is None:
            return [self.summary]
        return [
            part
            for part in (
                self.summary,
                self.meaning,
                f"What to do: {self.advice}" if self.advice and not self.resolved_at else None,
                f"Open since {moment(self.opened_at)}" if self.opened_at else None,
                f"Resolved at {moment(self.resolved_at)}" if self.resolved_at else None,
                self.link,
                f"Alert {self.alert_id}, rule {self.rule}",
            )
            if part
        ]


class Channel(Protocol):
    """One way to tell people."""

    name: str

    def send(self, notice: Notice) -> str | None:
        """Hand it over; return only when it was accepted, with a remark if not by all. Raises `NotSent`."""


def notice(taken: Taken, public_url: str) -> Notice:
    """A delivery in words."""
    if taken.alert_id is None or taken.message is None:
        summary = "Test from Sluice: this channel works."
        return Notice(str(taken.idempotency_key), taken.kind, summary)
    begin = BEGINS.get(Kind(taken.kind), "")
    return Notice(
        key=str(taken.idempotency_key),
        kind=taken.kind,
        summary=one_line(begin + taken.message, LONGEST_SUBJECT),
        alert_id=taken.alert_id,
        rule=taken.rule,
        subject=taken.subject,
        severity=taken.severity,
        message=taken.message,
        meaning=taken.meaning,
        advice=taken.advice,
        link=f"{public_url}{taken.link}",
        opened_at=taken.opened_at,
        # A delivery that waited tells what it was made for, whatever has happened since.
        resolved_at=taken.resolved_at if taken.kind == Kind.RESOLVED else None,
    )
