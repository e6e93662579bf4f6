"""The records of one partition between the consumer and the transactions."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from confluent_kafka import Message

from mirror.kafka.consumed_batch import ConsumedBatch, leader_epoch
from mirror.kafka.record_headers import read_headers, weights

# Takes records and their headers, and returns those to copy, with the headers that they get.
RecordFilter = Callable[[Sequence[Message], Sequence[Any]], tuple[Sequence[Message], list[Any]]]


class RecordBuffer:
    """All records between two upstream offsets, without a gap. The fetcher adds them; one thread takes them.

    A batch stays in the buffer until it is committed, so that a retry needs no second fetch.
    """

    def __init__(self, start: int, record_filter: RecordFilter | None = None) -> None:
        """`record_filter` leaves records out. A record that is left out looks like an aborted one: there is none."""
        self._filter = record_filter
        self.left_out = 0  # records that `record_filter` has left out; one that is fetched twice counts twice
        self.left_out_epoch = -1  # leader epoch of the last record of the newest `append` that left records out
        self._lock = threading.Lock()
        self._messages: list[Message] = []
        self._keys: list[bytes | None] = []
        self._headers: list[Any] = []
        self._weights: list[int] = []
        self.weight = 0  # bytes of all records
        self._from = start
        self._to = start
        self._accepting = True
        self._sealed = False
        self._until: int | None = None  # nothing is taken from this offset on
        self._resets = 0

    def __len__(self) -> int:
        return len(self._messages)

    def append(self, messages: Sequence[Message]) -> None:
        """Add records that the consumer has given. Records that were given before, or before a seek, are dropped."""
        with self._lock:
            if not self.accepts:
                return
            if messages[0].offset() < self._to:
                messages = [m for m in messages if m.offset() >= self._to]
                if not messages:
                    return
            messages = self._before_end(messages)
            if not messages:
                return
            end, headers = messages[-1].offset() + 1, read_headers(messages)
            if self._filter is not None:
                before, epoch = len(messages), leader_epoch(messages[-1])
                messages, headers = self._filter(messages, headers)
                if len(messages) < before:
                    self.left_out += before - len(messages)
                    self.left_out_epoch = epoch
            keys = list(map(Message.key, messages))
            added = weights(messages, keys, headers)
            self._messages.extend(messages)
            self._keys.extend(keys)
            self._headers.extend(headers)
            self._weights.extend(added)
            self.weight += sum(added)
            self._to = max(self._to, end)

    def seal(self) -> None:
        """Keep the records that are there, and take no more until a seek: those that come now do not follow them."""
        with self._lock:
            self._sealed = True

    def reached(self, offset: int) -> None:
        """The consumer is at the source's end, and it has given every record before `offset`."""
        with self._lock:
            if self.accepts:
                self._to = max(self._to, offset if self._until is None else min(offset, self._until))

    def end_at(self, offset: int) -> bool:
        """Take nothing from `offset` on, and drop what is there of it, until a seek. False if it is too late for that.

        So it is if there is an end already, because what came after that one was dropped. No batch that `batch` has
        given may be under way.
        """
        with self._lock:
            if not self.accepts or offset < self._from or self._until is not None:
                return False
            self._until = offset
            kept = sum(message.offset() < offset for message in self._messages)
            self._keep(kept)
            self._to = min(self._to, offset)
            return True

    @property
    def has_end(self) -> bool:
        """True if `end_at` has set an end."""
        return self._until is not None

    @property
    def ended(self) -> bool:
        """True if everything before the end has been taken that `end_at` has set."""
        with self._lock:
            return self._until is not None and not self._messages and self._to >= self._until

    @property
    def read_to(self) -> int:
        """The offset before which every record has been read; -1 before a seek."""
        return self._to

    def go_back(self, offset: int) -> bool:
        """The consumer goes back to `offset`, because the log may have been cut and written anew.

        The records that are buffered stay. From `offset` on, records are taken again. False if the buffer takes nothing
        now.
        """
        with self._lock:
            if not self.accepts:
                return False
            kept = self._messages[-1].offset() + 1 if self._messages else self._from
            self._to = min(self._to, max(offset, kept))
            return True

    @property
    def accepts(self) -> bool:
        """True if records that come now are taken, unless they were there before."""
        return self._accepting and not self._sealed

    @property
    def sealed(self) -> bool:
        """True if the buffer takes nothing more until a seek."""
        return self._sealed

    @property
    def drained_to(self) -> int | None:
        """Every record before this offset has left the buffer. None while records wait, or the consumer has to seek."""
        with self._lock:
            return self._to if self._accepting and not self._messages else None

    @property
    def head_timestamp(self) -> int | None:
        """The timestamp of the first record, ms since the Unix epoch.

        None if the buffer is empty, or the record has no timestamp.
        """
        with self._lock:
            timestamp = self._messages[0].timestamp()[1] if self._messages else 0
        return int(timestamp) if timestamp > 0 else None

    def batch(self, max_records: int, max_bytes: int) -> ConsumedBatch | None:
        """The next batch, with at least one record, however large. It stays in the buffer. None if no record waits."""
        with self._lock:
            messages, each = self._messages[:max_records], self._weights[:max_records]
            keys, headers = self._keys[:max_records], self._headers[:max_records]
        if not messages:
            return None
        if sum(each) > max_bytes:
            count = max(1, bisect_right(list(accumulate(each)), max_bytes))
            messages, each, keys, headers = messages[:count], each[:count], keys[:count], headers[:count]
        return ConsumedBatch(
            messages,
            keys,
            headers,
            offsets=list(map(Message.offset, messages)),
            timestamps=[timestamp for _, timestamp in map(Message.timestamp, messages)],
            weight=sum(each),
        )

    def committed(self, batch: ConsumedBatch) -> None:
        """Drop a batch that is on the target. This does nothing if the buffer was emptied meanwhile."""
        with self._lock:
            if not self._accepting:
                return
            self._drop(len(batch.messages))
            self._from = batch.next_offset

    def resume_at(self, offset: int) -> int | None:
        """Make the buffer begin at `offset`. None if it can; else the id of the seek that the consumer has to make.

        After the seek, the fetcher calls `sought` with that id.
        """
        with self._lock:
            if self._from <= offset <= self._to:
                self._drop(sum(message.offset() < offset for message in self._messages))
                self._from = offset
                return None
            self._reset(offset)
            return self._resets

    def invalidate(self) -> None:
        """Drop everything. The consumer has to seek, whatever the position is."""
        with self._lock:
            self._reset(-1)

    def sought(self, seek_id: int) -> None:
        """The consumer has made this seek, so take the records that come now: none from before it can come any more.

        Nothing is taken while a newer seek is pending, even one to the same offset. Otherwise the newer seek would take
        the consumer back after records were already accepted.
        """
        with self._lock:
            self._accepting = seek_id == self._resets
            self._sealed = False

    def _before_end(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Those that come before the end. One that comes after it tells that there is nothing more before it."""
        if self._until is None or messages[-1].offset() < self._until:
            return messages
        before = [message for message in messages if message.offset() < self._until]
        self._to = max(self._to, self._until)
        return before

    def _keep(self, count: int) -> None:
        self.weight -= sum(self._weights[count:])
        for each in (self._messages, self._keys, self._headers, self._weights):
            del each[count:]

    def _drop(self, count: int) -> None:
        self.weight -= sum(self._weights[:count])
        for each in (self._messages, self._keys, self._headers, self._weights):
            del each[:count]

    def _reset(self, offset: int) -> None:
        self._messages, self._keys, self._headers, self._weights = [], [], [], []
        self.weight, self.left_out_epoch = 0, -1
        self._from = self._to = offset
        self._accepting = self._sealed = False
        self._until = None
        self._resets += 1
