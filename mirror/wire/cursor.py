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
        return self._text(max(0, self.int16()))

    def bytes(self) -> memoryview:
        """Read BYTES, NULLABLE_BYTES or RECORDS; null is empty."""
        return self._take(max(0, self.int32()))

    def array(self, item: Callable[[Cursor], T], least: int) -> list[T]:
        """Read an ARRAY of items that `item` reads, each of `least` bytes at least; null is empty."""
        return self._items(max(0, self.int32()), item, least)

    def compact_string(self) -> str:
        """Read a COMPACT_STRING or COMPACT_NULLABLE_STRING; null is empty."""
        return self._text(max(0, self._unsigned() - 1))

    def compact_array(self, item: Callable[[Cursor], T], least: int) -> list[T]:
        """Read a COMPACT_ARRAY of items that `item` reads, each of `least` bytes at least; null is empty."""
        return self._items(max(0, self._unsigned() - 1), item, least)

    def tags(self) -> None:
        """Pass over tagged fields (KIP-482)."""
        for _ in range(self._unsigned()):
            self._unsigned()
            self._take(self._unsigned())

    def end(self) -> None:
        """Check that the whole answer has been read."""
        if self._at != len(self._data):
            raise Malformed(f"the answer has {len(self._data) - self._at} bytes too many")

    def _text(self, length: int) -> str:
        text = bytes(self._take(length))
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            raise Malformed("a text in the answer is not UTF-8") from error

    def _items(self, count: int, item: Callable[[Cursor], T], least: int) -> list[T]:
        if count * least > len(self._data) - self._at:
            raise Malformed(f"the answer ends before its {count} items")
        return [item(self) for _ in range(count)]

    def _unsigned(self) -> int:
        """Read an UNSIGNED_VARINT of 32 bits."""
        value = 0
        for shift in range(0, 35, 7):
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise Malformed("a number in the answer has no end")

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
