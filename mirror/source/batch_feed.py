"""What a fetcher has read of one partition, until the copier takes it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

from mirror.batches.fitting import RECORDS_MAX
from mirror.batches.headers import RecordBatch
from mirror.batches.merging import MERGED_MAX
from mirror.errors import MirrorError, WireError
from mirror.wire.fetch import TopicKey

QUICK = 1.0  # seconds

Largest = Callable[[], int]  # bytes of a batch that the target takes, or that others become, as far as is known now
Key = tuple[bytes, int]  # topic id, partition


class LeaveBatchPath(Exception):
    """The partition has something that only the record path can handle, from the offset `at` on.

    `reason` is one word for logs and metrics. `until` is the offset after the batch that has it; None if it is not one
    batch. What was read before is copied first.
    """

    def __init__(self, reason: str, at: int, until: int | None = None) -> None:
        super().__init__(f"{reason} at offset {at}")
        self.reason, self.at, self.until = reason, at, until


class Held:
    """The memory of one answer. Its batches are parts of it, so it is free when the last of them is.

    A context manager: while the answer is read, it is not free.
    """

    def __init__(self, size: int, count: Callable[[int], None]) -> None:
        """`count` is called with bytes that are held from now on, and with a negative number once they are free."""
        self.size = 0
        self._count = count
        self._spans = 0
        self.add(size)

    def __enter__(self) -> Self:
        self.retain()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def add(self, size: int) -> None:
        """So many bytes more are free when the answer is."""
        self.size += size
        self._count(size)

    def retain(self) -> None:
        """One more span has batches of it."""
        self._spans += 1

    def release(self) -> None:
        """One span is done."""
        self._spans -= 1
        if not self._spans:
            self._count(-self.size)


_NOTHING = Held(0, lambda _: None)


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

    @property
    def records(self) -> int:
        """How many the batches say that they have."""
        return sum(each.records for each in self.batches)

    def divided(self, most: int, count: int, records: int, at_least_one: bool) -> tuple[Span | None, Span | None]:
        """The beginning of it that has at most so many bytes, batches and records, and the rest.

        None where there is nothing.
        """
        if self.size <= most and len(self.batches) <= count and self.records <= records:
            return self, None
        size, fits = 0, 0
        for batch in self.batches[:count]:
            records -= batch.records
            if size + len(batch.data) > most or records < 0:
                break
            size, fits = size + len(batch.data), fits + 1
        if not fits and at_least_one:
            size, fits = len(self.batches[0].data), 1
        if not fits or fits == len(self.batches):
            return (self, None) if fits else (None, self)
        last = self.batches[fits - 1]
        begin = Span(self.start, last.last + 1, self.batches[:fits], last.epoch, size, self.held)
        return begin, replace(self, start=begin.end, batches=self.batches[fits:], size=self.size - size)


class Feed:
    """One partition: what is asked for next, and what was read and waits. It belongs to one event loop."""

    def __init__(
        self,
        topic: TopicKey,
        partition: int,
        position: int,
        epoch: int,
        largest: Largest,
        largest_merged: Largest = lambda: MERGED_MAX,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.key: Key = topic.id, partition
        self.position = position  # of what is asked for next
        self.epoch = epoch  # of the leader that appended the batch before it; -1: not known
        self.largest = largest
        self.largest_merged = largest_merged
        self.follows_until = 0.0  # by the loop's clock, while it is fetched from a follower
        self.diverged_at = -1  # its position when a follower last said that its log is another one
        self.looked_at = -1  # its position when the fetcher last looked whether it moves
        self.size = self.batches = 0  # bytes and batches that wait
        self.is_quick: bool | None = None  # all that it had last was copied within QUICK; None: it had nothing yet
        # Called when a span is given back, and when the feed has ended; whoever fetches it sets it.
        self.on_change: Callable[[Feed], object] = lambda _: None
        self._on_filled: Callable[[], object] = lambda: None
        self._spans: deque[Span] = deque()
        self._filled_at = 0.0  # when it last got something after it had nothing, monotonic
        self._ready = asyncio.Event()
        self._end: LeaveBatchPath | WireError | None = None
        self.ended = False

    @property
    def drained(self) -> bool:
        """True if nothing waits, and nothing that was taken is still being copied. Any thread may ask."""
        return not self.size and not self._spans

    @property
    def head_timestamp(self) -> int | None:
        """The first waiting record's timestamp, ms since the Unix epoch; None if there is none. Any thread may ask."""
        with contextlib.suppress(IndexError):  # the loop may take it meanwhile
            timestamp = self._spans[0].batches[0].base_timestamp
            return timestamp if timestamp > 0 else None
        return None

    def when_filled(self, call: Callable[[], object]) -> None:
        """Call this when something has come: now, if it has, and whenever more comes."""
        self._on_filled = call
        if self._spans:
            call()

    def add(self, span: Span) -> None:
        """Append what was read. The next request asks for what follows.

        Where there are only markers and aborted transactions, nothing of the answer is kept: many such answers may come
        before the copier takes them.
        """
        if self.drained:
            self._filled_at = time.monotonic()
        if span.batches or not self._spans:
            kept = span if span.batches else replace(span, held=_NOTHING)
            kept.held.retain()
            self._spans.append(kept)
        else:
            self._spans[-1] = replace(self._spans[-1], end=span.end, epoch=span.epoch)
        self.position, self.epoch = span.end, span.epoch
        self.size += span.size
        self.batches += len(span.batches)
        self._ready.set()
        self._on_filled()

    def end(self, why: LeaveBatchPath | WireError | None, drop: bool = False) -> None:
        """Ask for no more. Whoever waits gets `why` after what was read, or if that is dropped, at once.

        The first reason counts, unless what was read is dropped.
        """
        if self.ended and not drop:
            return
        self.ended, self._end = True, why
        while drop and self._spans:
            self.done(self._spans.popleft())
        self._ready.set()
        self.on_change(self)

    async def wait(self, timeout: float | None = None, least: int = 0) -> bool:
        """Wait until something can be taken, or if `least` is given until so many bytes can.

        True if there is something, perhaps less because the time (s) is over or nothing will follow. Raises
        LeaveBatchPath or WireError once nothing is left, and nothing will follow.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not (self._end or (self._spans and self.size >= least)):
                    self._ready.clear()
                    await self._ready.wait()
        if self._end and not self._spans:
            raise self._end
        return bool(self._spans)

    def take(self, most: int, count: int) -> list[Span]:
        """What has been read, up to about `most` bytes and `count` batches, and at least one batch if there are any.

        It has RECORDS_MAX records at most. Each span has to be given back by `done`.
        """
        taken: list[Span] = []
        records = RECORDS_MAX
        while self._spans:
            span, rest = self._spans[0].divided(most, count, records, not any(each.batches for each in taken))
            if span is None:
                break
            taken.append(span)
            most, count, records = most - span.size, count - len(span.batches), records - span.records
            self._spans.popleft()
            if rest is not None:
                rest.held.retain()
                self._spans.appendleft(rest)
                break
        return taken

    def taken(self, most: int, count: int) -> Taken:
        """`take`, to give all of it back when the context ends."""
        return Taken(self, self.take(most, count))

    def done(self, span: Span) -> None:
        """The span is copied, or dropped: there is room for more."""
        self.size -= span.size
        self.batches -= len(span.batches)
        if self.drained:
            self.is_quick = time.monotonic() - self._filled_at <= QUICK
        span.held.release()
        self.on_change(self)


class Taken:
    """Spans that are being copied: a context manager, which gives them back.

    Their memory counts as free from then on, so nothing may keep them. Therefore the list is empty then. And an error
    loses its traceback, because that keeps the variables of all functions that the error has passed, for as long as the
    error is kept, or longer: where one of these variables has the error, too, only the garbage collector frees them. A
    bug keeps its traceback, which is logged.
    """

    def __init__(self, feed: Feed, spans: list[Span]) -> None:
        self._feed = feed
        self._spans = spans

    def __enter__(self) -> list[Span]:
        return self._spans

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, MirrorError | LeaveBatchPath):
            _drop_tracebacks(error)
        while self._spans:
            self._feed.done(self._spans.pop())


def _drop_tracebacks(error: BaseException) -> None:
    """Also those of the errors that have led to it."""
    chain, seen = [error], set[int]()
    while chain:
        each = chain.pop()
        if id(each) not in seen:
            seen.add(id(each))
            each.__traceback__ = None
            chain += filter(None, (each.__cause__, each.__context__))
