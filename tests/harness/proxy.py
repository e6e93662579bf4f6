"""A TCP proxy between clients and brokers that knows where Kafka's requests begin and end.

It can delay, swallow or cut what passes, and hold back one EndTxn request until the next transaction runs: what a
network can do to a commit that was retried elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, TypeVar

from mirror.demo.brokers import LocalCluster, free_port
from tests.harness.waiting import until

PRODUCE, METADATA, API_VERSIONS, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 0, 3, 18, 25, 26, 28
FLEXIBLE = {ADD_OFFSETS_TO_TXN: 3, END_TXN: 3, TXN_OFFSET_COMMIT: 3}  # the first version with KIP-482's formats
TRANSACTIONS_V2 = {END_TXN: 5, TXN_OFFSET_COMMIT: 5}  # the first version without AddOffsetsToTxn (KIP-890)
LEADER_NOT_AVAILABLE = 5
F = TypeVar("F", bound="Forwarder")
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Spoil = Callable[[int, bytes], tuple[bytes, bool] | None]


@dataclass(frozen=True)
class TxnRequest:
    """The beginning of EndTxn, and of the request that puts a position into a transaction."""

    api_key: int
    flexible: bool
    adds_position: bool
    transactional_id: str
    producer_id: int
    epoch: int

    @staticmethod
    def parse(frame: bytes) -> TxnRequest | None:
        """The request, or None if it is another one.

        Header: INT16 key, INT16 version, INT32 correlation, NULLABLE_STRING client; flexible: tags (none).
        """
        api_key, version = struct.unpack_from(">hh", frame)
        if api_key not in FLEXIBLE:
            return None
        flexible = version >= FLEXIBLE[api_key]
        (client,) = struct.unpack_from(">h", frame, 8)
        at = 10 + max(0, client) + flexible
        name, at = _string(frame, at, flexible)
        if api_key == TXN_OFFSET_COMMIT:
            _, at = _string(frame, at, flexible)  # the group
        adds_position = api_key == ADD_OFFSETS_TO_TXN or (
            api_key == TXN_OFFSET_COMMIT and version >= TRANSACTIONS_V2[api_key]
        )
        return TxnRequest(api_key, flexible, adds_position, name, *struct.unpack_from(">qh", frame, at))


def _string(frame: bytes, at: int, flexible: bool) -> tuple[str, int]:
    """STRING or COMPACT_STRING, and where it ends."""
    if flexible:
        length, shift = -1, 0
        while True:
            byte = frame[at]
            at += 1
            length += (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
    else:
        (length,) = struct.unpack_from(">h", frame, at)
        at += 2
    return frame[at : at + length].decode(), at + length


class HeldBack:
    """One EndTxn on its long way, and how it ended."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix  # of the transactional id
        self.request: TxnRequest | None = None  # once it is held
        self.during: TxnRequest | None = None  # the transaction that ran when it arrived
        self.error: int | None = None  # the broker's answer; -1: it closed the connection
        self._frame = b""
        self._broker: Streams | None = None

    def hold(self, request: TxnRequest, frame: bytes, streams: Streams) -> None:
        """Keep the request and its way to the broker."""
        self.request, self._frame, self._broker = request, frame, streams

    async def release(self, during: TxnRequest) -> None:
        """Let it arrive now, and read the answer to it.

        INT32 correlation, tags (none) where it is flexible, INT32 throttle time, INT16 error.
        """
        assert self._broker is not None and self.request is not None
        reader, writer = self._broker
        self.during = during
        writer.write(struct.pack(">i", len(self._frame)) + self._frame)
        try:
            answer = b""
            while answer[:4] != self._frame[4:8]:  # other answers may be before it
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                answer = await reader.readexactly(size)
            (self.error,) = struct.unpack_from(">h", answer, 8 + self.request.flexible)
        except (OSError, asyncio.IncompleteReadError):  # its session has expired meanwhile (KIP-368)
            self.error = -1
        writer.close()


class Asked:
    """What one connection was asked."""

    def __init__(self) -> None:
        self.by_us = False  # the client is not librdkafka, which says its name (KIP-511)
        self.is_lost = False  # the next answer does not come
        self.is_dead = False  # nothing comes any more, on either way
        self._keys: dict[bytes, int] = {}

    def note(self, frame: bytes) -> None:
        """A request passes."""
        (key,) = struct.unpack_from(">h", frame)
        self._keys[frame[4:8]] = key
        if key == API_VERSIONS:
            self.by_us = b"kafka" not in frame

    def api_key(self, answer: bytes) -> int:
        """What the answer is to."""
        return self._keys.pop(answer[:4], -1)


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


class Proxy(Forwarder):
    """A proxy with a port for each broker of a cluster; `faults` are set from any thread and hold at once."""

    def __init__(self, cluster: LocalCluster) -> None:
        super().__init__(cluster)
        self.delay = 0.0  # seconds, each way
        self.swallow_requests = False
        self.swallow_answers = False
        self.cut = False  # connections are closed and refused
        # Nothing passes, and nobody is told. Connections that are used meanwhile stay dead: TCP would repeat what was
        # lost, but only after about as long as that has lasted.
        self.loses_packets = False
        self.held: HeldBack | None = None
        self.lose_answer_to = ""  # a topic: the answer to the next Produce to it, and its connection, are lost
        # Gets a request's API key and the answer to it, if the client is not librdkafka. Returns what is sent in place
        # of the answer, with its length, and whether the connection then ends. None: it passes as it is.
        self.spoil: Spoil | None = None
        self._writers: set[asyncio.StreamWriter] = set()

    def hold_back_end_txn(self, prefix: str) -> HeldBack:
        """Hold back the next EndTxn of a transactional id that begins with `prefix`.

        Its client loses the connection, and it arrives in the next transaction of the same id.
        """
        self.held = HeldBack(prefix)
        return self.held

    def heal(self) -> None:
        """Let everything pass."""
        torn = self.swallow_requests or self.swallow_answers  # parts of messages may be missing
        self.delay = 0.0
        self.swallow_requests = self.swallow_answers = self.cut = self.loses_packets = False
        if torn:
            self.disconnect()

    def disconnect(self) -> None:
        """Close all connections once, or all for as long as `cut` is set."""
        self._loop.call_soon_threadsafe(self._close_all)

    def _close_all(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter, inner: int) -> None:
        self._writers.add(client_out)
        broker_out = answers = None
        try:
            if self.cut:
                return
            broker_in, broker_out = await asyncio.open_connection("127.0.0.1", inner)
            self._writers.add(broker_out)
            asked = Asked()
            answers = asyncio.ensure_future(self._answers(broker_in, client_out, asked))
            held = await self._requests(client_in, broker_in, broker_out, answers, asked)
            if held:
                self._writers.discard(broker_out)  # the request's way stays open
                broker_out = None
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            if answers:
                answers.cancel()
            for writer in filter(None, (client_out, broker_out)):
                self._writers.discard(writer)
                writer.transport.abort()

    async def _requests(
        self,
        client: asyncio.StreamReader,
        broker_in: asyncio.StreamReader,
        broker_out: asyncio.StreamWriter,
        answers: asyncio.Future[None],
        asked: Asked,
    ) -> bool:
        """Pass requests on; True when the connection ended because one was held back."""
        while True:
            (size,) = struct.unpack(">i", await client.readexactly(4))
            frame = await client.readexactly(size)
            if self._is_dead(asked):
                continue
            asked.note(frame)
            if self.delay:
                await asyncio.sleep(self.delay)
            request = TxnRequest.parse(frame)
            held = self.held
            if held is not None and request is not None:
                wanted = request.api_key == END_TXN and request.transactional_id.startswith(held.prefix)
                if held.request is None and wanted:
                    answers.cancel()
                    await asyncio.gather(answers, return_exceptions=True)
                    held.hold(request, frame, (broker_in, broker_out))
                    return True
                if self._is_next_transaction(held, request):
                    await held.release(request)
            topic = self.lose_answer_to
            if topic and struct.unpack_from(">h", frame) == (PRODUCE,) and topic.encode() in frame:
                self.lose_answer_to = ""
                asked.is_lost = True
            if not self.swallow_requests:
                broker_out.write(struct.pack(">i", size) + frame)
                await broker_out.drain()

    def _is_dead(self, asked: Asked) -> bool:
        asked.is_dead |= self.loses_packets
        return asked.is_dead

    @staticmethod
    def _is_next_transaction(held: HeldBack, request: TxnRequest) -> bool:
        """True if this request belongs to the transaction after the held one.

        Its records are on the target and its position is not: the worst moment for the end of another transaction.
        """
        first = held.request
        return (
            first is not None
            and held.during is None
            and request.adds_position
            and request.transactional_id == first.transactional_id
        )

    async def _answers(self, broker: asyncio.StreamReader, client: asyncio.StreamWriter, asked: Asked) -> None:
        # A broker that is killed with unread requests resets the connection.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while not asked.is_lost:
                size = await broker.readexactly(4)
                answer = await broker.readexactly(*struct.unpack(">i", size))
                if asked.is_lost:
                    break
                if self._is_dead(asked):
                    continue
                if self.delay:
                    await asyncio.sleep(self.delay)
                if self.swallow_answers:
                    continue
                spoil = self.spoil  # another thread sets it
                spoiled = spoil(asked.api_key(answer), answer) if spoil and asked.by_us else None
                data, ends = spoiled or (size + answer, False)
                client.write(data)
                await client.drain()
                if ends:
                    client.close()  # what was written still arrives
                    return
        client.transport.abort()


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
