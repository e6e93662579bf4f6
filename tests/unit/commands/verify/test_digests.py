"""Chunks: the same records make the same ones, wherever reading begins and however it is shared out."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from mirror.commands.verify.digests import BOUNDARY, Chunk, cut

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
