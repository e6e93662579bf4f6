"""Where the range begins that both logs of a partition still have, and what lies before it. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mirror.commands.verify.differences import gaps
from mirror.commands.verify.digests import Chunk, Entry
from mirror.commands.verify.ranges import Bounds, Side


class Outside(NamedTuple):
    """Records of one log that the other log does not have any more, or never had to have: nothing to compare with."""

    side: Side
    first: int  # offset
    last: int  # offset
    records: int


class Hidden(NamedTuple):
    """Chunks at the beginning that nobody looks into; one of the lists is empty."""

    source: Sequence[Chunk]
    target: Sequence[Chunk]


class Beginning(NamedTuple):
    """How many of the entries come before what both logs have, and how many hidden records must not be there."""

    source: int
    target: int
    foreign: int = 0


def outside(side: Side, hidden: Sequence[Chunk], entries: Sequence[Entry]) -> list[Outside]:
    """The one range that these make, if they are any."""
    spans = [*hidden, *map(_single, entries)]
    return [Outside(side, spans[0].start, spans[-1].last, records(spans))] if spans else []


def records(chunks: Iterable[Chunk]) -> int:
    """How many there are in all."""
    return sum(chunk.records for chunk in chunks)


def spare(bounds: Bounds, source: Sequence[Chunk], target: Sequence[Chunk], aligned: bool) -> tuple[int, int]:
    """How many chunks at the beginning nobody has to look into, for the other side has no record for them.

    These chunks differ, and all after them belong together (`aligned`: their ends as well). The longer side keeps as
    many records as the other one has, those that must not be there, and one chunk more: a log may begin within it.
    """
    here, there = records(source), records(target)
    if there > here and bounds.source_may_lack:
        return 0, _leading(target, here + foreign(bounds, target))
    if here > there and bounds.target_may_lack:
        in_flight = 0 if aligned else records(chunk for chunk in source if chunk.last >= bounds.position)
        return _leading(source, there + in_flight + lost(bounds, source)), 0
    return 0, 0


def _leading(chunks: Sequence[Chunk], keep: int) -> int:
    kept, index = 0, len(chunks)
    while index and kept < keep:
        index -= 1
        kept += chunks[index].records
    return max(0, index - 1) if keep else index


def find(
    bounds: Bounds, source: Sequence[Entry], target: Sequence[Entry], hidden: Hidden, aligned: bool
) -> Beginning | None:
    """Where the entries of the first difference begin to belong together; None: nothing says what belongs together.

    Before the first records that are known to belong together, as many on both sides are counted backwards: these are
    in both logs, equal or not. What is left over the other side need not have, as far as the offsets allow it.
    """
    found = _left_over(bounds, source, target, aligned)
    if found is None:
        return None
    here, there = (max(0, count - min(found)) for count in found)
    if (there or hidden.target) and bounds.source_may_lack:
        over = foreign(bounds, [*hidden.target, *map(_single, target[:there])])
        return Beginning(0, max(0, there - over), max(0, over - there))
    if (here or hidden.source) and bounds.target_may_lack:
        over = lost(bounds, [*hidden.source, *map(_single, source[:here])])
        return Beginning(max(0, here - over), 0, max(0, over - here))
    return Beginning(0, 0)


def _left_over(
    bounds: Bounds, source: Sequence[Entry], target: Sequence[Entry], aligned: bool
) -> tuple[int, int] | None:
    """How many entries on each side come before the first ones that belong together."""
    fixed = pairs(bounds, source, target)
    a, b = [entry.digest for entry in source], [entry.digest for entry in target]
    if not aligned and not fixed:
        # The target ends with any of the records that are on their way.
        for end in range(_copied(bounds, source), len(a) + 1):
            both = min(end, len(b))
            may = (both == end or bounds.target_may_lack) and (both == len(b) or bounds.source_may_lack)
            if may and both and a[end - 1] == b[-1] and a[end - both : end] == b[-both:]:
                return end - both, len(b) - both
    gap = next(gaps(a, b, fixed, floating=True, ends_meet=aligned), None)
    if gap is None or gap.a_from or gap.b_from:
        return 0, 0
    if aligned or (gap.a_to, gap.b_to) != (len(a), len(b)):
        return gap.a_to, gap.b_to
    return None if a and b else (_copied(bounds, source), len(b))


def _copied(bounds: Bounds, source: Sequence[Entry]) -> int:
    """How many of these must have been copied when the comparison began."""
    return bisect_left(source, bounds.position, key=lambda entry: entry.offset)


def pairs(bounds: Bounds, source: Sequence[Entry], target: Sequence[Entry]) -> list[tuple[int, int]]:
    """Indexes of entries that belong together, by the offset syncs."""
    here = {entry.offset: index for index, entry in enumerate(source)}
    there = {entry.offset: index for index, entry in enumerate(target)}
    return [(here[u], there[d]) for u, d in bounds.syncs if u in here and d in there]


def foreign(bounds: Bounds, left: Sequence[Chunk]) -> int:
    """How many of these target records, which the source lacks at its beginning, it can't have had before it."""
    syncs = [(d, u) for u, d in bounds.syncs]
    return _too_many(left, bounds.target.start, bounds.source.start, syncs, complete=True)


def lost(bounds: Bounds, left: Sequence[Chunk]) -> int:
    """How many of these source records, which the target lacks at its beginning, must be there."""
    return _too_many(left, bounds.source.start, bounds.target.start, bounds.syncs, bounds.whole)


def _too_many(
    left: Sequence[Chunk], start: int, other_start: int, syncs: Iterable[tuple[int, int]], complete: bool
) -> int:
    """How many of these records can't have stood before `other_start` in the other log.

    There each one has an offset of its own, in the same order: so between two offsets are no more records than their
    distance. `syncs` are offsets here and there; `complete`: all records before a sync have been there, too.
    """
    total = records(left)
    most = max(0, total - other_start) if complete else 0
    for here, there in syncs:
        if there >= other_start:
            continue
        # The record of a sync that is not here any more takes an offset there as well.
        since = total + 1 if here < start else records(chunk for chunk in left if chunk.start >= here)
        before = records(chunk for chunk in left if chunk.last < here) if complete else 0
        most = max(most, max(0, before - there) + max(0, since - (other_start - there)))
    return min(most, total)


def _single(entry: Entry) -> Chunk:
    return Chunk(entry.offset, entry.offset, 1, entry.digest)
