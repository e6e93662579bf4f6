"""The batch path by itself, without Spark and the service: partitions of one topic, each copied by one coroutine."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from mirror import settings
from mirror.clock import Clock
from mirror.config.load import load
from mirror.control.reports import Counters
from mirror.errors import MirrorError
from mirror.model import BATCH_BYTES, Partition, Topic
from mirror.source.batch_feed import LeaveBatchPath
from mirror.source.batch_fetcher import BatchFetcher
from mirror.source.fetch_memory import MemoryBounds
from mirror.target.loading import Tokens
from mirror.target.take_over_places import Places
from mirror.task.batch_copier import BatchCopier
from mirror.task.batch_services import BatchServices, Books, Route
from mirror.task.known_positions import KnownPositions, StartPoint
from mirror.task.ownership import Ownership
from mirror.task.rate_limits import RateLimits, Turns
from mirror.wire.access import Access, access
from mirror.wire.cluster import Cluster
from tests.harness import oracle, topics
from tests.harness.constant_plan import ConstantPlan
from tests.harness.pair import Pair
from tests.harness.waiting import PATIENCE


@dataclass
class BatchPath:
    """A topic with its remote topic, and the flow that copies it. These and the flow's own topics exist."""

    flow: settings.Flow
    topic: str
    remote: str
    partitions: int = 1
    largest: int = BATCH_BYTES
    memory: MemoryBounds = field(default_factory=MemoryBounds)
    places: Places = field(default_factory=Places)
    left: dict[int, LeaveBatchPath] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    books: dict[int, Books] = field(default_factory=dict)
    logins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)  # by alias: how the copiers reach a cluster
    connections: int = 0  # most to one broker
    held: int = 0  # most bytes of answers

    @property
    def source(self) -> str:
        """The bootstrap address of the source."""
        return self.flow.source.properties["bootstrap.servers"]

    @property
    def target(self) -> str:
        """The bootstrap address of the target."""
        return self.flow.target.properties["bootstrap.servers"]

    @property
    def copied(self) -> int:
        """The records that were committed since `again`, as far as this process knows."""
        return sum(each.counters.records for each in self.books.values())

    def again(self) -> None:
        """Know nothing, as another task that takes over."""
        self.books.clear()

    def run(self, until: Callable[[], bool]) -> None:
        """Copy until it is so, from where the positions say. Fails if nothing is copied for PATIENCE seconds."""
        asyncio.run(self._run(until))

    def copy_all(self) -> None:
        """Copy until the positions are behind all records that the source has now.

        The records of the target are not counted: a transaction whose end was asked for may end after they were read.
        """
        read = oracle.read(self.source, self.topic)
        ends = {number: records[-1].offset + 1 for number, records in read.items() if records}
        self.again()
        self.run(lambda: all(self._offset(number) >= end for number, end in ends.items()))

    def _offset(self, number: int) -> int:
        return self.books[number].known.offset if number in self.books else -1

    async def _run(self, until: Callable[[], bool]) -> None:
        source, target = (Cluster(self._access(each)) for each in (self.flow.source, self.flow.target))
        fetcher, clock = BatchFetcher(source, self.memory), Clock()
        ids = topics.topic_id(self.source, self.topic), topics.topic_id(self.target, self.remote)
        plan = ConstantPlan(self.flow, batch_bytes=self.largest)
        topic = Topic(self.remote, ids[0], self.partitions, self.partitions, ids[1])
        services = BatchServices(
            plan, fetcher, target, Tokens(), RateLimits(clock), clock, Ownership(plan), self.places
        )
        tasks = [asyncio.create_task(self._keep_on(services, topic, each)) for each in range(self.partitions)]
        copied, since = self.copied, time.monotonic()
        try:
            while not until():
                if self.copied != copied:
                    copied, since = self.copied, time.monotonic()
                assert time.monotonic() < since + PATIENCE, (self.copied, self.left, self.failures[-5:])
                for task in tasks:
                    if task.done():
                        task.result()
                for cluster in (source, target):
                    self.connections = max([self.connections, *cluster.connections().values()])
                self.held = max(self.held, fetcher.memory.used)
                await asyncio.sleep(0.005)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await fetcher.stop()
            source.close()
            target.close()

    def _access(self, cluster: settings.Cluster) -> Access:
        how = access({**cluster.properties, **self.logins.get(cluster.alias, {})})
        return replace(how, cluster=cluster.alias)

    async def _keep_on(self, services: BatchServices, topic: Topic, number: int) -> None:
        """What an owner does after an error: take over again. As a new task it has read no position and no report."""
        partition, clock = Partition(self.topic, number), services.clock
        known = KnownPositions(StartPoint(0, unread=True), topic, True, services.plan.renew_interval, clock)
        books = self.books.setdefault(number, Books(known, Counters(), Turns(clock)))
        copier = BatchCopier(services, Route(partition, topic), books)
        while True:
            try:
                await copier.run()
            except LeaveBatchPath as left:
                self.left[number] = left
                return
            except MirrorError as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                await asyncio.sleep(0.1)


def between(
    pair: Pair, directory: Path, placed: Sequence[Sequence[int]] = (), own: Sequence[int] = (), **flow: object
) -> BatchPath:
    """The batch path of a new topic of a pair, with the topics that it needs.

    placed: the nodes that have each partition of the remote topic; one partition anywhere, unless given. own: the nodes
    that have the flow's own topics.
    """
    file = directory / f"{pair.prefix}mirror.yaml"
    file.write_text(yaml.safe_dump(pair.settings({"data_path": "auto", **flow})))
    read = load(file, {}).flows[0]
    topic = pair.topic("t", len(placed) or 1, retention_ms=-1)
    remote = pair.remote(topic)
    if placed:
        topics.create_placed(pair.target, remote, placed, retention_ms=-1)
    else:
        topics.create(pair.target, remote, retention_ms=-1)
    for name in (read.control_topic, read.offset_syncs_topic, read.offset_map_topic):
        if own:
            topics.create_placed(pair.target, name, [own], cleanup_policy="compact")
        else:
            topics.create(pair.target, name, cleanup_policy="compact")
    return BatchPath(read, topic, remote, len(placed) or 1)
