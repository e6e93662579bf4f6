"""Finds out whether remote partitions have records: if one has, copying from the beginning would double them."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from contextlib import closing

from confluent_kafka import OFFSET_BEGINNING, KafkaError, Message, TopicPartition

from mirror.errors import ClusterAway, PartitionError, PositionUnstable
from mirror.kafka.client_errors import is_away, is_lasting
from mirror.kafka.looks import FIRST, MANY, SOME, look_consumer, seen
from mirror.kafka.renewed import close_apart
from mirror.settings import Flow
from mirror.target.loading import not_given_yet

TIMEOUT = 20.0  # seconds without an answer about any partition
LOOK_TIMEOUT = 5.0  # seconds for a few records
# Errors of a read at an offset that pass only if somebody does something: the log begins after it, or ends before it.
_LASTING = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError.TOPIC_AUTHORIZATION_FAILED)

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


def is_visible(flow: Flow, where: RemotePartition, offset: int) -> bool | None:
    """True if read_committed consumers see the record at this offset; False if its transaction was aborted.

    None if there is no such record any more, or the target refuses to say it. Raises ClusterAway, and PositionUnstable
    while the leader that was elected just now does not give what is there yet.
    """
    visible = _first(flow, where, offset, stable=True)
    if visible is None:
        return None
    if visible == (offset, True):
        return True
    if visible[0] <= offset:
        raise PositionUnstable(not_given_yet(f"{where[0]}-{where[1]}", offset))
    return False if _first(flow, where, offset, stable=False) == (offset, True) else None


def _first(flow: Flow, where: RemotePartition, at: int, stable: bool) -> tuple[int, bool] | None:
    """The offset of the first record from `at` on, and True; or that of the end, and False, if no record comes before.

    None if nothing is there any more, or the target refuses to say it. Raises ClusterAway.
    """
    # An aborted transaction before it may have hundreds of batches.
    with closing(_messages(flow, where, at, stable, MANY)) as messages:
        for message in messages:
            error, here = message.error(), int(message.offset() or 0)
            if error is None or error.code() == KafkaError._PARTITION_EOF:
                return here, error is None
            if error.code() in _LASTING:
                return None
    raise ClusterAway(flow.target.alias, f"whether {where[0]}-{where[1]} has a record can't be told: no answer in time")


def count_between(flow: Flow, where: RemotePartition, first: int, end: int, max_records: int) -> int | None:
    """How many records are at these offsets, `end` excluded, committed or not. None if that can't be found out.

    It counts no further than `max_records`, so that millions of records take no longer. Markers do not count.
    """
    found = 0
    with closing(_messages(flow, where, first, False, SOME)) as messages:
        for message in messages:
            error = message.error()
            if error is not None:
                return found if error.code() == KafkaError._PARTITION_EOF else None
            if int(message.offset() or 0) >= end:
                return found
            found += 1
            if found >= max_records:
                return found
    return None


def _messages(flow: Flow, where: RemotePartition, at: int, stable: bool, answer: int) -> Generator[Message, None, None]:
    """What comes from `at` on within some seconds: records, the end, and errors. `answer` is for `look_consumer`."""
    consumer = look_consumer(flow.target, flow.group, stable=stable, answer=answer, reset="error")
    try:
        consumer.assign([TopicPartition(*where, at)])
        deadline = time.monotonic() + LOOK_TIMEOUT
        while time.monotonic() < deadline:
            yield from seen(consumer, 0.2)
    finally:
        close_apart(consumer)  # a client that has lost its cluster may take a minute to end
