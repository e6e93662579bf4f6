"""Packets that the tests drop: those of the connections they mean, and nobody else's."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing

import psutil
import pytest

from tests.chaos.disk import CannotRun
from tests.chaos.packets import lost, unreachable
from tests.harness.programs import program, skip

SOON = 0.3  # seconds


def listener() -> closing[socket.socket]:
    return closing(socket.create_server(("127.0.0.1", 0)))


def connected(listening: socket.socket, port: int = 0) -> socket.socket:
    """A connection to it, from this port."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    client.settimeout(SOON)
    client.bind(("127.0.0.1", port))
    client.connect(listening.getsockname())
    return client


def arrives(client: socket.socket, listening: socket.socket) -> bool:
    """Whether what the client sends comes to the end that the listener accepts."""
    server, _ = listening.accept()
    with server:
        server.settimeout(SOON)
        client.sendall(b"x")
        try:
            return server.recv(1) == b"x"
        except TimeoutError:
            return False


@pytest.fixture
def ours() -> Iterator[socket.socket]:
    program("iptables-restore", "iptables")
    try:
        with lost([]):
            pass
    except CannotRun as error:
        skip(str(error), could_run=False)
    with listener() as found:
        yield found


def test_an_unreachable_process_loses_its_connections_and_nobody_elses_that_have_the_same_port(
    ours: socket.socket,
) -> None:
    with ExitStack() as opened:
        other = opened.enter_context(listener())
        cut = opened.enter_context(closing(connected(ours)))
        opened.enter_context(unreachable([psutil.Process()]))
        assert not arrives(cut, ours)
        later = opened.enter_context(listener())
        # The kernel does the same now and then, without being asked.
        assert arrives(opened.enter_context(closing(connected(later, cut.getsockname()[1]))), later)
        with pytest.raises(TimeoutError):
            connected(other)


def test_what_was_lost_comes_once_the_rules_are_gone(ours: socket.socket) -> None:
    port = ours.getsockname()[1]
    with lost([port]), pytest.raises(TimeoutError):
        connected(ours)
    with closing(connected(ours)) as client:
        assert arrives(client, ours)
