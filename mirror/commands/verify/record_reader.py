"""Reads records as consumers see them, without a client library, so that it gets them whole.

librdkafka cuts header names at their first NUL byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping
from itertools import takewhile

from mirror.backoff import Backoff
from mirror.batches.headers import RecordBatch, committed, walk
from mirror.batches.records import records
from mirror.errors import Malformed, Unavailable, WireError
from mirror.text import duration
from mirror.wire.access import access
from mirror.wire.cluster import Cluster
from mirror.wire.error_codes import CODES, failure
from mirror.wire.fetch import FETCH, FetchAnswer, Limits, PartitionAnswer, TopicKey, Wanted, fetch
from mirror.wire.metadata import METADATA

TIMEOUT = 30.0  # seconds without any record; long enough for a leader that hangs and for its successor
LIMITS = Limits(wait=0.5, most=4 * 2**20)  # of one request; two answers can be in memory at once

Record = tuple[int, int, bytes]  # offset, timestamp (ms), encoded content


class OldFormat(Exception):
    """The partition has records of format 0 or 1 from `first` to `last`, which this module does not decode."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__(first, last)
        self.first, self.last = first, last


class Removed(Exception):
    """The log no longer has the offset."""


def obstacle(properties: Mapping[str, str]) -> str | None:
    """Why this module can't read a cluster; None if it can. Waits a while for a cluster that does not answer."""
    try:
        asyncio.run(_reached(Cluster(access(properties))))
    except WireError as error:
        return str(error)
    return None


async def _reached(cluster: Cluster) -> None:
    deadline, backoff = time.monotonic() + TIMEOUT, Backoff()
    try:
        while True:
            try:
                connection = await cluster.any()
                connection.version(FETCH), connection.version(METADATA)
                return
            except Unavailable:
                if time.monotonic() > deadline:
                    raise
            await asyncio.sleep(backoff.next())
    finally:
        cluster.close()


class RecordReader:
    """Reads from the cluster that these librdkafka properties reach.

    It sees what read_committed consumers see; with `stable` False, also records of aborted and open transactions.
    """

    def __init__(self, properties: Mapping[str, str], stable: bool = True) -> None:
        self._runner = asyncio.Runner()  # its loop runs while we wait for an answer
        self._cluster = Cluster(access(properties))
        self._stable = stable

    def read(self, topic: str, partition: int, start: int, stop: int) -> Iterator[Record]:
        """The records from `start` up to the offset `stop`, which is at most the last stable offset.

        With `stable` False, `stop` is at most the high watermark.

        Raises OldFormat, Removed, WireError.
        """
        for batch in self._batches(topic, partition, start, stop):
            if start <= batch.first and batch.last < stop:
                yield from records(batch)
            else:
                yield from (record for record in records(batch) if start <= record[0] < stop)

    def _batches(self, topic: str, partition: int, start: int, stop: int) -> Iterator[RecordBatch]:
        """The batches from the one with `start` on. The next request is sent before they are processed."""
        fetches = _Fetches(self._cluster, topic, partition, self._stable)
        position = start
        while position < stop:
            fetched = self._runner.run(fetches.next(position, stop))
            batches = [batch for batch in walk(fetched.records) if batch.last >= position]
            if not batches:
                raise Malformed(f"the answer has no batch with offset {position}")
            old = [batch.last for batch in takewhile(lambda each: each.is_old, batches)]
            if old:
                raise OldFormat(position, old[-1])
            new = list(takewhile(lambda each: not each.is_old, batches))
            position = new[-1].last + 1
            if position < stop:
                self._runner.run(fetches.ask(position))
            yield from committed(new, fetched.aborted)


class _Fetches:
    """Fetch requests for one partition, sent to its leader; at most one is under way."""

    def __init__(self, cluster: Cluster, topic: str, partition: int, stable: bool) -> None:
        self._cluster = cluster
        self._stable = stable
        self._where = topic, partition
        self._asked: asyncio.Future[FetchAnswer] | None = None

    async def ask(self, position: int) -> None:
        """Send a request for the records from `position` on, if there is a leader."""
        with contextlib.suppress(Unavailable):  # then `next` looks for the new leader
            self._asked = await self._ask(position)

    async def next(self, position: int, stop: int) -> PartitionAnswer:
        """The records from `position` on. Waits for a leader and for records. Raises Removed, WireError."""
        backoff, deadline = Backoff(max_seconds=1.0), time.monotonic() + TIMEOUT
        reason = "no records come"
        while time.monotonic() < deadline:
            until = time.monotonic() + LIMITS.wait
            try:
                fetched = await self._answer(position)
                if fetched.records:
                    return fetched
                await asyncio.sleep(until - time.monotonic())  # a broker that has none waits, or else we do
            except Unavailable as error:
                reason = str(error)
                if error.code is None:  # nobody has answered; an answer has been judged already
                    self._cluster.forget_leader(*self._where)
                await asyncio.sleep(backoff.next())
        raise WireError(f"no record before offset {stop} within {duration(TIMEOUT)}: {reason}")

    async def _ask(self, position: int) -> asyncio.Future[FetchAnswer]:
        topic, partition = self._where
        leader = await self._cluster.leader(topic, partition)
        connection = await self._cluster.connection(leader.node)
        wanted = {TopicKey(topic, self._cluster.topic_id(topic)): [Wanted(partition, position, LIMITS.most)]}
        return connection.send(fetch(wanted, LIMITS, stable=self._stable))

    async def _answer(self, position: int) -> PartitionAnswer:
        asked, self._asked = self._asked or await self._ask(position), None
        answer = await asked
        topic, partition = self._where
        if answer.error:
            self._cluster.forget_leader(topic, partition)
            raise failure(answer.error)
        names = topic, self._cluster.topic_id(topic)
        found = next((each for name, each in answer.partitions if name in names and each.partition == partition), None)
        if found is None:
            raise Malformed(f"the answer to a Fetch request for {topic}-{partition} does not have that partition")
        if found.error == CODES["OFFSET_OUT_OF_RANGE"]:
            raise Removed
        if found.error:
            self._cluster.forget_leader(topic, partition)
            if named := found.leader:
                self._cluster.hint(topic, partition, named, answer.addresses.get(named.node))
            raise failure(found.error)
        return found
