"""Runs of small batches that become one: the same records at the same offsets, and nothing else is touched."""

from __future__ import annotations

import struct
import time
from dataclasses import replace
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import example, given
from hypothesis import strategies as st

from mirror import varints
from mirror.batches.codecs import LZ4, NONE
from mirror.batches.fitting import misfit
from mirror.batches.headers import CRC_FROM, HEADER, LENGTH_FROM, LOG_APPEND_TIME, TRANSACTIONAL, RecordBatch, walk
from mirror.batches.merging import SMALL, merged
from mirror.batches.records import Content, records
from mirror.errors import Malformed
from tests.harness import batches
from tests.harness.written import COUNT, UNCOMPRESSED, written
from tests.unit.batches.test_batches import contents

ALL, LARGEST = 2**31, 2**20
DELETE_HORIZON = 0x40
Read = list[tuple[int, int, bytes]]


def of(data: memoryview | bytes) -> Read:
    return [record for batch in walk(memoryview(data)) for record in records(batch)]


def merge(data: bytes, position: int = 0, most: int = ALL, largest: int = LARGEST) -> list[RecordBatch]:
    return walk(merged(memoryview(bytearray(data)), position, most, largest), most)


def small(first: int, count: int = 1, codec: int = NONE, **more: Any) -> bytes:
    made = [(n, 10 * n, Content(None, b"v%d" % n, [(b"name", None)])) for n in range(first, first + count)]
    return batches.batch(made, codec, **more)


def spans(found: list[RecordBatch]) -> list[tuple[int, int]]:
    return [(each.first, each.last) for each in found]


@st.composite
def logs(draw: st.DrawFn) -> tuple[bytes, list[tuple[bytes, bool]]]:
    """Batches as a log has them, each with whether it may be merged with others of its kind."""
    at, found = draw(st.integers(0, 2**40)), list[tuple[bytes, bool]]()
    for _ in range(draw(st.integers(0, 12))):
        at += draw(st.sampled_from([0, 0, 0, 0, 1, 200]))  # markers, or what was compacted away
        count = draw(st.sampled_from([1, 1, 1, 2, 5, SMALL, SMALL + 1]))
        times = st.one_of(st.integers(10**12, 10**12 + 2**15), st.sampled_from([-1, 0, 1, 2**62, 2**63 - 1]))
        made = [(at + n, draw(times), draw(contents)) for n in range(count)]
        flags = draw(st.sampled_from([0, 0, 0, 0, TRANSACTIONAL, DELETE_HORIZON, LOG_APPEND_TIME]))
        codec = draw(st.sampled_from([NONE, NONE, NONE, LZ4]))
        found.append(
            (batches.batch(made, codec, flags, draw(st.integers(-1, 9))), not (flags or codec or count > SMALL))
        )
        at += count
    return b"".join(data for data, _ in found), found


@given(logs(), st.integers(0, 100))
def test_the_records_stay_as_they_are(log: tuple[bytes, list[tuple[bytes, bool]]], more: int) -> None:
    """Their offsets, times, keys, values and headers; and so does every batch that is not merged, byte for byte."""
    data, made = log
    at = walk(memoryview(data))[0].first if data else 0
    tail = (data + small(2**41))[len(data) :][:more]  # an answer may end within a batch
    found = merge(data + tail, at)
    whole = len(tail) == len(small(2**41))
    assert [each for batch in found for each in records(batch)] == of(data) + (of(tail) if whole else [])
    kept = {bytes(each.data) for each in found}
    assert all(each in kept for each, may_be_merged in made if not may_be_merged)
    for batch in found:
        assert crc32c(batch.data[CRC_FROM:]) == struct.unpack_from(">I", batch.data, 17)[0]
        if bytes(batch.data) not in {each for each, _ in made}:
            times = [time_ for _, time_, _ in records(batch)]
            assert batch.max_timestamp == max(times) and batch.base_timestamp == times[0]
            assert misfit(batch, batch.first, LARGEST) is None and batch.producer_id == -1 and not batch.attributes


@given(st.lists(st.integers(1, SMALL), min_size=2, max_size=30), st.integers(0, 2**40))
def test_a_run_becomes_one_batch(counts: list[int], first: int) -> None:
    data, at = b"", first
    for count in counts:
        data += small(at, count, producer=at % 3)
        at += count
    (batch,) = merge(data, first)
    assert (batch.first, batch.last, batch.records) == (first, at - 1, sum(counts)) and len(batch.data) < len(data)


def test_a_batch_whose_length_is_negative_is_not_merged() -> None:
    """It leads from the end of the data back to its beginning, or the other way, to bytes that make a batch there."""
    first, second = small(0, 2), small(2, 2)
    data = bytearray(first + second)
    struct.pack_into(">i", data, 8, -LENGTH_FROM - len(second))
    struct.pack_into(">i", data, len(first) + 8, len(data) + len(second) - LENGTH_FROM)
    assert merged(memoryview(bytearray(data)), 0, ALL, LARGEST) == data
    with pytest.raises(Malformed):
        merge(bytes(data))


# Lengths at which a record's own length takes one more byte, or is not written by a table; and any time.
lengths = st.one_of(st.integers(0, 80), st.integers(8_170, 8_200))
ages = st.one_of(st.integers(0, 200), st.integers(-3, 3), st.integers(8_180, 8_200), st.integers(-(2**40), 2**40))


@given(st.lists(st.tuples(lengths, ages, st.sampled_from([1, 1, 1, 2])), min_size=2), st.sampled_from([-9, 10**12]))
@example([(1, 0, 1), (1, 0, 1)], -9)
def test_single_records_become_what_a_producer_writes(made: list[tuple[int, int, int]], since: int) -> None:
    """One batch with the same bytes as if it had been written at once, where batches with more records are between."""
    parts, at = list[list[tuple[int, int, Content]]](), 2**40
    for size, age, count in made:
        parts.append([(at + n, since + age + n, Content(None, b"x" * size, ())) for n in range(count)])
        at += count
    assert_as_written(parts)


@pytest.mark.parametrize("count", [1, 2])
def test_a_batch_has_no_more_records_than_there_are_places_in_a_table(count: int) -> None:
    made = [(n, 7 * n, Content(None, b"%d" % n, ())) for n in range(8_300)]
    data = b"".join(batches.batch(made[at : at + count]) for at in range(0, len(made), count))
    first, second = merge(data)
    assert 8_000 < first.records <= 2**13 and second.last == made[-1][0]
    for found in (first, second):
        (written,) = walk(memoryview(batches.batch(made[found.first : found.last + 1])))
        assert replace(found, data=written.data, epoch=written.epoch) == written and found.payload == written.payload


def assert_as_written(parts: list[list[tuple[int, int, Content]]]) -> None:
    data = b"".join(batches.batch(each) for each in parts)
    (whole,) = walk(memoryview(batches.batch([record for each in parts for record in each])))
    found = merge(data, whole.first)
    if len(whole.data) >= len(data):
        assert b"".join(bytes(each.data) for each in found) == data, "it would become larger"
        return
    assert [each.payload for each in found] == [whole.payload]
    assert replace(found[0], data=whole.data, epoch=whole.epoch) == whole


def test_what_ends_a_run() -> None:
    pair = small(0) + small(1)
    for other in (
        small(2, SMALL + 1),
        small(2, codec=LZ4),
        small(2, attributes=TRANSACTIONAL, producer=7),
        small(2, attributes=DELETE_HORIZON),
        small(2, attributes=LOG_APPEND_TIME),
        batches.marker(2, 7, commit=True),
        batches.message(2, 1, b"", b""),
        batches.raw(b"", 0, 2, 2),
        batches.raw(b"", 1, 2, 2),  # damaged
        small(2, last=4),  # compacted
    ):
        last = walk(memoryview(other))[0].last
        assert spans(merge(pair + other + small(last + 1) + small(last + 2))) == [
            (0, 1),
            (2, last),
            (last + 1, last + 2),
        ]
    assert spans(merge(pair + small(3) + small(4))) == [(0, 1), (3, 4)], "a gap"
    assert spans(merge(pair, 1)) == [(0, 0), (1, 1)], "what is before the position"


def test_a_batch_is_the_newest_leaders_of_its_records() -> None:
    data = bytearray(small(0) + small(1))
    struct.pack_into(">i", data, 12, 3)
    struct.pack_into(">i", data, len(small(0)) + 12, 5)
    assert [each.epoch for each in merge(bytes(data))] == [5]


@pytest.mark.parametrize("largest", [10, 200, 1000])
def test_nothing_becomes_larger_than_the_target_takes(largest: int) -> None:
    one, data = len(small(10)), b"".join(map(small, range(10, 60)))
    found = merge(data, 10, largest=largest)
    assert of(data) == [each for batch in found for each in records(batch)]
    assert all(len(each.data) <= max(largest, one) for each in found)
    assert len(found) == -(-50 // max(1, largest // one))


def test_only_so_many_bytes_are_read() -> None:
    one = len(small(0))
    assert spans(merge(b"".join(map(small, range(9))), most=3 * one + 1)) == [(0, 3)]


def test_a_difference_of_times_that_can_not_be_written_ends_a_run() -> None:
    times = [-1, 2**63 - 1, 5]
    data = b"".join(batches.batch([(n, at, Content(None, b"", ()))]) for n, at in enumerate(times))
    assert spans(merge(data)) == [(0, 0), (1, 2)]
    assert [at for batch in merge(data) for _, at, _ in records(batch)] == times


def test_what_would_become_larger_stays() -> None:
    """Times that are far apart take up to ten bytes for each record. No batch is tried again and again."""
    far = [(n, 2**60 * (n // SMALL % 2) + n % SMALL, Content(None, b"", ())) for n in range(200 * SMALL)]
    data = b"".join(batches.batch(far[at : at + SMALL]) for at in range(0, len(far), SMALL))
    begun = time.process_time()
    found = merge(data)
    assert len(found) == 200 and b"".join(bytes(each.data) for each in found) == data
    assert time.process_time() - begun < 1.0


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.integers(0, 10**6), st.integers(0, 255), st.booleans())
@example([1, 1], HEADER, 0x80, True)
@example([2, 1, 1, 1, 3], 2651, 1, True)  # a length after which too few bytes for a header are left
def test_damage_is_left_to_the_walk(counts: list[int], at: int, byte: int, right: bool) -> None:
    """Any byte is another one, perhaps with a right checksum: what is found is the same as without merging."""
    data, first = bytearray(), 0
    for count in counts:
        data += small(first, count)
        first += count
    data[at % len(data)] = byte
    begin = 0
    while right and begin <= len(data) - HEADER:  # give each batch a right checksum
        (length,) = struct.unpack_from(">i", data, begin + 8)
        if not HEADER - 12 <= length <= len(data) - begin - 12:
            break
        end = begin + 12 + length
        struct.pack_into(">I", data, begin + 17, crc32c(data[begin + CRC_FROM : end]))
        begin = end
    assert outcome(merged(memoryview(bytearray(data)), 0, ALL, LARGEST)) == outcome(memoryview(data))


def outcome(data: memoryview) -> Read | str:
    try:
        return of(data)
    except Malformed:
        return "malformed"


def test_numbers_of_any_length_are_read() -> None:
    """A producer may write a number in more bytes than it needs; the key's and the value's stay as they are."""
    content = b"\x81\x00" + b"\x02v\x00"  # null as a key, in two bytes
    body = b"\0" + b"\x82\x00" + b"\x00" + content
    loose = batches.raw(
        varints.write(len(body))[:-1] + bytes([varints.write(len(body))[-1] | 0x80, 0]) + body, 1, 1, 1, 20, 21
    )
    found = merge(small(0) + loose)
    assert spans(found) == [(0, 1)] and content in bytes(found[0].data)
    assert [(offset, at) for offset, at, _ in records(found[0])] == [(0, 0), (1, 21)]


@pytest.mark.parametrize("name", UNCOMPRESSED)
def test_batches_of_real_clients(name: str) -> None:
    """They become one batch, with the same records. Headers, null and empty ones are among them."""
    data = written()[name]
    found = walk(memoryview(data))
    assert len(found) > COUNT // 10 and all(each.records <= SMALL for each in found)
    (batch,) = merge(data)
    assert list(records(batch)) == of(data) and batch.records == COUNT
    assert batch.max_timestamp == max(each.max_timestamp for each in found)


@given(st.data())
def test_any_part_of_what_real_clients_have_written(data: st.DataObject) -> None:
    found = walk(memoryview(written()[data.draw(st.sampled_from(sorted(written())))]))
    kept = [each for each in found if data.draw(st.booleans())]
    log = b"".join(bytes(each.data) for each in kept)
    result = merge(log, kept[0].first if kept else 0, largest=data.draw(st.integers(100, 5_000)))
    assert [each for batch in result for each in records(batch)] == of(log)
