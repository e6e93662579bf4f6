"""Writes many records to one of mirror's own topics, and waits until they are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from confluent_kafka import KafkaError, KafkaException, Message

from mirror.errors import ClusterAway
from mirror.kafka.cluster import chunks
from mirror.kafka.own_topic_producer import OwnTopicProducer, queued
from mirror.settings import Cluster

WRITE_TIMEOUT = 10.0  # seconds for each part
AT_ONCE = 10_000  # records that are queued


class OwnTopicWriter:
    """Writes to one partition of a topic, or BY_KEY. After an error, the caller writes what is missing again."""

    def __init__(self, cluster: Cluster, topic: str, partition: int = 0) -> None:
        self._alias = cluster.alias
        self._topic = topic
        self._producer = OwnTopicProducer(cluster, partition)

    def close(self) -> None:
        """Give up what is not written yet."""
        self._producer.purge()

    def write(self, records: Mapping[bytes, bytes | None], written: Callable[[bytes], object] = lambda _: None) -> None:
        """Write records, values by key; None deletes a key. Calls `written` with each key. Raises ClusterAway."""
        failed: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is None:
                written(message.key() or b"")
            else:
                failed.append(error)

        for some in chunks(records.items(), AT_ONCE):
            try:
                for key, value in some:
                    queued(
                        partial(self._producer.produce, self._topic, value, key, delivered),
                        self._producer.flush,
                        WRITE_TIMEOUT,
                    )
            except KafkaException as error:  # the client believes that the topic does not exist
                failed.append(error.args[0])
            if self._producer.flush(WRITE_TIMEOUT) or failed:
                reason = failed[0].str() if failed else "no answer in time"
                raise ClusterAway(self._alias, f"{self._topic} accepts no records: {reason}")
