"""Reads the offset syncs that compaction has left on the target: pairs of offsets of the same record."""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import closing

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from mirror.errors import ClusterAway
from mirror.kafka.client_errors import is_away
from mirror.kafka.clients import internal_consumer
from mirror.model import Partition
from mirror.settings import Flow
from mirror.target.offset_syncs import OffsetSync

log = logging.getLogger(__name__)

TIMEOUT = 10.0  # seconds without a new record
FETCH = 10_000  # records of one call

Pair = tuple[int, int]  # upstream and downstream offset of one record


def read(flow: Flow, starts: Mapping[Partition, Pair]) -> dict[Partition, list[Pair]]:
    """Up to three pairs of each partition, ascending: see `keep`. `starts` has the first offsets of both sides.

    There are none if the topic is missing or mirror may not read it. Raises ClusterAway.
    """
    found: dict[Partition, list[Pair]] = {partition: [] for partition in starts}
    with closing(internal_consumer(flow.target, flow.group)) as consumer:
        for message in _records(consumer, flow):
            try:
                sync = OffsetSync.decode(message.key() or b"", message.value() or b"")
            except (struct.error, UnicodeDecodeError):
                continue  # not a sync; others may write to the topic
            partition = Partition(sync.topic, sync.partition)
            if partition in found and sync.upstream >= 0 <= sync.downstream:
                pair = sync.upstream, sync.downstream
                found[partition] = keep(found[partition], pair, starts[partition])
    return found


def keep(pairs: list[Pair], new: Pair, starts: Pair) -> list[Pair]:
    """Add a newer pair, and keep three: the last one before both logs begin, the first one after that, and the newest.

    A pair that a newer one contradicts is dropped: its topic was created again since, or its record was copied twice.
    """
    valid = [pair for pair in pairs if pair[0] < new[0] and pair[1] < new[1]] + [new]
    inside = [pair for pair in valid if pair[0] >= starts[0] and pair[1] >= starts[1]]
    before = valid[: len(valid) - len(inside)]
    return [*before[-1:], *inside[:1], *inside[1:][-1:]]


def _records(consumer: Consumer, flow: Flow) -> Iterator[Message]:
    """All records that the topic has now; none, with a warning, if it can't be read."""
    topic = flow.offset_syncs_topic
    reason = _unreadable(consumer, flow, topic)
    if reason is None:
        reached, end = _watermarks(consumer, flow, topic)
        consumer.assign([TopicPartition(topic, 0, reached)])
        deadline = time.monotonic() + TIMEOUT
        while reached < end:
            before = reached
            for message in consumer.consume(FETCH, 0.1):
                error = message.error()
                if error is None:
                    reached = message.offset() + 1
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:
                    reached = message.offset()
                elif not is_away(error):
                    reason, reached = error.str(), end
            if reached != before:
                deadline = time.monotonic() + TIMEOUT
            elif time.monotonic() > deadline:
                raise ClusterAway(flow.target.alias, f"{topic} can't be read to its end")
    if reason is not None:
        log.warning(
            "offset syncs can't be read: the records alone decide which of both logs belong together",
            extra={"flow": flow.name, "topic": topic, "reason": reason},
        )


def _unreadable(consumer: Consumer, flow: Flow, topic: str) -> str | None:
    """Why the topic can't be read; None if it can."""
    try:
        metadata = consumer.list_topics(topic, TIMEOUT).topics[topic]
    except KafkaException as error:
        raise ClusterAway(flow.target.alias, f"{topic} can't be read: {error.args[0].str()}") from error
    return None if metadata.error is None else str(metadata.error.str())


def _watermarks(consumer: Consumer, flow: Flow, topic: str) -> Pair:
    try:
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), TIMEOUT)
    except KafkaException as error:
        raise ClusterAway(flow.target.alias, f"{topic} can't be read: {error.args[0].str()}") from error
    return int(first), int(end)
