from __future__ import annotations

import socket
from pathlib import Path

import pytest

from store.notify import ALIVE, READY, notify


@pytest.mark.parametrize("is_abstract", [False, True])
def test_states_arrive_as_one_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_abstract: bool
) -> None:
    place = f"@{tmp_path}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.settimeout(5)
        systemd.bind(place.replace("@", "\0"))
        monkeypatch.setenv("NOTIFY_SOCKET", place)
        notify(READY, ALIVE)
        assert systemd.recv(100) == b"READY=1\nWATCHDOG=1"


@pytest.mark.parametrize("place", [None, "", "/nowhere/at/all", "vsock:2:1234"])
def test_where_nobody_listens_nothing_happens(monkeypatch: pytest.MonkeyPatch, place: str | None) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    if place is not None:
        monkeypatch.setenv("NOTIFY_SOCKET", place)
    notify(READY)
