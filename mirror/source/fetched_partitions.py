"""What an answer to Fetch says of one partition: batches, another broker to ask, or something for the record path."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Protocol

from mirror.errors import Malformed
from mirror.source.batch_feed import Feed, Held, LeaveBatchPath
from mirror.source.batch_reading import read
from mirror.source.fetch_memory import FetchMemory
from mirror.source.fetch_session import SessionFeeds
from mirror.wire.access import Address
from mirror.wire.cluster import Cluster
from mirror.wire.error_codes import CODES, PASSING
from mirror.wire.fetch import PartitionAnswer

log = logging.getLogger(__name__)

RETRY = 0.05  # seconds before a partition is looked for again after an error
_REASONS = {CODES["OFFSET_OUT_OF_RANGE"]: "out_of_range", CODES["CORRUPT_MESSAGE"]: "unreadable"}


class FeedPlacer(Protocol):
    """What a broker's session needs of the fetcher that has made it."""

    cluster: Cluster
    memory: FetchMemory

    def place(self, feed: Feed, after: float = 0.0) -> None:
        """Find the broker that a feed is fetched from, in the background."""

    def follow(self, feed: Feed, node: int) -> None:
        """Fetch the partition from a replica that is nearer to us."""

    def distrust(self, feed: Feed, node: int) -> None:
        """Have leaders name no nearer replica for a while, if this feed's one has failed."""

    def trust(self, node: int) -> None:
        """A nearer replica has given records."""

    @property
    def rack(self) -> str:
        """Where we are; "" if leaders shall name no nearer replica."""

    @property
    def answer_max(self) -> int:
        """Bytes that an answer of one broker may have."""


class FetchedPartitions:
    """What the answers of one broker say of the partitions that are fetched from it."""

    def __init__(self, fetcher: FeedPlacer, node: int, feeds: SessionFeeds) -> None:
        self._fetcher = fetcher
        self._node = node
        self._feeds = feeds

    def give(self, feed: Feed, fetched: PartitionAnswer, addresses: Mapping[int, Address], held: Held) -> None:
        """Put what an answer has into the feed, or have another broker asked, or hand the partition over.

        `held` is the answer's memory, `addresses` are those of leaders that it names.
        """
        memory, before = self._fetcher.memory, feed.batches
        if fetched.error:
            self._refused(feed, fetched, addresses)
        elif fetched.preferred >= 0:
            self._follow(feed, fetched.preferred)
        elif fetched.diverging and feed.follows_until and feed.diverged_at != feed.position:
            # A follower that lags may not have that epoch. If the leader names it again for this position, it has.
            feed.diverged_at = feed.position
            self._lose(feed)
        elif fetched.diverging:
            feed.end(LeaveBatchPath("diverged", feed.position))
        elif fetched.records:
            try:
                read(feed, fetched, held, memory.bounds)
            except Malformed as error:
                self._unreadable(feed, error)
            else:
                if feed.follows_until:
                    self._fetcher.trust(self._node)
        held.add((feed.batches - before) * memory.bounds.batch)

    def _follow(self, feed: Feed, node: int) -> None:
        """Fetch the partition from a nearer replica, if the metadata lists it. If not, the metadata may be old.

        Only the leader names one, and never itself.
        """
        replicas = self._fetcher.cluster.replicas(feed.topic.name, feed.partition)
        if node != self._node and not feed.follows_until and node in replicas:
            self._feeds.drop(feed)
            self._fetcher.follow(feed, node)
        else:
            self._lose(feed)

    def _refused(self, feed: Feed, fetched: PartitionAnswer, addresses: Mapping[int, Address]) -> None:
        """Ask another broker, or hand the partition over."""
        error = fetched.error
        if feed.follows_until:  # it may lag behind: the leader knows, and would name it again at once
            self.fail(feed)
        elif error in PASSING:
            self._lose(feed)
        else:
            feed.end(LeaveBatchPath(_REASONS.get(error, "refused"), feed.position))
            return
        if fetched.leader:
            address = addresses.get(fetched.leader.node)
            self._fetcher.cluster.hint(feed.topic.name, feed.partition, fetched.leader, address)

    def _unreadable(self, feed: Feed, error: Malformed) -> None:
        """Have the leader asked, whose own copy may be whole, or hand the partition over if this is the leader."""
        where = {"topic": feed.topic.name, "partition": feed.partition, "broker": self._node}
        log.warning("a batch can't be read: %s", error, extra=where)
        if feed.follows_until:
            self.fail(feed)
        else:
            feed.end(LeaveBatchPath("unreadable", feed.position))

    def fail(self, feed: Feed) -> None:
        """This broker can't give the partition. If it is a nearer replica, leaders name none for a while."""
        self._fetcher.distrust(feed, self._node)
        self._lose(feed)

    def _lose(self, feed: Feed) -> None:
        """Fetch the partition from whoever leads it by then."""
        self._fetcher.cluster.forget_leader(feed.topic.name, feed.partition)
        self.leave(feed, RETRY)

    def leave(self, feed: Feed, after: float = 0.0) -> None:
        """Fetch the partition from the leader that is known. If it leads no more, it says so."""
        self._feeds.drop(feed)
        feed.follows_until = 0.0
        self._fetcher.place(feed, after)
