"""Finds out whether remote partitions have records: if one has, copying from the beginning would double them."""

from __future__ import annotations

import time
from collections.abc import Iterable

from confluent_kafka import OFFSET_BEGINNING, KafkaError, TopicPartition

from mirror.errors import ClusterAway, PartitionError
from mirror.kafka.client_errors import is_away, is_lasting
from mirror.kafka.looks import FIRST, look_consumer, seen
from mirror.kafka.renewed import close_apart
from mirror.settings import Flow

TIMEOUT = 20.0  # seconds without an answer about any partition
COUNT_TIMEOUT = 5.0  # seconds for a few records

RemotePartition = tuple[str, int]


def with_records(flow: Flow, asked: Iterable[RemotePartition]) -> set[RemotePartition]:
    """The remote partitions in which a read_committed consumer sees a record. Markers and aborted records do not count.

    Raises ClusterAway, or PartitionError if the target refuses to give records.
    """
    open_ = set(asked)
    found: set[RemotePartition] = set()
    if not open_:
        return found
    consumer = look_consumer(flow.target, flow.group, answer=FIRST)
    try:
        consumer.assign([TopicPartition(*each, OFFSET_BEGINNING) for each in sorted(open_)])
        deadline = time.monotonic() + TIMEOUT
        while open_ and time.monotonic() < deadline:
            for message in seen(consumer, 0.2):
                where = (str(message.topic()), int(message.partition() or 0))
                if where not in open_:
                    continue
                _judge(message.error(), where)
                if message.error() is None or message.error().code() == KafkaError._PARTITION_EOF:
                    open_.discard(where)
                    consumer.incremental_unassign([TopicPartition(*where)])
                    deadline = time.monotonic() + TIMEOUT
                if message.error() is None:
                    found.add(where)
    finally:
        close_apart(consumer)
    if open_:
        some = "-".join(map(str, min(open_)))
        raise ClusterAway(flow.target.alias, f"whether {some} has records can't be told: no answer in time")
    return found


def _judge(error: KafkaError | None, where: RemotePartition) -> None:
    if error is not None and error.code() != KafkaError._PARTITION_EOF and not is_away(error):
        said = f"whether {where[0]}-{where[1]} has records can't be told: {error.str()}"
        raise PartitionError(said, is_lasting(error))


def count_between(flow: Flow, where: RemotePartition, first: int, end: int, max_records: int) -> int | None:
    """How many records are at these offsets, `end` excluded, committed or not. None if that can't be found out.

    It counts no further than `max_records`, so that millions of records take no longer. Markers do not count.
    """
    consumer = look_consumer(flow.target, flow.group, stable=False)
    found = 0
    try:
        consumer.assign([TopicPartition(*where, first)])
        deadline = time.monotonic() + COUNT_TIMEOUT
        while time.monotonic() < deadline:
            for message in seen(consumer, 0.2):
                error = message.error()
                if error is not None:
                    return found if error.code() == KafkaError._PARTITION_EOF else None
                if int(message.offset() or 0) >= end:
                    return found
                found += 1
                if found >= max_records:
                    return found
    finally:
        close_apart(consumer)  # a client that has lost its cluster may take a minute to end
    return None
