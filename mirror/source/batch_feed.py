"""What a fetcher has read of one partition, until the copier takes it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from mirror.batches.headers import RecordBatch
from mirror.errors import WireError
from mirror.wire.fetch import TopicKey


class LeaveTheRoad(Exception):
    """The partition has something that only the record path can handle, from the offset `at` on.

    `reason` is one word for logs and metrics. What was read before is copied first.
    """

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(f"{reason} at offset {at}")
        self.reason, self.at = reason, at


class Held:
    """The memory of one answer. Its batches are parts of it, so it is free when the last of them is."""

    def __init__(self, size: int, freed: Callable[[int], None]) -> None:
        self._size = size
        self._freed = freed
        self._spans = 0

    def retain(self) -> None:
        """One more span has batches of it."""
        self._spans += 1

    def release(self) -> None:
        """One span is done."""
        self._spans -= 1
        if not self._spans:
            self._freed(self._size)


@dataclass(frozen=True, slots=True)
class Span:
    """What one answer has of a partition, from `start` up to the offset `end`: the batches to copy, in order.

    There may be none, where there are only markers and aborted transactions.
    """

    start: int
    end: int
    batches: tuple[RecordBatch, ...]
    epoch: int  # of the leader that appended the last batch, copied or not
    size: int  # bytes of the batches
    held: Held


class Feed:
    """One partition: what is asked for next, and what was read and waits. It belongs to one event loop."""

    def __init__(
        self, topic: TopicKey, partition: int, position: int, epoch: int, largest: int, on_room: Callable[[], None]
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.position = position  # of what is asked for next
        self.epoch = epoch  # of the leader that appended the batch before it; -1: not known
        self.largest = largest  # bytes of a batch that the target takes
        self.stable = -1  # the source's last stable offset, once it is known
        self.follows_until = 0.0  # by the loop's clock, while it is fetched from a follower
        self.size = 0  # bytes that wait
        self._on_room = on_room  # called when a span is given back
        self._spans: deque[Span] = deque()
        self._ready = asyncio.Event()
        self._end: LeaveTheRoad | WireError | None = None
        self.ended = False

    def add(self, span: Span) -> None:
        """Append what was read. The next request asks for what follows."""
        span.held.retain()
        self._spans.append(span)
        self.position, self.epoch = span.end, span.epoch
        self.size += span.size
        self._ready.set()

    def end(self, why: LeaveTheRoad | WireError | None) -> None:
        """Ask for no more. Whoever waits gets `why` after what was read; None drops everything."""
        self.ended, self._end = True, why
        if why is None:
            while self._spans:
                self.done(self._spans.popleft())
        self._ready.set()

    async def next(self, most: int, count: int) -> list[Span]:
        """What has been read, at least one span, and no more than about `most` bytes and `count` batches.

        Waits for some. Each span has to be given back by `done`. Raises LeaveTheRoad, WireError.
        """
        while not self._spans:
            if self._end:
                raise self._end
            self._ready.clear()
            await self._ready.wait()
        taken: list[Span] = []
        while self._spans and (not taken or (most >= self._spans[0].size and count >= len(self._spans[0].batches))):
            taken.append(self._spans.popleft())
            most -= taken[-1].size
            count -= len(taken[-1].batches)
        return taken

    def done(self, span: Span) -> None:
        """The span is copied, or dropped: there is room for more."""
        self.size -= span.size
        span.held.release()
        self._on_room()
