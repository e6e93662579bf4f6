"""Batches that real clients have written, with every codec: they are read, and forwarded, as what was written."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import pairwise

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from mirror.batches.fitting import misfit
from mirror.batches.headers import CODEC, CRC_FROM, HEADER, TRANSACTIONAL, RecordBatch, walk
from mirror.batches.merging import merged
from mirror.batches.records import encode, records
from mirror.batches.stamping import stamp
from tests.harness import written
from tests.harness.batches import XERIAL

LARGEST = 2**20
WRITTEN = {name: walk(memoryview(data)) for name, data in written.written().items()}
GIVEN = {name: [encode(each) for each in written.given(name)] for name in WRITTEN}
PLACES = [(name, place) for name, batches in WRITTEN.items() for place in range(len(batches))]


@dataclass(frozen=True)
class Run:
    """Batches as a log has them. For each, its first offset, how it was recorded, and what its client was given."""

    data: bytes
    batches: list[tuple[int, RecordBatch, list[bytes]]]


@st.composite
def runs(draw: st.DrawFn) -> Run:
    """Some batches of any recordings, one after another, now and then with a marker's offset missing in between."""
    at, found, data = draw(st.integers(0, 2**40)), list[tuple[int, RecordBatch, list[bytes]]](), bytearray()
    for name, place in draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=15)):
        batch = WRITTEN[name][place]
        at += draw(st.sampled_from([0, 0, 0, 0, 1]))
        found.append((at, batch, GIVEN[name][batch.first : batch.last + 1]))
        data += struct.pack(">q", at) + batch.data[8:]  # as a broker does; the checksum does not cover it
        at += batch.records
    return Run(bytes(data), found)


def has_right_checksum(batch: RecordBatch) -> bool:
    return struct.unpack_from(">I", batch.data, 17) == (crc32c(batch.data[CRC_FROM:]),)


def test_both_clients_have_used_every_codec() -> None:
    assert {*written.UNCOMPRESSED, *written.COMPRESSED} == set(WRITTEN)
    for name, codec in written.COMPRESSED.items():
        assert len(WRITTEN[name]) > 3 and all(each.attributes & CODEC == codec for each in WRITTEN[name])
        assert max(map(len, GIVEN[name])) > written.LARGE > 10 * max(len(each.data) for each in WRITTEN[name])
    for name, framed in (("java-snappy", True), ("librdkafka-snappy", False)):
        assert {bytes(each.payload).startswith(XERIAL[:8]) for each in WRITTEN[name]} == {framed}


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_a_recording_has_what_its_client_was_given(name: str) -> None:
    found = [(offset, content) for batch in WRITTEN[name] for offset, _, content in records(batch)]
    assert found == list(enumerate(GIVEN[name]))


@given(runs())
def test_what_is_read_is_what_was_written(run: Run) -> None:
    found = walk(memoryview(run.data))
    assert len(found) == len(run.batches)
    for batch, (first, recorded, contents) in zip(found, run.batches, strict=True):
        assert (batch.first, batch.last, batch.records) == (first, first + len(contents) - 1, len(contents))
        assert batch.data[8:] == recorded.data[8:] and has_right_checksum(batch)
        assert misfit(batch, first, LARGEST) is None
        offsets, times, decoded = zip(*records(batch), strict=True)
        assert offsets == tuple(range(first, first + len(contents))) and list(decoded) == contents
        assert times[0] == batch.base_timestamp and max(times) == batch.max_timestamp
    assert all(before.last < after.first for before, after in pairwise(found))


@given(runs(), st.integers(0, 2**63 - 1), st.integers(0, 2**15 - 1), st.booleans())
def test_what_is_forwarded_is_what_was_written(run: Run, producer: int, epoch: int, merges: bool) -> None:
    """Of another producer, in a transaction, and as a producer sends it: with offsets from 0 on."""
    data, before = memoryview(bytearray(run.data)), walk(memoryview(run.data))
    found = walk(merged(data, before[0].first, len(data), LARGEST) if merges else data)
    sequence, forwarded = 0, list[tuple[int, int, bytes]]()
    for batch in found:
        payload = bytes(batch.payload)
        stamp(batch.data, producer, epoch, sequence)
        (stamped,) = walk(batch.data)
        assert struct.unpack_from(">qhi", stamped.data, 43) == (producer, epoch, sequence)
        assert (stamped.first, stamped.last, stamped.epoch) == (0, batch.records - 1, -1)
        assert stamped.attributes == batch.attributes & CODEC | TRANSACTIONAL
        assert has_right_checksum(stamped) and stamped.data[HEADER:] == payload
        sequence += batch.records
        forwarded += [(batch.first + offset, at, content) for offset, at, content in records(stamped)]
    assert forwarded == [record for batch in before for record in records(batch)]
    assert [content for *_, content in forwarded] == [each for *_, contents in run.batches for each in contents]
