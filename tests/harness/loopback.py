"""A broker on a real socket that does what a target does, and whose answers tests may damage on their way."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from mirror.wire.cursor import Cursor
from mirror.wire.offsets import Offset, Offsets, Where
from mirror.wire.produce import ProduceAnswer, Produced
from mirror.wire.requests import Request
from mirror.wire.transactional import Entered
from mirror.wire.writer import Writer
from tests.harness.batch_requests import ID, offset_wanted, seen
from tests.harness.batch_target import Target
from tests.harness.recorded import REQUESTS, answers

HOST, NODE = "127.0.0.1", 1
BY_KEY: Mapping[int, Request[Any]] = {each.api.key: each for each in REQUESTS.values()}
GREETING = answers()[0].data  # of a broker that has all that is needed

Way = Callable[[int, bytes], bytes | None]  # of an answer's number and bytes; None closes the connection


class Loopback:
    """`serve` gives it as a context. It counts what comes: connections, those at once, requests and those at once.

    It reads ahead, to count those under way. A real broker leaves them to the kernel until it has answered.
    """

    def __init__(self, target: Target, way: Way = lambda _, answer: answer) -> None:
        """What `way` makes of an answer, its size and correlation id included, is sent."""
        self.target = target
        self.way = way
        self.delay = 0.0  # seconds before each answer
        self.partitions = 1  # of each topic
        self.port = 0
        self.accepted = self.open = self.most_open = 0
        self.asked: list[str] = []
        self.pending = self.most_pending = 0
        self.targets: dict[bytes, Target] = {}  # by a name: what a request that has it is for, in place of `target`
        self.under_way: Counter[bytes] = Counter()  # requests, by these names
        self.most_under_way: Counter[bytes] = Counter()
        self.most_on_one = 0  # requests that wait on one connection

    @contextlib.asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncIterator[None]:
        """Listen, until the end."""
        served: set[asyncio.Task[None]] = set()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            served.add(task)
            with contextlib.suppress(asyncio.CancelledError):
                await self._serve(reader, writer)

        server = await asyncio.start_server(accept, HOST, port)
        self.port = int(server.sockets[0].getsockname()[1])
        try:
            yield
        finally:
            server.close()
            for task in served:
                task.cancel()
            await asyncio.gather(*served, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted, self.open = self.accepted + 1, self.open + 1
        self.most_open = max(self.most_open, self.open)
        came: asyncio.Queue[bytes] = asyncio.Queue()
        reading = asyncio.create_task(self._read(reader, came))
        try:
            while frame := await came.get():
                self.pending += 1
                self.most_pending = max(self.most_pending, self.pending)
                try:
                    await asyncio.sleep(self.delay)
                    answer = self.way(len(self.asked), self._answer(frame))
                finally:
                    self.pending -= 1
                    self.under_way[self._name(frame)] -= 1
                if answer is None:
                    return
                writer.write(answer)
        except (OSError, LookupError):  # also a topic that it does not have
            pass
        finally:
            reading.cancel()
            self.open -= 1
            writer.transport.abort()

    async def _read(self, reader: asyncio.StreamReader, came: asyncio.Queue[bytes]) -> None:
        """Requests as they come, and nothing after the last one."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                came.put_nowait(frame)
                name = self._name(frame)
                self.under_way[name] += 1
                self.most_under_way[name] = max(self.most_under_way[name], self.under_way[name])
                self.most_on_one = max(self.most_on_one, came.qsize())
        came.put_nowait(b"")

    def _name(self, frame: bytes) -> bytes:
        return next((name for name in self.targets if name in frame), b"")

    def _answer(self, frame: bytes) -> bytes:
        key, version, correlation, client = struct.unpack_from(">hhih", frame)
        request = BY_KEY[key]
        self.asked.append(request.api.name)
        flexible = version >= request.api.flexible
        body = frame[10 + client + flexible :]
        if request.api.name == "ApiVersions":
            answer = GREETING
        else:
            writer = Writer(version, flexible).tags()
            self._write(writer, request.api.name, body)
            answer = b"".join(map(bytes, writer.parts))
        return struct.pack(">ii", 4 + len(answer), correlation) + answer

    def _write(self, writer: Writer, kind: str, body: bytes) -> None:
        if kind == "Metadata":
            self._write_metadata(writer, Cursor(body, 12, True))
        elif kind == "FindCoordinator":
            asked = Cursor(body[1:], 6, True)
            writer.pack("i", 0).array(asked.array(Cursor.string, 1), self._write_coordinator).tags()
        elif kind == "Fetch":  # at once, where a real one waits
            asked = Cursor(body, 17, True)
            asked.unpack(struct.Struct(">iiibii"))
            writer.pack("ihi", 0, 0, 0).array(asked.by_topic_id(offset_wanted, 33), self._write_nothing).tags()
        else:
            target = self.targets.get(self._name(body), self.target)
            sent, data = seen(kind, body, NODE, "")
            target.requests.append(sent)
            _WRITERS[kind](writer, target.do(kind, body, sent, data))

    def _write_nothing(self, writer: Writer, item: tuple[bytes, int]) -> None:
        """Of a partition that has no records there."""
        end = self.target.ends["remote"]

        def partition(to: Writer, number: int) -> None:
            to.pack("ihqqq", number, 0, end, end, 0).array((), Writer.string).pack("i", -1).bytes(b"").tags()

        writer.raw(item[0]).array((0,), partition).tags()

    def _write_coordinator(self, writer: Writer, name: str) -> None:
        writer.string(name).pack("i", NODE).string(HOST).pack("ih", self.port, 0).string(None).tags()

    def _write_metadata(self, writer: Writer, asked: Cursor) -> None:
        names = asked.array(lambda each: (each.uuid(), each.string(), each.tags())[1], 18)
        writer.pack("i", 0)
        writer.array((NODE,), lambda to, node: to.pack("i", node).string(HOST).pack("i", self.port).string(None).tags())
        writer.string("cluster").pack("i", NODE).array(names, self._write_topic).tags()

    def _write_topic(self, writer: Writer, name: str) -> None:
        writer.pack("h", 0).string(name).raw(ID[name]).pack("b", 0)
        writer.array(range(self.partitions), _write_leader).pack("i", 0).tags()


def _write_leader(writer: Writer, partition: int) -> None:
    writer.pack("hiii", 0, partition, NODE, 4)
    for nodes in ((NODE,), (NODE,), ()):
        writer.array(nodes, lambda to, node: to.pack("i", node))
    writer.tags()


def _write_produced(writer: Writer, found: ProduceAnswer) -> None:
    def topic(to: Writer, item: tuple[str | bytes, Produced]) -> None:
        assert isinstance(item[0], bytes)
        to.raw(item[0]).array((item[1],), partition).tags()

    def partition(to: Writer, each: Produced) -> None:
        to.pack("ihqqq", each.partition, each.error, each.base, each.appended, 0).array((), Writer.string)
        to.string(None).tags()

    writer.array(found.partitions, topic).pack("i", 0).tags()


def _write_entered(writer: Writer, found: Entered) -> None:
    writer.pack("ihqh", 0, found.error, found.producer, found.epoch).tags()


def _write_errors(writer: Writer, found: Mapping[Where, int]) -> None:
    def topic(to: Writer, item: tuple[Where, int]) -> None:
        (name, number), error = item
        to.string(name).array((number,), lambda each, _: each.pack("ih", number, error).tags()).tags()

    writer.pack("i", 0).array(found.items(), topic).tags()


def _write_offsets(writer: Writer, found: Offsets) -> None:
    def topic(to: Writer, item: tuple[Where, tuple[int, Offset]]) -> None:
        (name, number), (error, at) = item
        to.string(name).array(((number, error, at),), partition).tags()

    def partition(to: Writer, item: tuple[int, int, Offset]) -> None:
        number, error, at = item
        to.pack("iqi", number, at.offset, at.epoch).string(at.metadata).pack("h", error).tags()

    def group(to: Writer, name: str) -> None:
        to.string(name).array(found.found.items(), topic).pack("h", found.error).tags()

    writer.pack("i", 0).array(("group",), group).tags()


def _write_listed(writer: Writer, found: tuple[int, int]) -> None:
    def topic(to: Writer, name: str) -> None:
        to.string(name).array((0,), lambda each, _: each.pack("ihqqi", 0, found[0], -1, found[1], 4).tags()).tags()

    writer.pack("i", 0).array(("remote",), topic).tags()


_WRITERS: Mapping[str, Callable[[Writer, Any], None]] = {
    "Produce": _write_produced,
    "InitProducerId": _write_entered,
    "EndTxn": _write_entered,
    "TxnOffsetCommit": _write_errors,
    "OffsetCommit": _write_errors,
    "OffsetFetch": _write_offsets,
    "ListOffsets": _write_listed,
}
