"""Copies one partition in whole batches: one coroutine that reads as the story."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mirror.errors import Interleaved
from mirror.source.batch_feed import Span
from mirror.source.batch_fetcher import BatchFetcher
from mirror.target.batch_session import BatchSession, Own
from mirror.target.batch_take_over import Owner, take_over
from mirror.wire.cluster import Cluster
from mirror.wire.fetch import TopicKey
from mirror.wire.offsets import Offset

TRANSACTION_MAX = 4 * 2**20  # bytes
BATCHES_MAX = 500  # in a transaction: each is a request under way


@dataclass(frozen=True, slots=True)
class Route:
    """From where to where one partition is copied, and the largest batch (bytes) that the target takes."""

    source: TopicKey
    owner: Owner
    largest: int = 2**20


class BatchCopier:
    """Copies until it leaves the road, or an error ends it. Then it can run again. `copied` counts records."""

    def __init__(
        self, fetcher: BatchFetcher, target: Cluster, route: Route, own: Callable[[list[Span]], Own | None]
    ) -> None:
        self._fetcher = fetcher
        self._target = target
        self._route = route
        self._own = own
        self._careful = False
        self.copied = 0

    async def run(self) -> None:
        """Take the partition over, and copy. Raises LeaveTheRoad, PartitionError, WireError."""
        route, owner = self._route, self._route.owner
        by, loaded = await take_over(self._target, owner)
        session, self._careful = BatchSession(self._target, owner, by, self._careful), False
        at = loaded or Offset(0, "")
        feed = self._fetcher.open(route.source, owner.partition, at.offset, at.epoch, route.largest)
        try:
            while True:
                spans = await feed.next(TRANSACTION_MAX, BATCHES_MAX)
                try:
                    batches = [batch for span in spans for batch in span.batches]
                    position = Offset(spans[-1].end, at.metadata, spans[-1].epoch)
                    await session.commit(batches, position, self._own(spans))
                finally:
                    for span in spans:
                        feed.done(span)
                self.copied += sum(batch.records for batch in batches)
        except Interleaved:
            self._careful = True
            raise
        finally:
            self._fetcher.close(feed)
