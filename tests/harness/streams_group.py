"""A group of Kafka Streams (KIP-1071): a member joins by a heartbeat, as the Java library does, and leaves again."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from mirror.errors import Unavailable
from mirror.wire.access import access
from mirror.wire.cluster import Cluster
from mirror.wire.cursor import Cursor
from mirror.wire.metadata import GROUP
from mirror.wire.requests import Api, Request
from mirror.wire.writer import Writer
from tests.harness.waiting import until

HEARTBEAT = Api("StreamsGroupHeartbeat", 88, 0, 0, flexible=0)
JOINS, LEAVES = 0, -1  # in place of the member's epoch


@contextmanager
def streaming(bootstrap: str, topic: str, group: str) -> Iterator[None]:
    """A group with one member, whose only source is the topic."""
    member = str(uuid.uuid4())
    _beat(bootstrap, group, _heartbeat(group, member, JOINS, topic))
    try:
        yield
    finally:
        _beat(bootstrap, group, _heartbeat(group, member, LEAVES, None))


def _beat(bootstrap: str, group: str, heartbeat: Request[int]) -> None:
    """Send it to the coordinator, until it takes it: it may still be loading."""

    async def is_taken() -> bool:
        cluster = Cluster(access({"bootstrap.servers": bootstrap}))
        try:
            coordinator = await cluster.connection(await cluster.coordinator(GROUP, group))
            return await coordinator.ask(heartbeat) == 0
        except Unavailable:
            return False
        finally:
            cluster.close()

    until(f"the coordinator of {group} takes a heartbeat", lambda: asyncio.run(is_taken()))


def _heartbeat(group: str, member: str, epoch: int, topic: str | None) -> Request[int]:
    """A heartbeat, with all of the topology or nothing of it. The answer is an error code."""
    nothing: tuple[str, ...] | None = None if topic is None else ()

    def subtopology(writer: Writer, source: str) -> None:
        writer.string("0").array((source,), Writer.string)
        for _ in range(5):  # patterns, changelogs, repartition sinks and sources, co-partitioned topics
            writer.array((), Writer.string)
        writer.tags()

    def write(writer: Writer) -> None:
        writer.string(group).string(member).pack("ii", epoch, 0)
        writer.string(None).string(None).pack("i", 60_000)  # instance, rack, milliseconds of a rebalance
        if topic is None:
            writer.pack("b", -1)
        else:
            writer.pack("bi", 1, 0).array((topic,), subtopology).tags()
        for _ in range(3):  # active, standby and warm-up tasks
            writer.array(nothing, Writer.string)
        writer.string(member if topic else None).pack("b", -1)  # the process; no endpoint
        writer.array(nothing, Writer.string)  # the client's tags
        writer.array(None, Writer.string).array(None, Writer.string).pack("?", False).tags()  # offsets of tasks

    def read(answer: Cursor) -> int:
        answer.throttle()
        error = answer.int16()
        answer.rest()
        return error

    return Request(HEARTBEAT, write, read)
