"""Parses answers. Every length and count is checked against the remaining data before anything is allocated."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mirror import varints
from mirror.errors import Malformed

K = TypeVar("K")
T = TypeVar("T")

bytes_ = bytes  # the class has a method of that name

_INT8, _INT16, _INT32, _INT64 = (struct.Struct(f">{code}") for code in "bhiq")
_UUID = 16  # bytes
ITEMS_MAX = 2**19  # of all lists and tagged fields of an answer; Metadata has four for a partition
_NO_TAGS: Mapping[int, Cursor] = {}


class Cursor:
    """Reads an answer of one version from its beginning to its end. Each method raises Malformed.

    A `flexible` version (KIP-482) has compact lengths and tagged fields.
    """

    def __init__(
        self,
        data: bytes | bytearray | memoryview,
        version: int = 0,
        flexible: bool = False,
        asked: int = ITEMS_MAX,
    ) -> None:
        """`asked` is how many partitions, or whatever else the answer lists, were asked for."""
        self.version = version
        self.asked = asked
        self.throttled = 0  # ms for which the broker asks us to be quiet, once they are read
        self._flexible = flexible
        self._data = memoryview(data)
        self._at = 0
        self._items = ITEMS_MAX

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

    def unpack(self, fields: struct.Struct) -> tuple[Any, ...]:
        """Read several numbers that follow each other."""
        return fields.unpack(self._take(fields.size))

    def throttle(self) -> None:
        """Read the time for which the broker throttles us (KIP-219)."""
        self.throttled = self.int32()

    def uuid(self) -> bytes:
        """Read a UUID."""
        return bytes(self._take(_UUID))

    def string(self) -> str:
        """Read a STRING or NULLABLE_STRING; null is empty."""
        text = bytes(self._take(self._length(_INT16)))
        try:
            return text.decode()
        except UnicodeDecodeError as error:
            raise Malformed("a text in the answer is not UTF-8") from error

    def bytes(self) -> memoryview:
        """Read BYTES, NULLABLE_BYTES or RECORDS, without a copy; null is empty."""
        return self._take(self._length(_INT32))

    def array(self, item: Callable[[Cursor], T], least: int, most: int = ITEMS_MAX) -> list[T]:
        """Read an ARRAY of `most` items that `item` reads, each of `least` bytes at least; null is empty."""
        count = self._length(_INT32)
        if count > most:
            raise Malformed(f"the answer has a list of {count}, and can have {most}")
        self._expect(count, least, "items")
        return [item(self) for _ in range(count)]

    def int32s(self) -> tuple[int, ...]:
        """Read an ARRAY of INT32; null is empty. Eight of them count as one item."""
        count = self._length(_INT32)
        self._expect(1 + count // 8, 0, "items")
        return struct.unpack(f">{count}i", self._take(count * _INT32.size))

    def by_topic(self, item: Callable[[Cursor], T], least: int) -> list[tuple[str, T]]:
        """Read partitions that are grouped by topic, each with the topic's name."""
        return self._by_topic(Cursor.string, item, least)

    def by_topic_id(self, item: Callable[[Cursor], T], least: int) -> list[tuple[bytes_, T]]:
        """Read partitions that are grouped by topic, each with the topic's id."""
        return self._by_topic(Cursor.uuid, item, least)

    def tags(self) -> Mapping[int, Cursor]:
        """Read the tagged fields, by their tags. A version that is not flexible has none."""
        if not self._flexible:
            return _NO_TAGS
        count = self._unsigned()
        if not count:
            return _NO_TAGS
        self._expect(count, 2, "tagged fields")
        return {self._unsigned(): Cursor(self._take(self._unsigned()), self.version, True) for _ in range(count)}

    @property
    def size(self) -> int:
        """How many bytes the whole answer has."""
        return len(self._data)

    @property
    def left(self) -> int:
        """How many bytes are still to be read."""
        return len(self._data) - self._at

    def back(self, count: int) -> None:
        """Read so many bytes again."""
        self._at -= count

    def rest(self) -> None:
        """Pass over everything that is left."""
        self._at = len(self._data)

    def end(self) -> None:
        """Check that the whole answer has been read."""
        if self._at != len(self._data):
            raise Malformed(f"the answer has {len(self._data) - self._at} bytes too many")

    def _by_topic(self, key: Callable[[Cursor], K], item: Callable[[Cursor], T], least: int) -> list[tuple[K, T]]:
        found: list[tuple[K, T]] = []

        def topic(answer: Cursor) -> None:
            named = key(answer)
            found.extend((named, each) for each in answer.array(item, least, self.asked - len(found)))
            answer.tags()

        self.array(topic, 3, self.asked)
        return found

    def _expect(self, count: int, least: int, what: str) -> None:
        """Refuse more than there can be, or than memory should be spent on: an item needs a hundred times its bytes."""
        if count * least > len(self._data) - self._at:
            raise Malformed(f"the answer ends before its {count} {what}")
        self._items -= count
        if self._items < 0:
            raise Malformed(f"the answer has more than {ITEMS_MAX} items")

    def _length(self, kind: struct.Struct) -> int:
        return max(0, self._unsigned() - 1 if self._flexible else self._number(kind))

    def _unsigned(self) -> int:
        value, self._at = varints.read_unsigned(self._data, self._at)
        return value

    def _number(self, kind: struct.Struct) -> int:
        number: int = kind.unpack(self._take(kind.size))[0]
        return number

    def _take(self, count: int) -> memoryview:
        if count > len(self._data) - self._at:
            raise Malformed("the answer is cut off")
        self._at += count
        return self._data[self._at - count : self._at]
