"""A batch that is made one of another producer: what stamping changes, and what it leaves alone."""

from __future__ import annotations

import struct

from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mirror.batches.checksum import changed
from mirror.batches.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from mirror.batches.headers import CODEC, CRC_FROM, HEADER, TRANSACTIONAL, RecordBatch, walk
from mirror.batches.records import Content, records
from mirror.batches.stamping import stamp
from tests.harness import batches

DELETE_HORIZON = 0x40


def one(data: bytes | bytearray | memoryview) -> RecordBatch:
    (found,) = walk(memoryview(data))
    return found


def made(count: int, first: int = 0, size: int = 5) -> list[batches.Made]:
    return [(n, 10 * n, Content(b"%d" % n, b"v" * size, [(b"name", b"%d" % n)])) for n in range(first, first + count)]


@given(st.binary(max_size=50), st.data(), st.binary(max_size=300), st.integers(0, 2000))
def test_a_checksum_of_a_changed_beginning(before: bytes, data: st.DataObject, rest: bytes, times: int) -> None:
    after = data.draw(st.binary(min_size=len(before), max_size=len(before)))
    rest *= times
    assert changed(crc32c(before + rest), before, after, len(rest)) == crc32c(after + rest)


@given(
    st.integers(1, 300),
    st.sampled_from([NONE, GZIP, SNAPPY, LZ4, ZSTD]),
    st.sampled_from([0, TRANSACTIONAL, DELETE_HORIZON]),
    st.integers(0, 2**40),
    st.sampled_from([1, 500]),
    st.tuples(st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.integers(0, 2**31 - 1)),
)
def test_stamping_changes_the_header_only(
    count: int, codec: int, flags: int, first: int, size: int, by: tuple[int, int, int]
) -> None:
    """Records, their times and their order stay, and the batch has a right checksum, whatever its size."""
    source = batches.batch(made(count, first, size), codec, attributes=flags, producer=7)
    before = one(source)
    data = bytearray(source)
    stamp(memoryview(data), *by)
    after = one(data)
    assert struct.unpack_from(">qhi", data, 43) == by
    assert (after.first, after.last, after.epoch) == (0, count - 1, -1)
    assert after.attributes == codec | TRANSACTIONAL and after.attributes & CODEC == codec
    assert data[HEADER:] == source[HEADER:] and crc32c(data[CRC_FROM:]) == struct.unpack_from(">I", data, 17)[0]
    moved = [(offset - first, at, content) for offset, at, content in records(before)]
    assert list(records(after)) == moved and len(moved) == count
