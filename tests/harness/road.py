"""The batch path by itself, without Spark and the service: partitions of one topic, each copied by one coroutine."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mirror.batches.building import build
from mirror.batches.records import Content
from mirror.errors import MirrorError
from mirror.source.batch_feed import LeaveTheRoad, Span
from mirror.source.batch_fetcher import BatchFetcher, Memory
from mirror.target.batch_session import Beside, Own
from mirror.target.batch_take_over import Owner
from mirror.target.offset_syncs import OffsetSync
from mirror.task.batch_copier import BatchCopier, Route
from mirror.wire.access import access
from mirror.wire.cluster import Cluster
from mirror.wire.fetch import TopicKey
from tests.harness import oracle
from tests.harness.waiting import PATIENCE


@dataclass
class Road:
    """A topic with its remote topic, and a topic for tokens and offset syncs. All of them exist."""

    source: str
    target: str
    topic: str
    remote: str
    own: str
    partitions: int = 1
    largest: int = 2**20
    memory: Memory = field(default_factory=Memory)
    properties: dict[str, str] = field(default_factory=dict)
    left: dict[int, LeaveTheRoad] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    copied: int = 0
    connections: int = 0  # most to one broker
    held: int = 0  # most bytes of answers

    @property
    def group(self) -> str:
        """The group of the positions."""
        return f"group-{self.remote}"

    def run(self, until: Callable[[], bool]) -> None:
        """Copy until it is so, from where the positions say."""
        asyncio.run(self._run(until))

    def copy_all(self) -> None:
        """Copy until the target has as many records as the source has now."""
        wanted = oracle.count(oracle.read(self.source, self.topic))
        self.run(lambda: self.copied >= wanted)

    async def _run(self, until: Callable[[], bool]) -> None:
        source, target = (
            Cluster(access({"bootstrap.servers": servers, **self.properties})) for servers in (self.source, self.target)
        )
        fetcher = BatchFetcher(source, self.memory)
        topic = TopicKey(self.topic, (await source.topic(self.topic)).id)
        tasks = [asyncio.create_task(self._keep_on(fetcher, target, topic, each)) for each in range(self.partitions)]
        deadline = time.monotonic() + PATIENCE
        try:
            while not until():
                assert time.monotonic() < deadline, (self.copied, self.left, self.failures[-5:])
                for task in tasks:
                    if task.done():
                        task.result()
                for cluster in (source, target):
                    self.connections = max([self.connections, *cluster.connections().values()])
                self.held = max(self.held, fetcher.held)
                await asyncio.sleep(0.005)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await fetcher.stop()
            source.close()
            target.close()

    async def _keep_on(self, fetcher: BatchFetcher, target: Cluster, topic: TopicKey, partition: int) -> None:
        """What an owner does after an error: take over again."""
        name = f"{self.group}/{self.remote}/{partition}"
        owner = Owner(name, self.group, self.remote, partition, self.own, 60.0)
        copier = BatchCopier(fetcher, target, Route(topic, owner, self.largest), self._syncs(partition))
        before = self.copied
        while True:
            task = asyncio.create_task(copier.run())
            try:
                while not task.done():
                    await asyncio.wait([task], timeout=0.005)
                    self.copied = before + copier.copied if self.partitions == 1 else self.copied
                await task
            except LeaveTheRoad as left:
                self.left[partition] = left
                return
            except MirrorError as error:
                self.failures.append(f"{type(error).__name__}: {error}")
                await asyncio.sleep(0.1)
            finally:
                task.cancel()
                with contextlib.suppress(BaseException):
                    await task

    def _syncs(self, partition: int) -> Callable[[list[Span]], Own | None]:
        def of(spans: list[Span]) -> Own | None:
            batches = [batch for span in spans for batch in span.batches]

            def own(base: int) -> Sequence[Beside]:
                sync = OffsetSync(self.topic, partition, batches[0].first, base)
                return [Beside(self.own, 0, build([Content(sync.key(), sync.value(), ())], int(time.time() * 1000)))]

            return own if batches else None

        return of
