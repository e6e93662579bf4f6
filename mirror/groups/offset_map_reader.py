"""Reads the offset map: follows its topic, and keeps the entries of each remote partition."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, TopicPartition

from mirror.control.control_topics import READ_TIMEOUT, end_of
from mirror.errors import ClusterAway, Malformed, PartitionError
from mirror.kafka.clients import internal_consumer
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.topic_ids import KnownIds
from mirror.model import Partition
from mirror.settings import Flow
from mirror.target import offset_map
from mirror.target.offset_map import Copied, Entry

log = logging.getLogger(__name__)


class Entries(Protocol):
    """What is kept of one remote partition's entries."""

    def add(self, entry: Entry) -> None:
        """Add an entry."""

    def remove(self, downstream: int) -> None:
        """Remove the entry at this downstream offset, if there is one."""


E = TypeVar("E", bound=Entries)


class OffsetMapReader(Generic[E]):
    """Follows a flow's offset map. `maps` has what was read so far. Each reading starts where the last one ended.

    If entries of other partitions are wanted, too, the topic is read once more from its beginning, and only they are
    added up to where it was read before.
    """

    def __init__(self, flow: Flow, make: Callable[[], E]) -> None:
        """`make` makes what keeps the entries of one remote partition."""
        self._wanted: set[Partition] | None = set()  # partitions whose entries are kept; None: all
        self.maps: dict[Copied, E] = {}
        self._make = make
        self._flow = flow
        self._topic = flow.offset_map_topic
        self._admin = ClusterAdmin(flow.target)
        self._known = KnownIds()
        self._reached = 0
        self._kept = 0  # before this offset, only the entries of `_late` are still to be kept
        self._late: set[Partition] = set()  # the partitions that were wanted last
        self._strange = 0  # records that could not be decoded
        self._consumer: Consumer | None = None

    def close(self) -> None:
        """Leave the topic. A later reading enters it again, and goes on where this one has ended."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def read(self, wanted: Iterable[Partition] | None = None, progressed: Callable[[], None] = lambda: None) -> None:
        """Read everything up to the topic's current end, and keep the entries of these source partitions, or of all.

        `progressed` is called again and again meanwhile. Raises ClusterAway; PartitionError if the cluster
        refuses to give the topic's records.
        """
        topic_id = self._admin.ids_now([self._topic])[0].get(self._topic)
        if topic_id is not None and self._known.is_another(self._topic, topic_id):
            self._begin_again()
        consumer = self._consumer = self._consumer or internal_consumer(self._flow.target, self._flow.group)
        end = end_of(consumer, self._topic, self._flow.target.alias)
        if end < max(self._reached, self._kept):  # an unclean election has cut the topic
            self._begin_again()
        self._want(wanted)
        if self._reached >= end:
            return
        self._enter(consumer)
        try:
            self._take_all(consumer, end, progressed)
        finally:
            consumer.unassign()
        if self._strange:
            where = {"flow": self._flow.name, "topic": self._topic, "records": self._strange}
            log.warning("records of the offset map that can't be decoded are ignored", extra=where)
            self._strange = 0

    def _want(self, wanted: Iterable[Partition] | None) -> None:
        """Take note of what is wanted. Begin at the topic's beginning if that was not kept so far."""
        if self._wanted is None:
            return
        if wanted is None:
            self._wanted = None
            self._begin_again()
        elif more := set(wanted) - self._wanted:
            self._wanted = self._wanted | more
            if self._reached < self._kept:  # such a reading has failed half-way: entries would be added twice
                self._begin_again()
            else:
                self._late, self._kept, self._reached = more, self._reached, 0

    def _begin_again(self) -> None:
        """Forget all, and read the topic from its beginning."""
        self.maps, self._reached, self._kept, self._late = {}, 0, 0, set()

    def _enter(self, consumer: Consumer) -> None:
        consumer.assign([TopicPartition(self._topic, 0, self._reached)])

    def _take_all(self, consumer: Consumer, end: int, progressed: Callable[[], None]) -> None:
        deadline, why = time.monotonic() + READ_TIMEOUT, "no answer in time"
        while self._reached < end:
            for message in consumer.consume(1_000, 0.1):
                error, offset = message.error(), int(message.offset() or 0)
                if error is not None and error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise PartitionError(f"{self._topic} can't be read: {error.str()}", blocked=True)
                if error is not None and error.code() != KafkaError._PARTITION_EOF:
                    why = error.str()
                    continue
                if offset < self._reached:  # the topic was cut meanwhile, and librdkafka has gone back
                    self._begin_again()
                    self._enter(consumer)
                    break
                if error is None:
                    self._keep(offset, message.key() or b"", message.value())
                self._reached = offset if error is not None else offset + 1  # after its end, a follower may lack some
                deadline = time.monotonic() + READ_TIMEOUT
            progressed()
            if time.monotonic() > deadline:
                raise ClusterAway(self._flow.target.alias, f"{self._topic} can't be read to its end: {why}")

    def _keep(self, offset: int, key: bytes, value: bytes | None) -> None:
        try:
            copied, downstream = offset_map.decode_key(key)
            partition = Partition(copied.topic, copied.partition)
            if self._wanted is not None and partition not in self._wanted:
                return
            if offset < self._kept and partition not in self._late:
                return
            if value is None:
                if copied in self.maps:
                    self.maps[copied].remove(downstream)
                return
            entry = offset_map.decode_value(downstream, value)
        except Malformed:
            self._strange += 1
            return
        if copied not in self.maps:
            self.maps[copied] = self._make()
        self.maps[copied].add(entry)
