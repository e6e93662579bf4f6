"""Fetches whole record batches, with one fetch session for each broker of the source (KIP-227)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from itertools import chain

from mirror.backoff import Backoff
from mirror.batches.merging import MERGED_MAX
from mirror.errors import LoginRefused, Refused, Unavailable, WireError
from mirror.model import BATCH_BYTES
from mirror.source.batch_feed import Feed, Key, Largest, LeaveBatchPath
from mirror.source.broker_fetches import BrokerFetches
from mirror.source.fetch_memory import BOUNDS, FetchMemory, MemoryBounds
from mirror.source.fetch_session import Ends
from mirror.source.fetched_partitions import RETRY
from mirror.wire.cluster import Cluster
from mirror.wire.fetch import TopicKey

log = logging.getLogger(__name__)

LOOK_INTERVAL = 60.0  # seconds after which others are asked who leads a partition that does not move
# Seconds after which the next look asks the leader for the nearest replica again (KIP-392), as Java's client does.
FOLLOWED = 300.0
# Seconds for which everything is fetched from leaders after a nearer replica has failed: twice as long each time.
LEADERS, LEADERS_MAX = 5.0, 300.0


class BatchFetcher:
    """The feeds of one source cluster. It belongs to one event loop."""

    def __init__(self, cluster: Cluster, memory: MemoryBounds = BOUNDS, rack: str = "") -> None:
        self.cluster = cluster
        self._rack = rack
        self._backoffs: dict[int, Backoff] = {}  # by the node of a nearer replica that has failed
        self._leaders_until = 0.0  # by the loop's clock: everything is fetched from leaders
        self.memory = FetchMemory(memory, self.wake)
        self._brokers: dict[int, BrokerFetches] = {}
        self._looking: set[asyncio.Task[None]] = set()
        self._watching = asyncio.create_task(self._watch())

    def open(
        self,
        topic: TopicKey,
        partition: int,
        position: int,
        epoch: int = -1,
        largest: Largest = lambda: BATCH_BYTES,
        largest_merged: Largest = lambda: MERGED_MAX,
    ) -> Feed:
        """Begin to fetch a partition, at `position`. `epoch` is that of the record before it."""
        feed = Feed(topic, partition, position, epoch, largest, largest_merged)
        self.place(feed)
        return feed

    def close(self, feed: Feed) -> None:
        """Fetch the partition no more."""
        feed.end(None, drop=True)

    async def stop(self) -> None:
        """End all sessions."""
        brokers = list(self._brokers.values())
        for broker in brokers:
            broker.end()
        tasks = [self._watching, *self._looking]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *(broker.task for broker in brokers), return_exceptions=True)

    def place(self, feed: Feed, after: float = 0.0) -> None:
        """Find the broker that a feed is fetched from, in the background."""
        task = asyncio.create_task(self._placed(feed, after))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    def follow(self, feed: Feed, node: int) -> None:
        """Fetch the partition from a replica that is nearer to us."""
        feed.follows_until = asyncio.get_running_loop().time() + FOLLOWED
        self._broker(node).take(feed)

    def distrust(self, feed: Feed, node: int) -> None:
        """Have leaders name no nearer replica for a while, if this feed's one has failed.

        A leader would name it again at once: it does not know that we can't reach it, or can't read what it has.
        """
        now = asyncio.get_running_loop().time()
        if feed.follows_until and now >= self._leaders_until:
            self._leaders_until = now + self._backoffs.setdefault(node, Backoff(LEADERS, LEADERS_MAX)).next()

    def trust(self, node: int) -> None:
        """A nearer replica has given records."""
        self._backoffs.pop(node, None)

    @property
    def rack(self) -> str:
        """Where we are; "" if leaders shall name no nearer replica."""
        return self._rack if asyncio.get_running_loop().time() >= self._leaders_until else ""

    def wake(self) -> None:
        """There may be room for more."""
        for broker in self._brokers.values():
            broker.room.set()

    @property
    def ends(self) -> Mapping[Key, Ends]:
        """Where partitions end, as far as their leaders' answers say it now. Any thread may ask."""
        return dict(chain.from_iterable(broker.feeds.ends.items() for broker in list(self._brokers.values())))

    @property
    def answer_max(self) -> int:
        """Bytes that an answer of one broker may have."""
        return self.memory.answer(len(self._brokers))

    async def _placed(self, feed: Feed, after: float) -> None:
        backoff = Backoff(RETRY, 2.0)
        await asyncio.sleep(after)
        while not feed.ended:
            try:
                leader = await self.cluster.leader(feed.topic.name, feed.partition)
                if self.cluster.topic_id(feed.topic.name) != feed.topic.id:
                    # Perhaps only what we know of it is old: whoever comes next asks.
                    self.cluster.forget_leader(feed.topic.name, feed.partition)
                    feed.end(LeaveBatchPath("recreated", feed.position))
                    return
            except (Unavailable, LoginRefused):
                await asyncio.sleep(backoff.next())
            except Refused:  # who may read the topic: the record path has the policies for that
                feed.end(LeaveBatchPath("refused", feed.position))
            except WireError as error:
                feed.end(error)
            except Exception:  # as in a broker's task
                log.exception("the leader of %s-%d was not found", feed.topic.name, feed.partition)
                feed.end(LeaveBatchPath("defect", feed.position))
            else:
                self._broker(leader.node).take(feed)
                return

    async def _watch(self) -> None:
        """Ask now and then who leads what does not move, and end what concerns brokers that have no partition.

        A leader that is cut off from the others does not know that it leads no more. It would say for ever that there
        is nothing new. So would a replica that is nearer to us: the leader is asked in its place.
        """
        while True:
            await asyncio.sleep(LOOK_INTERVAL)
            still = [feed for broker in self._brokers.values() for feed in broker.still()]
            for feed in still:
                feed.follows_until = min(feed.follows_until, asyncio.get_running_loop().time())
            try:
                await self.cluster.refresh({feed.topic.name for feed in still})
            except WireError as error:
                log.debug("who leads is not known: %s", error)
            except Exception:  # as in a broker's task
                log.exception("who leads is not known")
            for node, broker in list(self._brokers.items()):
                broker.compare_leaders()
                if broker.is_idle:
                    broker.end()
                    del self._brokers[node]

    def _broker(self, node: int) -> BrokerFetches:
        if node not in self._brokers:
            self._brokers[node] = BrokerFetches(self, node)
        return self._brokers[node]
