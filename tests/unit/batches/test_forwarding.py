"""Batches that are forwarded whole: what fits, what stamping changes, and what it leaves alone."""

from __future__ import annotations

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mirror.batches.building import build
from mirror.batches.checksum import changed
from mirror.batches.codecs import GZIP, LZ4, NONE, SNAPPY, ZSTD
from mirror.batches.fitting import misfit
from mirror.batches.headers import CODEC, CRC_FROM, HEADER, LOG_APPEND_TIME, TRANSACTIONAL, RecordBatch, walk
from mirror.batches.records import Content, encode, records
from mirror.batches.stamping import stamp
from tests.harness import batches

DELETE_HORIZON = 0x40
LARGEST = 2**20


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


@pytest.mark.parametrize(
    ("data", "position", "why"),
    [
        (batches.batch(made(3, 5)), 5, None),
        (batches.batch(made(3, 5)), 4, None),
        (batches.batch(made(3, 5)), 6, "position_within_batch"),
        (batches.batch([*made(1, 5), *made(1, 7)]), 5, "compacted"),
        (batches.batch(made(2, 5), last=9), 5, "compacted"),
        (batches.batch(made(2, 6), first=5), 5, "compacted"),
        (batches.batch(made(2), attributes=LOG_APPEND_TIME), 0, "log_append_time"),
        (batches.batch(made(2), attributes=5), 0, "unknown_codec"),
        (batches.batch(made(1, 0, LARGEST)), 0, "too_large"),
        (batches.message(0, 1, b"", b""), 0, "old_format"),
    ],
)
def test_what_fits(data: bytes, position: int, why: str | None) -> None:
    assert misfit(one(data), position, LARGEST) == why


@given(st.lists(st.tuples(st.none() | st.binary(), st.none() | st.binary()), min_size=1, max_size=20))
def test_a_batch_of_our_own(pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    contents = [Content(key, value, ()) for key, value in pairs]
    data = build(contents, 1234)
    found = one(data)
    assert [each for _, _, each in records(found)] == [encode(content) for content in contents]
    assert {at for _, at, _ in records(found)} == {1234} and misfit(found, 0, LARGEST) is None
