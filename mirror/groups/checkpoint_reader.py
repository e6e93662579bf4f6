"""Reads the checkpoints that stand on a flow's checkpoints topic, whoever has written them."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing

from confluent_kafka import KafkaError, Message, TopicPartition

from mirror.control.control_topics import READ_TIMEOUT, end_of
from mirror.errors import ClusterAway, Malformed
from mirror.groups.checkpoints import Checkpoint
from mirror.kafka.clients import internal_consumer
from mirror.settings import Flow

MOST = 100_000  # checkpoints that are kept, the newest ones: who writes there is not known


def read_checkpoints(flow: Flow, wanted: Callable[[Checkpoint], bool]) -> dict[bytes, bytes]:
    """The values of all checkpoints that are wanted, by key. What can't be decoded is left out. Raises ClusterAway."""
    topic, alias = flow.checkpoint_topic, flow.target.alias
    found: dict[bytes, bytes] = {}
    with closing(internal_consumer(flow.target, flow.group)) as consumer:
        end, reached = end_of(consumer, topic, alias), 0
        consumer.assign([TopicPartition(topic, 0, 0)])
        deadline = time.monotonic() + READ_TIMEOUT
        while reached < end:
            for message in consumer.consume(1_000, 0.1):
                error = message.error()
                if error is None:
                    reached = int(message.offset() or 0) + 1
                    _keep(found, message, wanted)
                elif error.code() == KafkaError._PARTITION_EOF:
                    reached = end
                elif error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                    raise ClusterAway(alias, f"{topic} can't be read: {error.str()}")
                else:
                    continue
                deadline = time.monotonic() + READ_TIMEOUT
            if time.monotonic() > deadline:
                raise ClusterAway(alias, f"{topic} can't be read to its end: no answer in time")
    return found


def _keep(found: dict[bytes, bytes], message: Message, wanted: Callable[[Checkpoint], bool]) -> None:
    key, value = message.key() or b"", message.value()
    found.pop(key, None)
    try:
        if value is not None and wanted(Checkpoint.decode(key, value)):
            found[key] = value
            if len(found) > MOST:
                del found[next(iter(found))]
    except Malformed:
        return
