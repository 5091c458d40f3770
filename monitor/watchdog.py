"""Tells systemd that the monitor is alive: https://www.freedesktop.org/software/systemd/man/sd_notify.html"""

from __future__ import annotations

import os
import socket
from contextlib import suppress


def tell(state: str) -> None:
    """Send `READY=1` or `WATCHDOG=1` to the socket that systemd named; nothing without systemd."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)
