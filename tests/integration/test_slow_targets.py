"""The batch path to a target behind a slow link, and to one of which some partitions are replicated slowly."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from mirror.clock import Clock
from mirror.demo.brokers import LocalCluster
from mirror.errors import OutcomeUnknown, PartitionError
from mirror.model import MapEnd, Partition, Position, Topic
from mirror.target.batch_session import BatchSession
from mirror.target.batch_take_over import Owner, take_over
from mirror.target.loading import Tokens
from mirror.wire.access import access
from mirror.wire.cluster import Cluster
from mirror.wire.connection import TIMEOUT as ANSWER_TIMEOUT
from mirror.wire.pool import MOST_CONNECTIONS
from mirror.wire.produce import TIMEOUT as REPLICATION_TIMEOUT
from tests.harness import load, oracle, topics
from tests.harness.batch_path import BatchPath, between
from tests.harness.batch_target import made
from tests.harness.forwarder import SlowLink
from tests.harness.load import Made
from tests.harness.pair import Pair

pytestmark = pytest.mark.slow

LARGE = 900_000  # bytes of a record, and of its batch


def test_a_batch_that_takes_longer_over_the_link_than_an_answer_may(
    source_cluster: LocalCluster, prefix: str, tmp_path: Path
) -> None:
    """Two at once take three times as long, and each gets there at the first attempt."""
    target = LocalCluster("far", tmp_path)
    link = SlowLink(target, 2 * LARGE / (3 * ANSWER_TIMEOUT))
    with target, link:
        batches = between(Pair(source_cluster.bootstrap, link.bootstrap, "far", prefix), tmp_path, [[1], [1]])
        for number in range(batches.partitions):
            load.produce(batches.source, batches.topic, [Made(None, os.urandom(LARGE))], number)
        begun = time.monotonic()
        batches.copy_all()
        assert time.monotonic() - begun > ANSWER_TIMEOUT and not batches.failures and not batches.left
        oracle.compare(oracle.read(batches.source, batches.topic), oracle.read(batches.target, batches.remote))


LAGGING = MOST_CONNECTIONS["first"]  # partitions: when they wait, they block all connections of this purpose
# A follower that stands still stays in sync, so who waits for replication waits for it.
PATIENT = {"replica.lag.time.max.ms": 600_000, "broker.session.timeout.ms": 600_000}


class Owners:
    """The owners of all partitions of a remote topic, each with its transactions."""

    def __init__(self, path: BatchPath) -> None:
        self._flow = path.flow
        ids = topics.topic_id(path.source, path.topic), topics.topic_id(path.target, path.remote)
        self._topic = Topic(path.remote, ids[0], path.partitions, path.partitions, ids[1])
        self._partitions = [Partition(path.topic, number) for number in range(path.partitions)]
        self._target = Cluster(access(path.flow.target.properties))

    async def takes_over(self, number: int) -> tuple[BatchSession, Position]:
        """A session, and where it begins. What was left open has to end first."""
        owner, taken = Owner.of(self._flow, self._topic, number), None
        while taken is None:
            with contextlib.suppress(PartitionError):
                taken = await take_over(self._target, owner, Tokens())
        session = BatchSession(self._target, self._flow, self._partitions[number], self._topic, taken, Clock())
        start = Position(0, self._topic.topic_id, remote_id=self._topic.remote_id, map_end=MapEnd())
        return session, taken.position or start

    @staticmethod
    async def copies(session: BatchSession, at: Position) -> Position:
        """Copy a batch of three records. Returns the position after it."""
        return (await session.copy(made(3, at=at.offset), replace(at, offset=at.offset + 3))).position

    async def longest_beside(self, lagging: LocalCluster) -> float:
        """Seconds of the longest transaction of the last partition, while a follower of the others stands still."""
        *others, (session, at) = [await self.takes_over(number) for number in range(LAGGING + 1)]
        lagging.brokers[-1].pause()
        waiting = [asyncio.create_task(self.copies(*each)) for each in others]
        longest = 0.0
        while not all(each.done() for each in waiting):
            begun = time.monotonic()
            at = await self.copies(session, at)
            longest = max(longest, time.monotonic() - begun)
        lagging.brokers[-1].resume()
        for each in waiting:
            with pytest.raises(OutcomeUnknown, match=r"REQUEST_TIMED_OUT|timed out"):
                await each
        return longest

    def close(self) -> None:
        self._target.close()


def test_partitions_that_are_replicated_slowly_hold_up_no_others(
    source_cluster: LocalCluster, prefix: str, tmp_path: Path
) -> None:
    """Again and again: the first time, nobody knows which they are.

    A machine that is busy with something else is slow now and then; who waits for the others does so each time.
    """
    with LocalCluster("lags", tmp_path, 3, PATIENT) as target:
        for internal in ("__consumer_offsets", "__transaction_state"):
            topics.create_placed(target.bootstrap, internal, [[1, 2]] * 8, cleanup_policy="compact")
        pair = Pair(source_cluster.bootstrap, target.bootstrap, "lags", prefix)
        path = between(pair, tmp_path, [*[[1, 3]] * LAGGING, [1, 2]], own=[1, 2])

        async def run() -> float:
            with contextlib.closing(Owners(path)) as owners:
                await owners.copies(*await owners.takes_over(LAGGING))  # so that all leaders are known
                await owners.longest_beside(target)
                return min([await owners.longest_beside(target) for _ in range(2)])

        assert asyncio.run(run()) < REPLICATION_TIMEOUT / 2
