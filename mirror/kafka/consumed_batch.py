"""A batch: records of one partition, as the consumer delivers them and the producer takes them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import length_hint
from typing import Any

from confluent_kafka import Message

from mirror.kafka.record_headers import weights


@dataclass(frozen=True, slots=True)
class ConsumedBatch:
    """Records of one partition that are copied in one transaction.

    The buffer reads each record's key and headers once, because every read is a call for every record.
    """

    messages: list[Message]
    keys: Sequence[bytes | None]
    headers: Sequence[Any]  # as record_headers.read_headers gives them
    offsets: list[int]  # upstream, ascending
    timestamps: list[int]  # ms since the Unix epoch
    weight: int  # bytes in memory, see record_headers.weights
    changed: Sequence[bytes | None] | None = None  # the values in place of the messages' own, after a transform

    @property
    def values(self) -> Iterable[bytes | None]:
        """The value of each record."""
        return map(Message.value, self.messages) if self.changed is None else self.changed

    @property
    def value_bytes(self) -> int:
        """The bytes of all values."""
        return sum(map(len, self.messages)) if self.changed is None else sum(map(length_hint, self.changed))

    def first(self, count: int) -> ConsumedBatch:
        """The batch of the first `count` records, as they were consumed."""
        if count == len(self.messages):
            return self
        messages, keys, headers = self.messages[:count], self.keys[:count], self.headers[:count]
        weight = sum(weights(messages, keys, headers))
        return ConsumedBatch(messages, keys, headers, self.offsets[:count], self.timestamps[:count], weight)

    @property
    def next_offset(self) -> int:
        """The position once the batch is committed."""
        return self.offsets[-1] + 1

    @property
    def epoch(self) -> int:
        """The leader epoch of the last record; -1 if not known."""
        return leader_epoch(self.messages[-1])


def leader_epoch(message: Message) -> int:
    """The leader epoch of a record; -1 if not known."""
    epoch = message.leader_epoch()
    return -1 if epoch is None else int(epoch)
