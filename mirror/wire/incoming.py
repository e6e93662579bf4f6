"""Cuts what arrives on a connection into answers. Records are read straight into the buffer that they stay in."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable
from typing import Any

from mirror.errors import Malformed
from mirror.wire.access import BATCH_MAX
from mirror.wire.requests import Request
from mirror.wire.stream import Stream

PIECE = 2**18  # bytes of an answer that, when they come, give the rest more time; a slow link can do that
BUFFER = 2**16  # bytes
LARGE = 2**24  # bytes of an answer, from which on memory is reserved in a way that costs nothing before it is used

_SIZE = struct.Struct(">i")


class Incoming:
    """Reads answers.

    Small ones are read many at once, and copied. The size of an answer with records is read alone, then memory is
    reserved for it, and the kernel writes there. A size that lies costs LARGE bytes at most. No batch has more than
    `batch_max` bytes.
    """

    def __init__(
        self,
        name: str,
        stream: Stream,
        batch_max: int,
        expected: Callable[[], Request[Any] | None],
        answered: Callable[[memoryview], None],
        coming: Callable[[], None],
    ) -> None:
        self._name = name
        self._stream = stream
        self._batch_max = batch_max
        self._expected = expected  # the request that is answered next
        self._answered = answered  # called with an answer without its size
        self._coming = coming  # called when a large answer goes on
        self._buffer = bytearray(BUFFER)
        self._have = 0  # bytes in it, or of the body
        self._body: memoryview | None = None  # of a large answer
        self._mark = 0  # the bytes of it when we last said that it comes

    def read(self) -> bool:
        """Read what is there. False if that is nothing. Raises Malformed, OSError, and what `answered` raises."""
        return self._read_small() if self._body is None else self._read_body(self._body)

    def drop(self) -> None:
        """Free all memory for answers. From then on nothing is read.

        A closed connection stays until Python looks for reference cycles, which a task seldom has it do. A cluster that
        lets nobody in would leave thousands of them.
        """
        self._body, self._buffer, self._have = None, bytearray(), 0

    def _read_small(self) -> bool:
        expected = self._expected()
        alone = expected is not None and expected.api.has_records and self._have < _SIZE.size
        end = _SIZE.size if alone else BUFFER
        count = self._stream.read_into(memoryview(self._buffer)[self._have : end])
        self._have += count
        at = 0
        while self._have - at >= _SIZE.size:
            size, begin = self._size(at), at + _SIZE.size
            if size <= self._have - begin:
                at = begin + size
                self._answered(memoryview(self._buffer[begin:at]))
            elif alone or size > BUFFER - _SIZE.size:
                body = self._body = _reserved(size)
                self._have, self._mark = self._have - begin, 0
                body[: self._have] = memoryview(self._buffer)[begin : begin + self._have]
                return count > 0
            else:
                break
        if at:
            self._buffer[: self._have - at] = self._buffer[at : self._have]
            self._have -= at
        return count > 0

    def _size(self, at: int) -> int:
        (size,) = _SIZE.unpack_from(self._buffer, at)
        expected = self._expected()
        if expected is None:
            raise Malformed(f"{self._name} answers a request that was not sent")
        if not _SIZE.size <= size <= expected.answer_max(self._batch_max):
            hint = f"more than {BATCH_MAX} allows" if expected.api.has_records else "is it a Kafka broker?"
            raise Malformed(f"{self._name} answers with {size} bytes: {hint}")
        return int(size)

    def _read_body(self, body: memoryview) -> bool:
        count = self._stream.read_into(body[self._have :])
        self._have += count
        if self._have == len(body):
            self._body, self._have = None, 0
            self._answered(body)
        elif self._have - self._mark >= PIECE:
            self._mark = self._have
            self._coming()
        return count > 0


def _reserved(size: int) -> memoryview:
    """Memory for an answer. A bytearray is filled with zeros at once; fresh pages come when they are written to."""
    return memoryview(bytearray(size) if size < LARGE else mmap.mmap(-1, size))
