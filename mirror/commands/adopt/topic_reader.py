"""Reads a whole topic of MirrorMaker's: its positions or its offset syncs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, TopicPartition

from mirror.errors import ClusterAway, MirrorError
from mirror.kafka.client_errors import is_away
from mirror.kafka.clients import internal_consumer
from mirror.settings import Cluster
from mirror.target.connect_offsets import Raw

TIMEOUT = 20.0  # seconds without a new record
FETCH = 10_000  # records of one call


def read(cluster: Cluster, group: str, topic: str) -> Iterator[Raw]:
    """All committed records of a topic that exists, each partition in its order. `group` is not joined.

    Raises ClusterAway, or MirrorError if we may not read it.
    """
    with closing(internal_consumer(cluster, group)) as consumer:
        missing = set(_partitions(consumer, cluster, topic))
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in sorted(missing)])
        deadline = time.monotonic() + TIMEOUT
        while missing:
            for message in consumer.consume(FETCH, 0.1):
                error, number = message.error(), int(message.partition() or 0)
                if error is None:
                    yield Raw(number, message.key(), message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    missing.discard(number)
                elif not is_away(error):
                    raise MirrorError(f"{topic} on {cluster.alias} can't be read: {error.str()}")
                else:
                    continue
                if number in missing or error is not None:  # what follows an end that was read is no progress
                    deadline = time.monotonic() + TIMEOUT
            if missing and time.monotonic() > deadline:
                raise ClusterAway(cluster.alias, f"{topic} can't be read to its end: no answer in time")


def _partitions(consumer: Consumer, cluster: Cluster, topic: str) -> list[int]:
    try:
        found = consumer.list_topics(topic, TIMEOUT).topics[topic]
    except KafkaException as error:
        raise ClusterAway(cluster.alias, f"{topic} can't be read: {error.args[0].str()}") from error
    if found.error is not None:
        raise MirrorError(f"{topic} on {cluster.alias} can't be read: {found.error.str()}")
    return list(found.partitions)
