"""What a broker bears with us: connections, requests at once and attempts stay few, whatever it does to them."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable
from functools import partial
from typing import cast

import pytest

from mirror.errors import PartitionError, WireError
from mirror.source.batch_fetcher import BatchFetcher
from mirror.source.fetched_partitions import RETRY
from mirror.target import batch_take_over, coordination
from mirror.target.batch_take_over import Owner, take_over
from mirror.target.loading import Tokens
from mirror.task import batch_copier
from mirror.wire import connection
from mirror.wire.access import access
from mirror.wire.cluster import Cluster
from mirror.wire.fetch import TopicKey
from mirror.wire.pool import MOST_CONNECTIONS, RECONNECT, RECONNECT_MAX
from tests.harness.batch_requests import BARRIER, ID
from tests.harness.batch_target import Target, made
from tests.harness.loopback import HOST, Loopback
from tests.unit.task.test_batch_copier import AT, COMMITTED, World, contents
from tests.unit.task.test_batch_path_obstacles import flow

PARTITIONS = 40  # that are read, and as many that are taken over
FOR = 1.5  # seconds
BATCHES, AT_ONCE = 60, 25  # that are written to each partition, and most in a transaction
MOST = sum(MOST_CONNECTIONS.values())
TO_WRITE = sum(MOST_CONNECTIONS[purpose] for purpose in ("other", "first", "produce", "coordinator"))
OWNER = Owner("group/remote/0", "group", "remote", 0, BARRIER, 60.0)

Way = Callable[[int, bytes], bytes | None]


def attempts(seconds: float) -> int:
    """The most connections in this time: one each at the same time, and one after each back-off that has room.

    These are 50 ms, 100, 200, ... 2 s, less half of each.
    """
    count, at, wait = MOST, 0.0, RECONNECT / 2
    while at <= seconds:
        count, at, wait = count + 1, at + wait, min(2 * wait, RECONNECT_MAX / 2)
    return count


async def wanting(port: int, until: Callable[[], bool]) -> float:
    """Many partitions want to read from the broker and to write to it, all the time, until it is so.

    Returns how many seconds that took: more than was meant on a machine that does much else.
    """
    begun = asyncio.get_running_loop().time()
    cluster = Cluster(access({"bootstrap.servers": f"{HOST}:{port}"}))
    fetcher = BatchFetcher(cluster)

    async def writes() -> None:
        while True:
            with contextlib.suppress(PartitionError, WireError):
                await take_over(cluster, OWNER, Tokens())
            await asyncio.sleep(0.02)  # less than anybody waits who has got an error

    for number in range(PARTITIONS):
        fetcher.open(TopicKey("remote", ID["remote"]), number, 0)
    tasks = [asyncio.create_task(writes()) for _ in range(PARTITIONS)]
    try:
        async with asyncio.timeout(20):
            while not until():
                assert max([0, *cluster.connections().values()]) <= MOST
                await asyncio.sleep(0.01)
        return asyncio.get_running_loop().time() - begun
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await fetcher.stop()
        cluster.close()


def for_a_while() -> Callable[[], bool]:
    """True once the time is over."""
    loop = asyncio.get_running_loop()
    end = loop.time() + FOR
    return lambda: loop.time() > end


def closes(_: int, __: bytes) -> bytes | None:
    return None


def closes_after_the_greeting(number: int, answer: bytes) -> bytes | None:
    return answer if len(answer) > 500 else None  # only the answer to the first request is that large


def answers_with_garbage(number: int, answer: bytes) -> bytes | None:
    return b"HTTP/1.1 400 Bad Request\r\n\r\n"


def says_nothing(number: int, answer: bytes) -> bytes | None:
    return b""


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TIMEOUT", 0.2)
    monkeypatch.setattr(coordination, "PATIENCE", 0.2)
    monkeypatch.setattr(batch_take_over, "PATIENCE", 0.2)


@pytest.mark.parametrize("way", [closes, closes_after_the_greeting, answers_with_garbage, says_nothing])
@pytest.mark.usefixtures("hurried")
def test_a_broker_that_helps_nobody_is_asked_rarely(way: Way) -> None:
    loopback = Loopback(Target(), way)
    loopback.partitions = PARTITIONS

    async def run() -> float:
        async with loopback.serve():
            return await wanting(loopback.port, for_a_while())

    most = attempts(asyncio.run(run()))
    assert 1 < loopback.accepted <= most and loopback.most_open <= MOST
    assert loopback.most_pending <= most, "what is not connected has nothing under way"


def test_a_slow_broker_has_few_requests_at_once() -> None:
    """Each partition has one under way, and waits for its answer."""
    loopback = Loopback(Target())
    loopback.delay, loopback.partitions = 0.1, PARTITIONS

    async def run() -> float:
        async with loopback.serve():
            return await wanting(loopback.port, for_a_while())

    seconds = asyncio.run(run())
    assert loopback.accepted == loopback.most_open <= MOST
    assert loopback.most_pending <= MOST, "it reads one request of a connection after the other"
    assert len(loopback.asked) <= MOST * (seconds / loopback.delay + 2)
    assert loopback.asked.count("Fetch") <= seconds / (loopback.delay + RETRY) + 2, "also if it waits for no records"


def test_a_broker_that_comes_back_is_not_overrun() -> None:
    """It refuses connections at first. All find it again, by as many connections as before."""
    with socket.create_server((HOST, 0)) as reserved:
        port = int(reserved.getsockname()[1])
    loopback = Loopback(Target())
    loopback.partitions = PARTITIONS

    async def run() -> float:
        away = asyncio.create_task(wanting(port, lambda: loopback.target.count("ListOffsets") > PARTITIONS))
        await asyncio.sleep(FOR)
        assert not away.done()
        async with loopback.serve(port):
            begun = asyncio.get_running_loop().time()
            await away
            return asyncio.get_running_loop().time() - begun

    seconds = asyncio.run(run())
    assert loopback.accepted <= attempts(seconds) and loopback.most_open <= MOST


async def writing(loopback: Loopback) -> None:
    """Copy to each of its targets: a little until all connections are open, then many small batches to all at once.

    Only the latter is counted.
    """
    cluster = Cluster(access({"bootstrap.servers": f"{HOST}:{loopback.port}"}))
    worlds = [World(flow(group=name.decode()), cast(Target, cluster)) for name in loopback.targets]
    tasks = [asyncio.create_task(world.copier.run()) for world in worlds]
    end = AT.offset

    async def copy(count: int) -> None:
        nonlocal end
        for world in worlds:
            world.source.add(end + count, partial(made, *[1] * count, at=end))
        end += count
        while any(target.position.offset < end for target in loopback.targets.values()):
            assert not any(task.done() for task in tasks)
            await asyncio.sleep(0.01)

    try:
        async with asyncio.timeout(60):
            while loopback.open < TO_WRITE:
                await copy(2)
            loopback.most_on_one = 0
            loopback.most_under_way.clear()
            await copy(BATCHES)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        cluster.close()


def test_a_broker_that_is_written_to_has_a_bound_of_requests_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition has no more under way than a transaction has batches, and they share the connections evenly."""
    monkeypatch.setattr(batch_copier, "BATCHES_MAX", AT_ONCE)
    loopback = Loopback(Target())
    loopback.delay = 0.001
    loopback.targets = {b"group-%02d" % number: Target(position=COMMITTED) for number in range(PARTITIONS)}

    async def run() -> None:
        async with loopback.serve():
            await writing(loopback)

    asyncio.run(run())
    assert loopback.accepted == loopback.most_open == TO_WRITE < MOST
    assert AT_ONCE // 2 < max(loopback.most_under_way.values()) <= AT_ONCE, "the position is under way with the batches"
    evenly = PARTITIONS * (AT_ONCE - 1) / MOST_CONNECTIONS["produce"]
    assert loopback.most_on_one <= evenly + AT_ONCE, "who chooses the one with the fewest adds a transaction at most"
    for target in loopback.targets.values():
        copied = [content for _, content in sorted(target.committed["remote"].items())]
        assert copied == contents(range(AT.offset, AT.offset + len(copied))) and len(copied) > BATCHES
        assert sum(each.batches[0][0] == "remote" for each in target.produced) == len(copied), "each is sent once"
