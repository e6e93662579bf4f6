"""Checks how far away a cluster is, and what the buffers of its brokers' sockets make of that."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
from collections.abc import Mapping

from mirror.commands.check.findings import Finding

CONNECT_MAX = 10.0  # seconds
FAST = 20e6  # bytes/s; a busy partition may copy more than that over its connection
# The broker's settings that limit how many bytes are on the way on a connection: of those that it sends, and receives.
SENT, RECEIVED = "socket.send.buffer.bytes", "socket.receive.buffer.bytes"

_TCP_INFO_SIZE, _RTT_AT = 104, 68  # of Linux's struct tcp_info; the round trip is in microseconds


def distance(alias: str, address: tuple[str, int], settings: Mapping[str, str], buffer: str) -> Finding | None:
    """How far away the broker at `address` is, and whether its `buffer` is too small for that. None if not known.

    The sender of a connection waits for the receiver's word after each buffer, so one buffer passes in a round trip.
    """
    seconds = round_trip(address)
    if seconds is None:
        return None
    said, size = f"a round trip to {alias} takes {1000 * seconds:.1f} ms", int(settings.get(buffer, -1))
    if 0 < size < FAST * seconds:
        rate = size / seconds / 1e6
        said += f", so a connection carries no more than about {rate:.1f} MB/s: its brokers' {buffer} is {size}"
        return Finding("distance", "WARNING", said, f"set {buffer} to -1 on its brokers, and restart them")
    return Finding("distance", "OK", said)


def round_trip(address: tuple[str, int]) -> float | None:
    """Seconds, by the kernel's clock while it connects, so a busy machine adds nothing; None if it does not say."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError), socket.create_connection(address, CONNECT_MAX) as connection:
            info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
            return float(struct.unpack_from("=I", info, _RTT_AT)[0]) / 1e6
    return None
