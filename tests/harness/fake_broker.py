"""A broker that says what a test wants: real ones never break their protocol, and move their leaders when they like."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

from mirror.wire.writer import Writer

API_VERSIONS, METADATA, FETCH, LIST_TRANSACTIONS = 18, 3, 1, 66
VERSIONS = {  # of Kafka 2.3, which has no flexible ones yet, but for ListTransactions
    FETCH: (4, 11),
    METADATA: (0, 8),
    17: (0, 1),
    36: (0, 1),
    API_VERSIONS: (0, 2),
    LIST_TRANSACTIONS: (0, 0),
}
UNSUPPORTED_VERSION = 35

Answer = Callable[[int, bytes], bytes]  # of a request's key and what follows its header; empty: never


@dataclass
class Request:
    """What came, and when."""

    api: int
    body: bytes
    version: int = 0
    at: float = field(default_factory=time.monotonic)


class FakeBroker:
    """A context manager. `answers` may be changed while it runs; `requests` are those that came.

    With a `greeting` it sends that to whoever connects, and then nothing.
    """

    def __init__(self, greeting: bytes = b"") -> None:
        self.answers: Answer = lambda api, body: b""
        self._greeting = greeting
        self.requests: list[Request] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def port(self) -> int:
        """Where it listens on loopback."""
        return int(self._listener.getsockname()[1])

    @property
    def properties(self) -> dict[str, str]:
        """What a client needs."""
        return {"bootstrap.servers": f"127.0.0.1:{self.port}"}

    def disconnect(self) -> None:
        """Close all connections."""
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def count(self, api: int) -> int:
        """How many requests of this kind have come."""
        return sum(request.api == api for request in self.requests)

    def __enter__(self) -> Self:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join()
        self.disconnect()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self._open.append(connection)
                self._threads.append(threading.Thread(target=self._serve, args=(connection,), daemon=True))
                self._threads[-1].start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError, struct.error), connection, connection.makefile("rb") as stream:
            connection.sendall(self._greeting)
            while True:
                (size,) = struct.unpack(">i", stream.read(4))
                request = stream.read(size)
                api, version, correlation, client = struct.unpack_from(">hhih", request)
                self.requests.append(Request(api, request[10 + client :], version))
                newer = version > VERSIONS[API_VERSIONS][1]
                answer = versions(newer) if api == API_VERSIONS else self.answers(api, request[10 + client :])
                if answer and not self._greeting:
                    connection.sendall(struct.pack(">ii", 4 + len(answer), correlation) + answer)


def versions(newer: bool = False) -> bytes:
    """An answer to ApiVersions, version 0; with an error to a `newer` one, as brokers do (KIP-511)."""
    error = UNSUPPORTED_VERSION if newer else 0
    return struct.pack(">hi", error, len(VERSIONS)) + b"".join(
        struct.pack(">hhh", key, *range_) for key, range_ in VERSIONS.items()
    )


def string(text: str | None) -> bytes:
    """A STRING or NULLABLE_STRING."""
    return bytes(Writer().string(text).parts[0])


def metadata(topic: str, leader: int, ports: dict[int, int], host: str = "127.0.0.1") -> bytes:
    """An answer to Metadata: one partition, led by one of the nodes that listen there; with "" the nodes alone."""
    brokers = b"".join(
        struct.pack(">i", node) + string(host) + struct.pack(">i", port) + string(None) for node, port in ports.items()
    )
    partition = struct.pack(">hiii", 0, 0, leader, 0) + struct.pack(">iiiii", 1, leader, 1, leader, 0)
    described = struct.pack(">h", 0) + string(topic) + b"\0" + struct.pack(">i", 1) + partition + b"\0" * 4
    topics = struct.pack(">i", bool(topic)) + (described if topic else b"")
    return (
        b"\0" * 4 + struct.pack(">i", len(ports)) + brokers + string("id") + struct.pack(">i", 1) + topics + b"\0" * 4
    )


def fetched(topic: str, records: bytes, error: int = 0, throttle: int = 0) -> bytes:
    """An answer to Fetch: of partition 0."""
    head = struct.pack(">ihii", throttle, 0, 0, 1) + string(topic) + struct.pack(">i", 1)
    partition = struct.pack(">ihqqq", 0, error, 10**6, 10**6, 0) + struct.pack(">iqqi", 1, 77, 5, -1)
    return head + partition + struct.pack(">i", len(records)) + records


def position(body: bytes) -> int:
    """The offset that a Fetch asks for."""
    (length,) = struct.unpack_from(">h", body, 29)
    offset: int = struct.unpack_from(">q", body, 31 + length + 12)[0]
    return offset
