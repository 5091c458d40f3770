"""Chaos in short: everything that can go wrong does at least once, and the verdict holds."""

from __future__ import annotations

import socket
from itertools import islice
from pathlib import Path

import pytest

from bench.chaos.plan import Kind, events
from bench.chaos.proxy import Proxy
from bench.chaos.run import SHORT, run
from bench.chaos.verdict import over_limit


def test_a_run_in_which_everything_fails_loses_repeats_and_exceeds_nothing(tmp_path: Path) -> None:
    report = run(tmp_path / "chaos", 7, SHORT, print)
    assert set(report.done) == set(Kind)
    assert [str(line) for line in report.lines if not line.holds] == []


def test_a_seed_repeats_its_plan_which_begins_with_one_of_each_kind() -> None:
    first, again, other = (list(islice(events(seed, 3, 4.0), 60)) for seed in (1, 1, 2))
    assert first == again != other
    assert {event.kind for event in first[: len(Kind)]} == set(Kind)
    assert all(event.seconds > 4.0 for event in first if event.kind is Kind.STOP)  # beyond the lease


def test_only_what_follows_the_end_of_a_stop_closely_counts_as_sent_late() -> None:
    arrivals = [[99.0, 2], [100.5, 2], [102.9, 2], [103.1, 2]]  # when, and the window of the limit
    assert over_limit({"keys": {"a": {"over_limit_at": arrivals}}}, woken_at=[100.0]) == (
        [100.5, 102.9],
        [99.0, 103.1],
    )
    assert over_limit({"keys": {"a": {"over_limit_at": arrivals}}}, woken_at=[])[0] == []


@pytest.fixture
def echo() -> socket.socket:
    """A listener of which a test accepts by hand."""
    return socket.create_server(("127.0.0.1", 0))


def test_a_muted_proxy_that_is_dropped_loses_the_answers_and_takes_new_connections(
    echo: socket.socket,
) -> None:
    with echo, Proxy(echo.getsockname()[1]) as proxy:
        client = socket.create_connection(("127.0.0.1", proxy.port), 5)
        server, _ = echo.accept()
        with client, server:
            proxy.mute()
            server.sendall(b"answer")
            proxy.drop()
            with pytest.raises(ConnectionResetError):
                client.recv(6)
        with socket.create_connection(("127.0.0.1", proxy.port), 5) as late:
            server, _ = echo.accept()
            with server:
                server.sendall(b"hello")
                assert late.recv(5) == b"hello"


def test_a_deaf_or_mute_proxy_forwards_later_and_a_cut_one_resets(echo: socket.socket) -> None:
    with echo, Proxy(echo.getsockname()[1]) as proxy:
        client = socket.create_connection(("127.0.0.1", proxy.port), 5)
        server, _ = echo.accept()
        with client, server:
            server.settimeout(0.1)
            proxy.deafen()
            client.sendall(b"held")
            with pytest.raises(TimeoutError):
                server.recv(4)
            proxy.heal()
            server.settimeout(5)
            assert server.recv(4) == b"held"
            proxy.mute()
            client.sendall(b"asked")
            assert server.recv(5) == b"asked"
            server.sendall(b"answer")
            client.settimeout(0.1)
            with pytest.raises(TimeoutError):
                client.recv(6)
            proxy.heal()
            client.settimeout(5)
            assert client.recv(6) == b"answer"
            proxy.cut()
            with pytest.raises(ConnectionResetError):
                client.recv(1)
            with (
                pytest.raises(ConnectionResetError),  # while it connects, or then
                socket.create_connection(("127.0.0.1", proxy.port), 5) as late,
            ):
                late.recv(1)
