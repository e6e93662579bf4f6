"""Parses answers. Every length and count is checked against the remaining data before anything is allocated."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeVar

from mirror.errors import Malformed

T = TypeVar("T")

_INT8, _INT16, _INT32, _INT64 = (struct.Struct(f">{code}") for code in "bhiq")


class Cursor:
    """Reads an answer from its beginning to its end. Each method raises Malformed."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = 0

    def int8(self) -> int:
        """Read an INT8."""
        return self._number(_INT8)

    def int16(self) -> int:
        """Read an INT16."""
        return self._number(_INT16)

    def int32(self) -> int:
        """Read an INT32."""
        return self._number(_INT32)

    def int64(self) -> int:
        """Read an INT64."""
        return self._number(_INT64)

    def string(self) -> str:
        """Read a STRING or NULLABLE_STRING; null is empty."""
        text = bytes(self._take(max(0, self.int16())))
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            raise Malformed("a text in the answer is not UTF-8") from error

    def bytes(self) -> memoryview:
        """Read BYTES, NULLABLE_BYTES or RECORDS; null is empty."""
        return self._take(max(0, self.int32()))

    def array(self, item: Callable[[Cursor], T], least: int) -> list[T]:
        """Read an ARRAY of items that `item` reads, each of `least` bytes at least; null is empty."""
        count = max(0, self.int32())
        if count * least > len(self._data) - self._at:
            raise Malformed(f"the answer ends before its {count} items")
        return [item(self) for _ in range(count)]

    def end(self) -> None:
        """Check that the whole answer has been read."""
        if self._at != len(self._data):
            raise Malformed(f"the answer has {len(self._data) - self._at} bytes too many")

    def _number(self, kind: struct.Struct) -> int:
        number: int = kind.unpack(self._take(kind.size))[0]
        return number

    def _take(self, count: int) -> memoryview:
        if count > len(self._data) - self._at:
            raise Malformed("the answer is cut off")
        self._at += count
        return self._data[self._at - count : self._at]


def string(text: str | None) -> bytes:
    """Encode a STRING or NULLABLE_STRING."""
    encoded = b"" if text is None else text.encode()
    return _INT16.pack(-1 if text is None else len(encoded)) + encoded


def sized(data: bytes) -> bytes:
    """Encode BYTES."""
    return _INT32.pack(len(data)) + data
