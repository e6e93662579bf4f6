"""A TCP proxy between clients and brokers that knows where Kafka's requests begin and end.

It can delay, swallow or cut what passes, and hold back one EndTxn request until the next transaction runs: what a
network can do to a commit that was retried elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Callable

from mirror.demo.brokers import LocalCluster
from tests.harness.forwarder import Forwarder
from tests.harness.held_back import END_TXN, HeldBack, TxnRequest

PRODUCE, API_VERSIONS = 0, 18
Spoil = Callable[[int, bytes], tuple[bytes, bool] | None]


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
