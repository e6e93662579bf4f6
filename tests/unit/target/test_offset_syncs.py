"""Offset syncs: MirrorMaker's bytes, and which records get one."""

from __future__ import annotations

import struct
from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.target.offset_syncs import OffsetSync, SyncChooser

LONG = 2**63 - 1


def test_the_bytes_are_mirrormakers() -> None:
    sync = OffsetSync("orders", 3, 258, 513)
    assert sync.key() == b"\x00\x06orders\x00\x00\x00\x03"
    assert sync.value() == b"\x00\x00\x00\x00\x00\x00\x01\x02\x00\x00\x00\x00\x00\x00\x02\x01"


def test_the_length_is_in_bytes() -> None:
    assert OffsetSync("ä", 0, 0, 0).key() == b"\x00\x02\xc3\xa4\x00\x00\x00\x00"


@given(st.text(max_size=249), st.integers(0, 2**31 - 1), st.integers(0, LONG), st.integers(0, LONG))
def test_what_is_written_can_be_read(topic: str, partition: int, upstream: int, downstream: int) -> None:
    sync = OffsetSync(topic, partition, upstream, downstream)
    assert OffsetSync.decode(sync.key(), sync.value()) == sync


@pytest.mark.parametrize(("key", "value"), [(b"", b""), (b"\x00\x01a\x00\x00\x00\x00", b"short")])
def test_other_bytes_are_no_sync(key: bytes, value: bytes) -> None:
    with pytest.raises(struct.error):
        OffsetSync.decode(key, value)


@st.composite
def batches(draw: st.DrawFn) -> list[list[int]]:
    """Ascending upstream offsets in batches, with runs and gaps."""
    result, at = [], draw(st.integers(0, 5))
    for _ in range(draw(st.integers(1, 6))):
        batch: list[int] = []
        for _ in range(draw(st.integers(1, 4))):
            run = draw(st.integers(1, 30))
            batch += range(at, at + run)
            at += run + draw(st.sampled_from([0, 0, 1, 7]))
        result.append(batch)
    return result


def synced_by(chooser: SyncChooser, offsets: list[int]) -> list[int]:
    """The offsets that get a sync, the batch being committed."""
    chosen = chooser.choose(offsets)
    chooser.committed(offsets, chosen)
    return [offsets[index] for index in chosen]


@given(batches(), st.integers(1, 25), st.lists(st.booleans(), min_size=6, max_size=6))
def test_each_offset_is_near_a_sync_without_a_gap(given_batches: list[list[int]], lag: int, idle: list[bool]) -> None:
    chooser, synced = SyncChooser(lag), []
    for batch, pause in zip(given_batches, idle, strict=False):
        synced += synced_by(chooser, batch)
        assert chooser.tail_is_synced == (synced[-1] == batch[-1])
        if pause and not chooser.tail_is_synced:
            chooser.tail_synced()
            assert chooser.tail_is_synced
            synced.append(batch[-1])
    assert synced == sorted(set(synced))
    offsets = [offset for batch in given_batches for offset in batch]
    position = {offset: index for index, offset in enumerate(offsets)}
    for offset in offsets:
        before = bisect_right(synced, offset) - 1
        assert before >= 0, "the first record has one"
        distance = offset - synced[before]
        assert distance <= lag
        assert distance == position[offset] - position[synced[before]], "no gap in between"


@given(st.integers(0, 1000), st.integers(1, 500), st.integers(1, 50))
def test_not_more_than_needed_without_gaps(first: int, count: int, lag: int) -> None:
    assert synced_by(SyncChooser(lag), list(range(first, first + count))) == list(range(first, first + count, lag))


@given(batches(), st.integers(1, 25))
def test_how_records_are_batched_makes_no_difference(given_batches: list[list[int]], lag: int) -> None:
    apart, together = SyncChooser(lag), SyncChooser(lag)
    synced = [offset for batch in given_batches for offset in synced_by(apart, batch)]
    assert synced == synced_by(together, [offset for batch in given_batches for offset in batch])


@given(batches(), st.integers(1, 25))
def test_a_batch_that_was_not_committed_is_chosen_again(given_batches: list[list[int]], lag: int) -> None:
    chooser = SyncChooser(lag)
    for batch in given_batches:
        assert chooser.choose(batch) == chooser.choose(batch)
        chooser.committed(batch, chooser.choose(batch))


def test_no_records_get_no_sync() -> None:
    assert SyncChooser(100).choose([]) == []
