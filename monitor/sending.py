"""Empties the outbox of one channel: take, send, mark. What fails is tried again, for a day."""

from __future__ import annotations

import logging

import psycopg

from monitor.channels.notice import Channel, NotSent, notice
from store import deliveries

log = logging.getLogger(__name__)

# Longer than most sends take; a sender that dies meanwhile leaves the delivery to be tried after that.
HOLD_SECONDS = 30.0
FIRST_PAUSE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 900.0
GIVE_UP_SECONDS = 86400.0


def pause_seconds(tries: int) -> float:
    """How long to wait after so many tries that failed, one or more."""
    return float(min(FIRST_PAUSE_SECONDS * 2.0 ** min(tries - 1, 30), LONGEST_PAUSE_SECONDS))


def send_due(conn: psycopg.Connection, channel: Channel, public_url: str) -> int:
    """Send what is due, oldest first, up to the first that fails; returns how many were accepted."""
    accepted = 0
    while taken := deliveries.take(conn, channel.name, HOLD_SECONDS):
        try:
            remark = channel.send(notice(taken, public_url))
        except NotSent as error:
            _failed(conn, channel, taken, str(error))
            return accepted
        except Exception as error:  # one that no channel expects must not stop the others for ever
            log.exception("%s: a message could not be made or sent", channel.name)
            _failed(conn, channel, taken, f"a bug: {type(error).__name__}")
            return accepted
        deliveries.sent(conn, taken, remark)
        subject = f"alert {taken.alert_id}" if taken.alert_id else "by request"
        log.info("%s: sent (%s, %s)%s", channel.name, subject, taken.kind, f", {remark}" if remark else "")
        accepted += 1
    return accepted


def _failed(conn: psycopg.Connection, channel: Channel, taken: deliveries.Taken, error: str) -> None:
    pause = pause_seconds(taken.tries)
    given_up = deliveries.failed(conn, taken, error, pause_seconds=pause, give_up_seconds=GIVE_UP_SECONDS)
    then = "given up" if given_up else f"again in {pause:g} s"
    log.warning("%s: try %d failed: %s; %s", channel.name, taken.tries, error, then)
