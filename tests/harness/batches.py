"""Record batches as producers and brokers write them; what a client library would not write included."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

import pyarrow as pa
from crc32c import crc32c

from mirror import varints
from mirror.batches.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from mirror.batches.records import Content, encode

XERIAL = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
BLOCK = 1000  # bytes in one block of Java's snappy streams; Java takes 32 KiB

Made = tuple[int, int, Content]  # offset, timestamp, content


def batch(  # what a header has
    made: Sequence[Made],
    codec: int = NONE,
    attributes: int = 0,
    producer: int = -1,
    last: int | None = None,
    first: int | None = None,
    xerial: bool = True,
) -> bytes:
    """A batch of format 2; `first` and `last` are offsets, those of the records unless compaction removed some."""
    first = made[0][0] if first is None else first
    last = made[-1][0] if last is None else last
    base = made[0][1] if made else 0
    records = b"".join(record(offset - first, timestamp - base, encode(content)) for offset, timestamp, content in made)
    most = max((timestamp for _, timestamp, _ in made), default=base)
    return raw(packed(records, codec, xerial), len(made), first, last, base, most, codec | attributes, producer)


def raw(
    payload: bytes,
    count: int,
    first: int,
    last: int,
    base: int = 0,
    most: int = 0,
    attributes: int = 0,
    producer: int = -1,
) -> bytes:
    """A batch around any payload, with the right checksum."""
    rest = struct.pack(">hiqqqhiI", attributes, last - first, base, most, producer, 0, 0, count) + payload
    return struct.pack(">qiibI", first, 9 + len(rest), 0, 2, crc32c(rest)) + rest


def record(number: int, delta: int, content: bytes) -> bytes:
    """One record of a batch."""
    body = b"\0" + varints.write(delta) + varints.write(number) + content
    return varints.write(len(body)) + body


def marker(offset: int, producer: int, commit: bool) -> bytes:
    """The control batch that ends a transaction."""
    key = struct.pack(">hh", 0, int(commit))
    return batch([(offset, 1, Content(key, b"\0" * 6, ()))], attributes=0x30, producer=producer)


def message(offset: int, timestamp: int, key: bytes, value: bytes) -> bytes:
    """A message of format 1, as producers before Kafka 0.11 wrote them."""
    body = struct.pack(">bbq", 1, 0, timestamp) + b"".join(struct.pack(">i", len(x)) + x for x in (key, value))
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


def packed(records: bytes, codec: int, xerial: bool = True) -> bytes:
    """Compressed as clients do."""
    if codec == NONE:
        return records
    if codec == GZIP:
        made = zlib.compressobj(wbits=31)
        return made.compress(records) + made.flush()
    if codec == SNAPPY:
        snappy = pa.Codec("snappy")
        if not xerial:
            return bytes(snappy.compress(records, asbytes=True))
        blocks = [snappy.compress(records[at : at + BLOCK], asbytes=True) for at in range(0, len(records), BLOCK)]
        return XERIAL + b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return bytes(pa.Codec({LZ4: "lz4", ZSTD: "zstd"}[codec]).compress(records, asbytes=True))
