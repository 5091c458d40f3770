"""Tells systemd how a program is, where systemd asked to be told (Type=notify, WatchdogSec)."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

READY = "READY=1"
ALIVE = "WATCHDOG=1"
STOPPING = "STOPPING=1"


def notify(*states: str) -> None:
    """Send these states; without `NOTIFY_SOCKET`, or when nobody listens there, nothing happens.

    Source: sd_notify(3), "Notes": one datagram of lines; a leading @ means the abstract namespace.
    """
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address.startswith(("/", "@")):
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as teller:
        place = "\0" + address[1:] if address[0] == "@" else address
        teller.sendto("\n".join(states).encode(), place)
