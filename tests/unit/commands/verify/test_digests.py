"""Chunks: the same records make the same ones, wherever reading begins and however it is shared out."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Iterator
from hashlib import blake2b
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from hypothesis import given
from hypothesis import strategies as st

from mirror.commands.verify import digests
from mirror.commands.verify.digests import BOUNDARY, Chunk, Digester, Stretch, Uncuttable, cut
from mirror.errors import MirrorError, NotComparable
from mirror.records.consumed import Record
from mirror.settings import Cluster

INNER, END = b"\xff" * 16, b"\x00" * 16  # digests within a chunk, and at its end
assert END < BOUNDARY < INNER

steps = st.lists(st.tuples(st.integers(1, 3), st.booleans()), max_size=60)  # to the next offset; does a chunk end?
splits = st.lists(st.integers(0, 120), max_size=6)


def records(made: list[tuple[int, bool]]) -> list[tuple[int, bytes]]:
    offset, found = 0, []
    for step, ends in made:
        offset += step
        # Each is another one, so that equal chunks have equal records.
        found.append((offset, (END if ends else INNER)[:8] + offset.to_bytes(8, "big")))
    return found


@given(steps, splits)
def test_the_chunks_of_stretches_are_those_of_the_whole(made: list[tuple[int, bool]], at: list[int]) -> None:
    whole = records(made)
    limit = whole[-1][0] + 1 if whole else 0
    edges = [0, *sorted({edge for edge in at if 0 < edge < limit}), limit]
    parts: list[Chunk] = []
    for start, end in itertools.pairwise(edges):
        parts += cut([each for each in whole if each[0] >= start], end, first=start == 0)
    assert parts == cut(whole, limit, first=True)
    assert sum(chunk.records for chunk in parts) == len(whole)


@given(steps, st.integers(0, 60))
def test_what_is_missing_in_the_beginning_changes_the_first_chunk_alone(made: list[tuple[int, bool]], n: int) -> None:
    whole = records(made)
    limit = whole[-1][0] + 1 if whole else 0
    before, after = cut(whole, limit, True), cut(whole[n:], limit, True)
    assert after[1:] == before[len(before) - len(after) + 1 :]


def test_the_digest_of_a_chunk_is_that_of_its_records_digests() -> None:
    made = [(n, b"%16d" % n) for n in range(99)] + [(99, END)]
    (chunk,) = cut(made, 0, first=True)
    assert chunk == Chunk(0, 99, 100, blake2b(b"".join(each for _, each in made), digest_size=16).digest())


@pytest.mark.parametrize(("repeated", "most"), [(INNER, 5_001), (END, 1_012)])
def test_a_task_stops_at_records_that_make_no_chunks(
    monkeypatch: pytest.MonkeyPatch, repeated: bytes, most: int
) -> None:
    """Without a boundary each task reads on to the end of the log; with one in each record memory fills with chunks."""
    monkeypatch.setattr(digests, "RECORDS_MAX", 5_000)
    read: list[int] = []

    def endless() -> Iterator[tuple[int, bytes]]:
        for offset in itertools.count():
            read.append(offset)
            yield offset, repeated

    for first in (True, False):
        read.clear()
        with pytest.raises(Uncuttable):
            cut(endless(), 10**6, first)
        assert len(read) <= most


def test_records_of_one_digest_are_no_trouble_in_small_numbers() -> None:
    assert [chunk.records for chunk in cut(((n, INNER) for n in range(10_000)), 10_000, True)] == [10_000]
    assert len(cut(((n, END) for n in range(900)), 900, True)) == 900


class Endless(Digester):
    """A log that is full of one record."""

    def _all(self, stretch: Stretch, stop: int) -> Iterator[Record]:
        for offset in range(stretch.start, stop):
            yield offset, 0, b"same"


def test_a_topic_that_is_full_of_one_record_is_not_comparable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digests, "RECORDS_MAX", 5_000)
    where = "t-0 on a is not comparable: after offset 7 the same records, timestamp included, are repeated too often"
    with pytest.raises(NotComparable, match=where):
        Endless({}).chunks(Stretch("a", "t", 0, 7, 1_000, 10**9, False))


def test_of_many_originals_one_is_enough() -> None:
    """The results of a search are no more than what is searched for."""
    stretch = Stretch("a", "t", 0, 0, 1_000, 1_000, True)
    (last,) = Endless({}).entries(stretch)[-1:]
    assert Endless({}).entries_with(frozenset({last.digest}), stretch) == [last]


def test_where_a_log_begins_now(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task asks for it, so what it needs travels to it."""
    digester: Digester = pickle.loads(pickle.dumps(Digester({"a": Cluster("a", {}, {}, {})})))
    stretch = Stretch("a", "t", 3, 0, 10, 10, True)

    def watermarks(partition: Any, timeout: float) -> tuple[int, int]:
        assert (partition.topic, partition.partition) == ("t", 3) and timeout > 0
        return 7, 10

    monkeypatch.setattr(digests, "_consumer", lambda *_: SimpleNamespace(get_watermark_offsets=watermarks))
    assert digester.start(stretch) == 7

    def failing(*_: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))

    monkeypatch.setattr(digests, "_consumer", lambda *_: SimpleNamespace(get_watermark_offsets=failing))
    with pytest.raises(MirrorError, match="t-3 on a can't be read: "):
        digester.start(stretch)
