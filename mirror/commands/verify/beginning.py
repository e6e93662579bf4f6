"""Finds where the records begin that both logs of a partition still have, and what comes before them. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mirror.commands.verify.differences import gaps
from mirror.commands.verify.digests import Chunk, RecordDigest
from mirror.commands.verify.ranges import PartitionRanges, Side


class Outside(NamedTuple):
    """Records of one log that can't be compared: the other log no longer has them, or never had to."""

    side: Side
    first: int  # offset
    last: int  # offset
    records: int


class Hidden(NamedTuple):
    """Chunks at the beginning that are not read record by record; one of the lists is empty."""

    source: Sequence[Chunk]
    target: Sequence[Chunk]


class Beginning(NamedTuple):
    """How many entries come before those that both logs have, and how many hidden records must not be there."""

    source: int
    target: int
    foreign: int = 0


def outside(side: Side, hidden: Sequence[Chunk], entries: Sequence[RecordDigest]) -> list[Outside]:
    """The range of these chunks and entries as one item, or nothing if there are none."""
    spans = [*hidden, *map(_single, entries)]
    return [Outside(side, spans[0].start, spans[-1].last, records(spans))] if spans else []


def records(chunks: Iterable[Chunk]) -> int:
    """The number of records in all chunks."""
    return sum(chunk.records for chunk in chunks)


def hidden_chunks(
    ranges: PartitionRanges, source: Sequence[Chunk], target: Sequence[Chunk], aligned: bool
) -> tuple[int, int]:
    """How many chunks at the beginning of each side need no look inside: the other side has no record for them.

    The given chunks differ, and all after them belong together; if `aligned`, their ends do as well. The longer side
    keeps as many records as the other one has, those that must not be there, and one more chunk, since the log may
    begin within it.
    """
    here, there = records(source), records(target)
    if there > here and ranges.source_may_lack:
        return 0, _leading(target, here + foreign(ranges, target))
    if here > there and ranges.target_may_lack:
        in_flight = 0 if aligned else records(chunk for chunk in source if chunk.last >= ranges.position)
        return _leading(source, there + in_flight + lost(ranges, source)), 0
    return 0, 0


def _leading(chunks: Sequence[Chunk], keep: int) -> int:
    kept, index = 0, len(chunks)
    while index and kept < keep:
        index -= 1
        kept += chunks[index].records
    return max(0, index - 1) if keep else index


def locate(
    ranges: PartitionRanges,
    source: Sequence[RecordDigest],
    target: Sequence[RecordDigest],
    hidden: Hidden,
    aligned: bool,
) -> Beginning | None:
    """Find where the entries of the first difference begin to belong together; None if nothing says so.

    Entries are counted backwards from the first pair that is known to belong together: as many as both sides have are
    in both logs, equal or not. The other side need not have the rest, as far as the offsets allow that.
    """
    found = _left_over(ranges, source, target, aligned)
    if found is None:
        return None
    here, there = (max(0, count - min(found)) for count in found)
    if (there or hidden.target) and ranges.source_may_lack:
        over = foreign(ranges, [*hidden.target, *map(_single, target[:there])])
        return Beginning(0, max(0, there - over), max(0, over - there))
    if (here or hidden.source) and ranges.target_may_lack:
        over = lost(ranges, [*hidden.source, *map(_single, source[:here])])
        return Beginning(max(0, here - over), 0, max(0, over - here))
    return Beginning(0, 0)


def _left_over(
    ranges: PartitionRanges, source: Sequence[RecordDigest], target: Sequence[RecordDigest], aligned: bool
) -> tuple[int, int] | None:
    """How many entries on each side come before the first pair that belongs together."""
    fixed = pairs(ranges, source, target)
    a, b = [entry.digest for entry in source], [entry.digest for entry in target]
    if not aligned and not fixed:
        # The target may end with any of the records that are in flight.
        for end in range(_copied(ranges, source), len(a) + 1):
            both = min(end, len(b))
            may = (both == end or ranges.target_may_lack) and (both == len(b) or ranges.source_may_lack)
            if may and both and a[end - 1] == b[-1] and a[end - both : end] == b[-both:]:
                return end - both, len(b) - both
    gap = next(gaps(a, b, fixed, floating=True, ends_meet=aligned), None)
    if gap is None or gap.a_from or gap.b_from:
        return 0, 0
    if aligned or (gap.a_to, gap.b_to) != (len(a), len(b)):
        return gap.a_to, gap.b_to
    return None if a and b else (_copied(ranges, source), len(b))


def _copied(ranges: PartitionRanges, source: Sequence[RecordDigest]) -> int:
    """How many of these entries must have been copied when the comparison began."""
    return bisect_left(source, ranges.position, key=lambda entry: entry.offset)


def pairs(
    ranges: PartitionRanges, source: Sequence[RecordDigest], target: Sequence[RecordDigest]
) -> list[tuple[int, int]]:
    """The indexes of entries that belong together, by the offset syncs."""
    here = {entry.offset: index for index, entry in enumerate(source)}
    there = {entry.offset: index for index, entry in enumerate(target)}
    return [(here[u], there[d]) for u, d in ranges.syncs if u in here and d in there]


def foreign(ranges: PartitionRanges, left: Sequence[Chunk]) -> int:
    """How many of these target records, before the source's first one, the source can never have had."""
    syncs = [(d, u) for u, d in ranges.syncs]
    return _too_many(left, ranges.target.start, ranges.source.start, syncs, complete=True)


def lost(ranges: PartitionRanges, left: Sequence[Chunk]) -> int:
    """How many of these source records, before the target's first one, the target must have."""
    return _too_many(left, ranges.source.start, ranges.target.start, ranges.syncs, ranges.whole)


def _too_many(
    left: Sequence[Chunk], start: int, other_start: int, syncs: Iterable[tuple[int, int]], complete: bool
) -> int:
    """How many of these records can't have been before `other_start` in the other log.

    Each record has an offset of its own there, in the same order. So two offsets have at most as many records between
    them as their distance. `syncs` are pairs of offsets, here and there. If `complete`, the other log has also had all
    records before a sync.
    """
    total = records(left)
    most = max(0, total - other_start) if complete else 0
    for here, there in syncs:
        if there >= other_start:
            continue
        # The record of a sync that is gone here takes an offset there as well.
        since = total + 1 if here < start else records(chunk for chunk in left if chunk.start >= here)
        before = records(chunk for chunk in left if chunk.last < here) if complete else 0
        most = max(most, max(0, before - there) + max(0, since - (other_start - there)))
    return min(most, total)


def _single(entry: RecordDigest) -> Chunk:
    return Chunk(entry.offset, entry.offset, 1, entry.digest)
