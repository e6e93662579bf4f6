"""Encodes requests. Record batches are not copied: they stay parts of their own, up to the socket."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from mirror import varints

T = TypeVar("T")

_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")


class Writer:
    """Writes a request of one version. `parts` are what it has written, in order."""

    def __init__(self, version: int = 0, flexible: bool = False) -> None:
        self.version = version
        self.parts: list[bytearray | memoryview] = [bytearray()]
        self._flexible = flexible
        self._last = self.parts[0]

    def pack(self, format_: str, *values: Any) -> Writer:
        """Write numbers, in `struct`'s format without the byte order."""
        return self.raw(struct.pack(f">{format_}", *values))

    def raw(self, data: bytes) -> Writer:
        """Write bytes as they are."""
        self._last += data  # type: ignore[operator]  # it is a bytearray
        return self

    def string(self, text: str | None) -> Writer:
        """Write a STRING or NULLABLE_STRING."""
        encoded = b"" if text is None else text.encode()
        return self._length(None if text is None else len(encoded), _INT16).raw(encoded)

    def bytes(self, data: bytes) -> Writer:
        """Write BYTES."""
        return self._length(len(data), _INT32).raw(data)

    def records(self, batch: memoryview) -> Writer:
        """Write RECORDS, without a copy."""
        self._length(len(batch), _INT32)
        self._last = bytearray()
        self.parts += (batch, self._last)
        return self

    def array(self, items: Iterable[T] | None, write: Callable[[Writer, T], object]) -> Writer:
        """Write an ARRAY, each item of which `write` writes."""
        some = None if items is None else list(items)
        self._length(None if some is None else len(some), _INT32)
        for item in some or ():
            write(self, item)
        return self

    def tags(self) -> Writer:
        """Write that there are no tagged fields, in versions that have some."""
        return self.raw(b"\0") if self._flexible else self

    def _length(self, count: int | None, kind: struct.Struct) -> Writer:
        if self._flexible:
            return self.raw(varints.write_unsigned(0 if count is None else count + 1))
        return self.raw(kind.pack(-1 if count is None else count))
