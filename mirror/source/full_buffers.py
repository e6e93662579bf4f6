"""Backpressure: which buffers are full, and what the consumer does about it. It makes no request itself."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from mirror.model import Partition
from mirror.settings import Flow

BUFFER_RECORDS = 200_000  # all buffers of a task together
BUFFER_BYTES = 256 * 1024 * 1024
PAUSE_AFTER = 0.5  # seconds for which a full buffer may hold up all partitions; then only its own one is paused
# A paused partition that drains slowly is resumed when less than this part of its buffer is full. A batch of the usual
# size is half of a buffer, so one batch is enough.
RESUMED_BELOW = 0.6


class Buffer(Protocol):
    """How much waits in a buffer."""

    @property
    def weight(self) -> int:
        """Bytes."""

    @property
    def accepts(self) -> bool:
        """False until the next seek, if what comes now is dropped."""

    def __len__(self) -> int:
        """Records."""


class Buffered(Protocol):
    """A partition with a buffer."""

    @property
    def buffer(self) -> Buffer: ...

    @property
    def drains_slowly(self) -> bool:
        """True if the buffer is not expected to drain soon."""


@dataclass(frozen=True, slots=True)
class Backpressure:
    """What the consumer has to do now."""

    pause: Collection[Partition]
    resume: Collection[Partition]
    waits: bool  # True if it must poll nothing until a buffer has drained


class FullBuffers:
    """The full buffers among those of `held`.

    When librdkafka pauses a partition, it drops what it has fetched of it. So while a buffer is full, the consumer
    usually waits, which is cheaper than a pause. But a partition must not hold up the others for long. So it is paused
    if its buffer stays full for PAUSE_AFTER, or at once if its buffer is known to drain slowly. In the second case it
    is resumed only when its buffer has much room. Otherwise it would soon be paused again, and what was fetched
    meanwhile would be dropped.

    A buffer that accepts nothing counts as full, and its partition is paused at once. It may wait for a decision for
    days, and would read its whole log in vain.
    """

    def __init__(self, flow: Flow, held: Mapping[Partition, Buffered]) -> None:
        self.paused: set[Partition] = set()
        self._flow = flow
        self._held = held
        self._full: dict[Partition, float] = {}  # since when, monotonic

    def __bool__(self) -> bool:
        return bool(self._full)

    def look(self, partition: Partition, now: float) -> None:
        """Records were added to the partition's buffer."""
        if self._fills(partition, 1.0):
            self._full.setdefault(partition, now)

    def forget(self, partition: Partition) -> bool:
        """The partition is not consumed any more. True if it was paused."""
        self._full.pop(partition, None)
        was_paused = partition in self.paused
        self.paused.discard(partition)
        return was_paused

    def decide(self, now: float) -> Backpressure:
        """What the consumer has to do now. `paused` is changed already."""
        pause, resume = [], []
        for partition, since in list(self._full.items()):
            held = self._held[partition]
            is_paused, is_slow = partition in self.paused, held.drains_slowly or not held.buffer.accepts
            if not self._fills(partition, RESUMED_BELOW if is_paused and is_slow else 1.0):
                del self._full[partition]
                if is_paused:
                    resume.append(partition)
            elif not is_paused and (is_slow or now - since > PAUSE_AFTER):
                pause.append(partition)
        self.paused.difference_update(resume)
        self.paused.update(pause)
        return Backpressure(pause, resume, any(partition not in self.paused for partition in self._full))

    def _fills(self, partition: Partition, part: float) -> bool:
        """True if the buffer has reached this part of its limit."""
        share = max(1, len(self._held))
        records = max(1_000, min(2 * self._flow.batch_max_records, BUFFER_RECORDS // share))
        weight = max(1024 * 1024, min(2 * self._flow.batch_max_bytes, BUFFER_BYTES // share))
        buffer = self._held[partition].buffer
        return not buffer.accepts or len(buffer) >= part * records or buffer.weight >= part * weight
