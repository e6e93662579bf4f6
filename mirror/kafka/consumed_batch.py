"""A batch: records of one partition, as the consumer delivers them and the producer takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Message


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
