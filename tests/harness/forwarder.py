"""What forwards between clients and brokers: all as it is, slowly, or with a lie in it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import Any, TypeVar

from mirror.demo.brokers import LocalCluster, free_port
from tests.harness.waiting import until

METADATA = 3
LEADER_NOT_AVAILABLE = 5
F = TypeVar("F", bound="Forwarder")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


def listen_for_proxy(cluster: LocalCluster) -> dict[int, int]:
    """Give each broker, which is not started yet, a listener for the proxy; returns these ports by the proxy's port.

    A cluster may have several proxies.
    """
    ports = {}
    for broker in cluster.brokers:
        port, inner = free_port(), free_port()
        properties: Any = broker.properties
        before = properties["listeners"].count("PROXIED")
        name = f"PROXIED{before or ''}"
        protocols = properties.get("listener.security.protocol.map", "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT")
        properties["listeners"] += f",{name}://127.0.0.1:{inner}"
        properties["advertised.listeners"] += f",{name}://127.0.0.1:{port}"
        properties["listener.security.protocol.map"] = f"{protocols},{name}:PLAINTEXT"
        properties["inter.broker.listener.name"] = "PLAINTEXT"
        ports[port] = inner
    return ports


class Forwarder(ABC):
    """A context manager that forwards, in a thread of its own, to the brokers of a cluster that is not started yet."""

    def __init__(self, cluster: LocalCluster) -> None:
        self._ports = listen_for_proxy(cluster)
        self.bootstrap = ",".join(f"127.0.0.1:{port}" for port in self._ports)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name=type(self).__name__)
        self._servers: list[asyncio.Server] = []

    @abstractmethod
    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter, inner: int) -> None:
        """Take care of a connection to the broker that listens at `inner`."""

    def __enter__(self: F) -> F:
        self._thread.start()
        for port, inner in self._ports.items():
            serve = asyncio.start_server(lambda r, w, inner=inner: self._accept(r, w, inner), "127.0.0.1", port)  # type: ignore[misc]
            self._servers.append(asyncio.run_coroutine_threadsafe(serve, self._loop).result(10))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        until("the forwarder has ended", lambda: not self._thread.is_alive())
        self._loop.close()

    async def _accept(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter, inner: int) -> None:
        with contextlib.suppress(asyncio.CancelledError):  # of `_end`; asyncio would take it for a failure
            await self._serve(client_in, client_out, inner)

    async def _end(self) -> None:
        """Take no more connections, and let none be served in the middle of which the loop ends."""
        for server in self._servers:
            server.close()
        served = asyncio.all_tasks() - {asyncio.current_task()}
        for task in served:
            task.cancel()
        await asyncio.gather(*served, return_exceptions=True)


class TwoWays(Forwarder):
    """Forwards each way by itself, as a subclass does it, until one of them ends."""

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter, inner: int) -> None:
        try:
            broker_in, broker_out = await asyncio.open_connection("127.0.0.1", inner)
        except OSError:  # the broker is down
            client_out.close()
            return
        ways = [
            asyncio.ensure_future(way) for way in self._ways((client_in, client_out), (broker_in, broker_out), inner)
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            broker_out.close()
            client_out.close()

    @abstractmethod
    def _ways(self, client: Streams, broker: Streams, inner: int) -> Sequence[Coroutine[Any, Any, None]]:
        """What forwards requests to the broker with this port, and answers. Each ends when a side closes."""


class RequestForwarder(TwoWays):
    """Forwards requests as a subclass does it, and answers as they come."""

    def _ways(self, client: Streams, broker: Streams, inner: int) -> Sequence[Coroutine[Any, Any, None]]:
        return self._requests(client[0], broker[1], client[1]), self._answers(broker[0], client[1])

    @abstractmethod
    async def _requests(
        self, client: asyncio.StreamReader, broker: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        """Forward requests, until the client closes the connection."""

    async def _answers(self, broker: asyncio.StreamReader, client: asyncio.StreamWriter) -> None:
        while data := await broker.read(65_536):
            client.write(data)
            await client.drain()


class SlowLink(RequestForwarder):
    """A link that takes `rate` bytes a second on the way to the brokers, of all connections together."""

    def __init__(self, cluster: LocalCluster, rate: float) -> None:
        super().__init__(cluster)
        self.rate = rate
        self._link = asyncio.Lock()

    async def _requests(
        self, client: asyncio.StreamReader, broker: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        # Else the kernel would take megabytes here before they go over the link.
        back.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**14)
        while data := await client.read(4096):
            async with self._link:
                await asyncio.sleep(len(data) / self.rate)
            broker.write(data)


class NoBrokers(RequestForwarder):
    """A proxy that says, while `says_none` is set, that the cluster has no brokers, like a broker that starts.

    It knows the versions of Metadata from 9 to 13.
    """

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(cluster)
        self.says_none = False

    async def _requests(
        self, client: asyncio.StreamReader, broker: asyncio.StreamWriter, back: asyncio.StreamWriter
    ) -> None:
        while True:
            size = await client.readexactly(4)
            frame = await client.readexactly(struct.unpack(">i", size)[0])
            api, version, correlation = struct.unpack(">hhi", frame[:8])
            if api != METADATA or not self.says_none:
                broker.write(size + frame)
                continue
            answer = struct.pack(">i", correlation) + self._no_brokers(version)
            back.write(struct.pack(">i", len(answer)) + answer)

    @staticmethod
    def _no_brokers(version: int) -> bytes:
        """No brokers, no controller, and a topic without a leader: an answer without any topic would be asked again."""
        assert 9 <= version <= 13, version
        name_and_id = b"\x02a" + (bytes(16) if version >= 10 else b"")
        topic = struct.pack(">h", LEADER_NOT_AVAILABLE) + name_and_id + b"\0\x01" + struct.pack(">i", -(2**31)) + b"\0"
        body = b"\0" + struct.pack(">i", 0) + b"\x01\0" + struct.pack(">i", -1) + b"\x02" + topic
        if version <= 10:
            body += struct.pack(">i", -(2**31))
        return body + (struct.pack(">h", 0) if version >= 13 else b"") + b"\0"
