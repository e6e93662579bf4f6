"""Reads the offset map: follows its topic, and keeps the entries of each remote partition."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from confluent_kafka import Consumer, KafkaError, TopicPartition

from mirror.control.control_topics import READ_TIMEOUT, end_of
from mirror.errors import ClusterAway, Malformed
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
    """Follows a flow's offset map. `maps` has what was read so far. Each reading starts where the last one ended."""

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
        self._strange = 0  # records that could not be decoded
        self._consumer: Consumer | None = None

    def close(self) -> None:
        """Leave the topic. A later reading enters it again, and goes on where this one has ended."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            consumer.close()

    def read(self, wanted: Iterable[Partition] | None = None, progressed: Callable[[], None] = lambda: None) -> None:
        """Read everything up to the topic's current end, and keep the entries of these source partitions, or of all.

        `progressed` is called again and again meanwhile. Raises ClusterAway.
        """
        topic_id = self._admin.ids_now([self._topic])[0].get(self._topic)
        recreated = topic_id is not None and self._known.is_another(self._topic, topic_id)
        if self._wants_more(wanted) or recreated:
            self.maps, self._reached = {}, 0
        consumer = self._consumer = self._consumer or internal_consumer(self._flow.target, self._flow.group)
        end = end_of(consumer, self._topic, self._flow.target.alias)
        if self._reached >= end:
            return
        consumer.assign([TopicPartition(self._topic, 0, self._reached)])
        try:
            self._take_all(consumer, end, progressed)
        finally:
            consumer.unassign()
        if self._strange:
            where = {"flow": self._flow.name, "topic": self._topic, "records": self._strange}
            log.warning("records of the offset map that can't be decoded are ignored", extra=where)
            self._strange = 0

    def _wants_more(self, wanted: Iterable[Partition] | None) -> bool:
        """Take note of what is wanted. True if entries are wanted that were not kept so far."""
        before = self._wanted
        self._wanted = None if wanted is None or before is None else before | set(wanted)
        return self._wanted != before

    def _take_all(self, consumer: Consumer, end: int, progressed: Callable[[], None]) -> None:
        deadline = time.monotonic() + READ_TIMEOUT
        while self._reached < end:
            for message in consumer.consume(1_000, 0.1):
                error = message.error()
                if error is None:
                    self._reached = int(message.offset() or 0) + 1
                    self._keep(message.key() or b"", message.value())
                elif error.code() == KafkaError._PARTITION_EOF:  # after it, a follower may lack what the leader has
                    self._reached = int(message.offset() or 0)
                else:
                    continue
                deadline = time.monotonic() + READ_TIMEOUT
            progressed()
            if time.monotonic() > deadline:
                raise ClusterAway(self._flow.target.alias, f"{self._topic} can't be read to its end: no answer in time")

    def _keep(self, key: bytes, value: bytes | None) -> None:
        try:
            copied, downstream = offset_map.decode_key(key)
            partition = Partition(copied.topic, copied.partition)
            if self._wanted is not None and partition not in self._wanted:
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
