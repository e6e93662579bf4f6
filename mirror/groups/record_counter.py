"""Counts committed records of the target, to translate an offset between two entries of the offset map."""

from __future__ import annotations

import time
from dataclasses import dataclass

from confluent_kafka import KafkaError, TopicPartition

from mirror.errors import ClusterAway, PartitionError
from mirror.kafka.looks import look_consumer, seen
from mirror.model import Partition
from mirror.settings import Flow

TIMEOUT = 20.0  # seconds without an answer


@dataclass(frozen=True, slots=True)
class ReadRange:
    """The offsets of records in a range, and the offset up to which the range was read."""

    offsets: list[int]
    reached: int


class RecordCounter:
    """Finds the offsets of committed records of the target, in one range at a time."""

    def __init__(self, flow: Flow) -> None:
        self._alias = flow.target.alias
        self._consumer = look_consumer(flow.target, flow.group, fetch_wait=0.01)

    def close(self) -> None:
        """End the client."""
        self._consumer.close()

    def offsets(self, remote: Partition, begin: int, end: int | None, most: int) -> ReadRange:
        """The offsets of committed records from `begin` to before `end`, or to the last stable one. At most `most`.

        While a transaction is open, the last stable offset may be before `end`. Then `reached` is before it, too.
        Raises ClusterAway, or PartitionError when the target refuses to give records.
        """
        self._consumer.assign([TopicPartition(*remote, begin)])
        try:
            return self._read(remote, begin, end, most)
        finally:
            self._consumer.unassign()

    def _read(self, remote: Partition, begin: int, end: int | None, most: int) -> ReadRange:
        found: list[int] = []
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            for message in seen(self._consumer, 0.1):
                error, offset = message.error(), int(message.offset() or 0)
                if (str(message.topic()), message.partition()) != remote or offset < begin:  # from the last range
                    continue
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return ReadRange(found, offset)
                if error is not None:
                    raise PartitionError(f"{remote} can't be read: {error.str()}")
                if end is not None and offset >= end:
                    return ReadRange(found, end)
                found.append(offset)
                if len(found) >= most:
                    return ReadRange(found, offset + 1)
                deadline = time.monotonic() + TIMEOUT
        raise ClusterAway(self._alias, f"{remote} can't be read: no answer in time")
