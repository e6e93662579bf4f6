"""Builds a small uncompressed batch of records of our own."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from crc32c import crc32c

from mirror import varints
from mirror.batches.headers import CRC_FROM, FORMAT, HEADER
from mirror.batches.records import Content, encode

_HEADER = struct.Struct(">qiibIhiqqqhiI")
_LENGTH_FROM = 12
_CHECKSUM_AT = 17


def build(contents: Sequence[Content], timestamp: int) -> memoryview:
    """A batch of these records, at least one, all of the same time (ms). It can be changed, as stamping does."""
    data = bytearray(HEADER)
    for number, content in enumerate(contents):
        body = b"\0\0" + varints.write(number) + encode(content)  # no attributes, no difference of the time
        data += varints.write(len(body)) + body
    count, length = len(contents), len(data) - _LENGTH_FROM
    _HEADER.pack_into(data, 0, 0, length, -1, FORMAT, 0, 0, count - 1, timestamp, timestamp, -1, -1, -1, count)
    struct.pack_into(">I", data, _CHECKSUM_AT, crc32c(memoryview(data)[CRC_FROM:]))
    return memoryview(data)
