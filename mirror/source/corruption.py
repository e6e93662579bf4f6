"""Damaged batches of the source. The consumer reports such a batch, and then mirror reads it again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaError, Message, TopicPartition
from confluent_kafka.admin import OffsetSpec

from mirror.errors import ClusterAway, PartitionError
from mirror.kafka.client_errors import is_away, is_lasting
from mirror.kafka.clients import batch_reader
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.renewed import close_apart
from mirror.model import Partition
from mirror.settings import Flow
from mirror.source.loss_detection import Loss
from mirror.text import duration

# The checksum does not match, the batch can't be decompressed, or its format is not known.
CORRUPT = frozenset({KafkaError._BAD_MSG, KafkaError._BAD_COMPRESSION, KafkaError._NOT_IMPLEMENTED})

TIMEOUT = 20.0  # seconds for each offset at which the source is read again
POLL_TIMEOUT = 0.1  # seconds


@dataclass(frozen=True, slots=True)
class Damage:
    """A batch that can't be read, and what is lost with it."""

    at: int  # the offset at which it was found
    first: int  # the first offset of the batch, which may be before `at`
    loss: Loss


def believed(messages: Iterable[Message]) -> list[Message]:
    """The records among these messages. After a batch that can't be read, none of its partition.

    librdkafka 2.16 reads on inside such a batch, and takes arbitrary bytes for the next batch's header.
    """
    ended: set[tuple[str | None, int | None]] = set()
    records: list[Message] = []
    for message in messages:
        error, where = message.error(), (message.topic(), message.partition())
        if error is not None and error.code() in CORRUPT:
            ended.add(where)
        elif error is None and where not in ended:
            records.append(message)
    return records


def find_damage(
    flow: Flow,
    source: ClusterAdmin,
    partition: Partition,
    position: int,
    said: str,
    progressed: Callable[[], object],
    known: Damage | None = None,
) -> Damage | None:
    """The batch that can't be read at the offset `position`; None if it can be read now. The consumer `said` why not.

    The batch's header says where it ends, but the broken checksum covers that part of the header, too. So the end is
    found by trying: a broker gives the batch for each of its offsets. `progressed` is called after each try.

    `known` is what an earlier call has found. If the same batch is still there, one try is enough. Raises ClusterAway
    if the source does not answer in time, PartitionError if it refuses.
    """
    end = source.offsets({partition: OffsetSpec.latest()}).get(partition)
    if end is None:
        raise PartitionError(f"{said}; the source gives no offsets of the partition")
    return _Reader(flow, partition, progressed).damage(position, end, known)


class _Reader:
    """Reads single batches, each with another consumer."""

    def __init__(self, flow: Flow, partition: Partition, progressed: Callable[[], object] = lambda: None) -> None:
        self._flow = flow
        self._partition = partition
        self._progressed = progressed

    def damage(self, position: int, end: int, known: Damage | None = None) -> Damage | None:
        """The batch that can't be read at `position`; None if it can. Nothing is read from the offset `end` on."""
        found = self._corrupt(position)
        if found is None or position >= end:
            return None
        first, why = found
        # Size and checksums are part of `why`, so another batch at the same place is not taken for the known one.
        if known is not None and (known.at, known.first, known.loss.why) == (position, first, why):
            return known
        begun = last = max(first, position)  # `last` is an offset that is known to be in the batch
        step = 1
        while begun + step < end and self._is_of(first, begun + step):
            last, step = begun + step, 2 * step
        resume = min(begun + step, end)  # an offset that is known to be after the batch
        while resume - last > 1:
            middle = (last + resume) // 2
            last, resume = (middle, resume) if self._is_of(first, middle) else (last, middle)
        # If another replica leads by now, it may have the batch as it was written.
        lost = Loss("corrupt", begun, resume, why)
        return Damage(position, first, lost) if self._is_of(first, begun) else None

    def _is_of(self, first: int, offset: int) -> bool:
        found = self._corrupt(offset)
        return found is not None and found[0] == first

    def _corrupt(self, offset: int) -> tuple[int, str] | None:
        """The first offset of the batch that can't be read at `offset`, and why. None if what is there can be read.

        Each call has a consumer of its own: after a batch that can't be read, nothing that a consumer gives can be
        believed.
        """
        consumer, deadline = batch_reader(self._flow), time.monotonic() + TIMEOUT
        try:
            consumer.assign([TopicPartition(*self._partition, offset)])
            while time.monotonic() < deadline:
                message = consumer.poll(POLL_TIMEOUT)
                # Without a topic it is about brokers, or about the group, which mirror does not use on the source.
                if message is not None and message.topic() is not None and not _is_away(message):
                    return _judged(message)
        finally:
            close_apart(consumer)  # to close it may never return after such a batch
            self._progressed()
        raise ClusterAway(self._flow.source.alias, f"no answer for {self._partition} within {duration(TIMEOUT)}")


def _is_away(message: Message) -> bool:
    error = message.error()
    return error is not None and error.code() not in CORRUPT and is_away(error)


def _judged(message: Message) -> tuple[int, str] | None:
    error = message.error()
    if error is None or error.code() == KafkaError._PARTITION_EOF:
        return None
    if error.code() in CORRUPT:
        return message.offset(), error.str()
    raise PartitionError(f"offset {message.offset()} can't be read: {error.str()}", is_lasting(error))
