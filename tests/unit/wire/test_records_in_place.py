"""Without TLS, records leave by a connection from the very memory that another connection has read them into."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Sequence
from typing import Any

import pytest

from mirror.batches.headers import walk
from mirror.batches.records import Content
from mirror.batches.stamping import stamp
from mirror.wire.fetch import Limits, TopicKey, fetch
from mirror.wire.produce import ALL, Batch, produce
from mirror.wire.writer import Writer
from tests.harness import batches
from tests.unit.wire.test_connection import FETCH_VERSION, frame, opened, received

ID = b"remote-remote-re"
TOPICS = [TopicKey("remote", ID), TopicKey("another", b"another-another-")]
SIZES = (1, 100, 70_000, 600_000, 300_000)  # a socket takes less than the largest ones at once
BESIDE = 100  # most bytes of a request before, between and after its batches


def fetched(records: bytes) -> bytes:
    """An answer to Fetch, after the correlation id."""

    def partition(to: Writer, number: int) -> None:
        to.pack("ihqqq", number, 0, 9, 9, 0).array((), Writer.string).pack("i", -1).bytes(records).tags()

    writer = Writer(FETCH_VERSION, True).tags().pack("ihi", 0, 0, 0)
    writer.array((ID,), lambda to, topic: to.raw(topic).array((0,), partition).tags()).tags()
    return b"".join(map(bytes, writer.parts))


def log() -> bytes:
    chance, made = random.Random(7), list[bytes]()
    for at, size in enumerate(SIZES):
        made.append(batches.batch([(at, at, Content(None, chance.randbytes(size), ()))]))
    return b"".join(made)


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> list[memoryview]:
    """What the kernel is given to send, some of it more than once."""
    found: list[memoryview] = []
    original = socket.socket.sendmsg

    def sendmsg(self: socket.socket, parts: Sequence[memoryview], *more: Any) -> int:
        found.extend(parts)
        return original(self, parts, *more)

    monkeypatch.setattr(socket.socket, "sendmsg", sendmsg)
    return found


async def answered(records: bytes) -> memoryview:
    """The records as a connection has read them."""
    async with opened() as (connection, theirs):
        waiting = connection.send(fetch({}, Limits(0, 1)))
        await asyncio.get_running_loop().sock_sendall(theirs, frame(1, fetched(records)))
        ((_, partition),) = (await waiting).partitions
        return partition.records


@pytest.mark.parametrize("at_once", [1, 2])
def test_what_is_sent_is_what_was_read(given: list[memoryview], at_once: int) -> None:
    """Stamped, alone or with another batch in a request, and however little the socket takes."""

    async def run() -> None:
        found = await answered(log())
        given.clear()
        whole = [each.data for each in walk(found)]
        async with opened() as (connection, theirs):
            for number, data in enumerate(whole):
                stamp(data, 7, 3, number)
            requests = [whole[at : at + at_once] for at in range(0, len(whole), at_once)]
            for some in requests:
                connection.send(
                    produce("id", [Batch(to, 0, data) for to, data in zip(TOPICS, some, strict=False)], ALL)
                )
            for arrived, some in zip(await received(theirs, len(requests)), requests, strict=True):
                assert all(bytes(data) in arrived for data in some)
        ours = [each for each in given if each.obj is found.obj]
        assert sum(map(len, ours)) > sum(map(len, whole)), "some of it was given more than once"
        assert all(len(each) < BESIDE for each in given if each.obj is not found.obj)

    asyncio.run(run())
