"""How far away a broker is, and what its buffers make of that."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

import pytest

from mirror.commands.check import distance

BUFFER = distance.RECEIVED


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    """Of a listener that never accepts: the kernel alone connects."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()


@pytest.mark.skipif(sys.platform != "linux", reason="cannot run here: only Linux tells the round trip of a connection")
def test_what_is_on_this_machine_is_near(address: tuple[str, int]) -> None:
    found = distance.distance("backup", address, {BUFFER: "102400"}, BUFFER)
    assert found
    assert found.outcome == "OK"
    assert found.said.startswith("a round trip to backup takes ")


@pytest.mark.parametrize(
    ("seconds", "buffer", "outcome"),
    [
        (0.08, "102400", "WARNING"),
        (0.005, "102400", "OK"),
        (0.08, "-1", "OK"),
        (0.08, "1600000", "OK"),
        (0.08, None, "OK"),
    ],
)
def test_a_buffer_passes_in_a_round_trip(
    monkeypatch: pytest.MonkeyPatch, seconds: float, buffer: str | None, outcome: str
) -> None:
    monkeypatch.setattr(distance, "round_trip", lambda _: seconds)
    settings = {BUFFER: buffer} if buffer is not None else {}
    found = distance.distance("backup", ("far", 9092), settings, BUFFER)
    assert found
    assert found.outcome == outcome
    if outcome == "WARNING":
        assert "no more than about 1.3 MB/s" in found.said


def test_where_nobody_answers_nothing_is_said() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))  # it does not listen
        assert distance.distance("backup", bound.getsockname(), {}, BUFFER) is None
