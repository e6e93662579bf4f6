"""The brokers' own limit: what was fetched before is fetched again, and written in requests that were made before.

Nobody looks at an answer, takes a checksum or waits for a transaction. So this is what a forwarder of whole batches
could reach at best, with a Produce request for each batch.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any

from mirror.batches.headers import walk
from mirror.wire.access import Address, access
from mirror.wire.cluster import Cluster
from mirror.wire.fetch import FETCH, Limits, Session, TopicKey, Wanted, fetch
from mirror.wire.produce import LEADER, PRODUCE, Batch, produce
from mirror.wire.requests import Request
from mirror.wire.sent import Sent

DEPTH = 5  # Produce requests of a partition under way, as Java's producer has them
LIMITS = Limits(wait=0.5, most=2**20)

_SIZE = struct.Struct(">i")
_FIRST_OFFSET = struct.Struct(">q")


@dataclass(frozen=True, slots=True)
class Step:
    """A Fetch request, and Produce requests with the batches of its answer."""

    fetch: bytes
    writes: Sequence[bytes]


@dataclass(frozen=True, slots=True)
class Route:
    """A partition: where it is read and written, and all requests for that."""

    source: Address
    target: Address
    steps: Sequence[Step]


def main(source: str, target: str, _: str, share: str) -> None:
    """Copy [topic, partition, remote topic] each: prepare all, then begin with all at once."""
    routes = asyncio.run(_routes(source, target, json.loads(share)))
    begin = Barrier(len(routes))
    with ThreadPoolExecutor(len(routes)) as pool:
        for each in [pool.submit(copy, route, begin) for route in routes]:
            each.result()


async def _routes(source: str, target: str, share: Iterable[tuple[str, int, str]]) -> list[Route]:
    here, there = (Cluster(access({"bootstrap.servers": each})) for each in (source, target))
    try:
        return [await _route(here, there, *each) for each in share]
    finally:
        here.close()
        there.close()


async def _route(here: Cluster, there: Cluster, topic: str, number: int, remote: str) -> Route:
    reads, writes = (await here.leader(topic, number)).node, (await there.leader(remote, number)).node
    source, target = await here.connection(reads), await there.connection(writes)
    key, remote_key = (TopicKey(name, of.topic_id(name)) for name, of in ((topic, here), (remote, there)))
    steps, at = list[Step](), 0
    while True:
        request = fetch({key: [Wanted(number, at, LIMITS.most)]}, LIMITS, Session())
        batches = walk((await source.ask(request)).partitions[0][1].records)
        if not batches:
            return Route((await here.brokers())[reads], (await there.brokers())[writes], steps)
        at = batches[-1].last + 1
        for each in batches:
            _FIRST_OFFSET.pack_into(each.data, 0, 0)  # as producers send it; no checksum covers it
        made = [produce(None, [Batch(remote_key, number, each.data)], LEADER) for each in batches]
        written = [_frame(each, target.version(PRODUCE)) for each in made]
        steps.append(Step(_frame(request, source.version(FETCH)), written))


def _frame(request: Request[Any], version: int) -> bytes:
    sent = Sent(request, version, asyncio.get_running_loop().create_future())
    return b"".join([sent.header(0, b"brokers-alone"), *sent.parts])


def copy(route: Route, begin: Barrier) -> None:
    """Send all requests of a partition, and take the answers."""
    buffer = memoryview(bytearray(LIMITS.most))
    with socket.create_connection(route.source) as source, socket.create_connection(route.target) as target:
        target.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        begin.wait()
        under_way = 0
        for step in route.steps:
            source.sendall(step.fetch)
            for each in step.writes:
                if under_way == DEPTH:
                    _take(target, buffer)
                    under_way -= 1
                target.sendall(each)
                under_way += 1
            _take(source, buffer)
        for _ in range(under_way):
            _take(target, buffer)


def _take(from_: socket.socket, buffer: memoryview) -> None:
    """Read an answer, and forget it."""
    (left,) = _SIZE.unpack(from_.recv(_SIZE.size, socket.MSG_WAITALL))
    while left:
        taken = from_.recv_into(buffer, min(left, len(buffer)))
        if not taken:
            raise ConnectionError("the broker has closed the connection")
        left -= taken


if __name__ == "__main__":
    main(*sys.argv[1:])
