"""Builds uncompressed batches: of records of our own, and of encoded ones."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from crc32c import crc32c

from mirror import varints
from mirror.batches.headers import CRC_FROM, FORMAT, HEADER, LENGTH_FROM
from mirror.batches.records import Content, encode

_HEADER = struct.Struct(">qiibIhiqqqhiI")
_CHECKSUM_AT = 17


def build(contents: Sequence[Content], timestamp: int) -> memoryview:
    """A batch of these records, at least one, all of the same time (ms). It can be changed, as stamping does."""
    bodies = [b"\0\0" + varints.write(at) + encode(each) for at, each in enumerate(contents)]  # no attributes, no delay
    parts = [varints.write(len(body)) + body for body in bodies]
    return memoryview(batch_of(parts, len(contents), (timestamp, timestamp)))


def batch_of(
    parts: Sequence[bytes], count: int, timestamps: tuple[int, int], first: int = 0, epoch: int = -1
) -> bytearray:
    """A batch around the encoded records that these bytes are, which belongs to no producer.

    `timestamps` are the one that the records' own are relative to, and the largest.
    """
    data = bytearray().join((bytes(HEADER), *parts))
    length = len(data) - LENGTH_FROM
    _HEADER.pack_into(data, 0, first, length, epoch, FORMAT, 0, 0, count - 1, *timestamps, -1, -1, -1, count)
    struct.pack_into(">I", data, _CHECKSUM_AT, crc32c(memoryview(data)[CRC_FROM:]))
    return data
