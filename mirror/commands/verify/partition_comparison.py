"""Compares one partition: first its chunks, then the records of chunks that differ. Pure: verify.py reads them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import Any

from mirror.commands.verify import beginning
from mirror.commands.verify.beginning import Hidden, Outside, records
from mirror.commands.verify.differences import Counts, Difference, Unmatched, gaps, judge, reordered, unmatched
from mirror.commands.verify.digests import Chunk, RecordDigest, Stretch
from mirror.commands.verify.ranges import PartitionRanges, Side

COPY_MIN = 100  # records in a chunk that does not occur twice by chance

Pair = tuple[Sequence[Chunk], Sequence[Chunk]]


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """The result of one partition's comparison."""

    ranges: PartitionRanges
    counts: Counts
    compared: int  # records that are the same on both sides
    in_flight: int  # records not yet copied when the comparison began
    unseen: int  # differing records that were only counted, since there are too many
    aligned: bool  # False if nothing says which records of both sides belong together
    outside: tuple[Outside, ...]  # records that can't be compared, because only one of the logs has them
    differences: tuple[Difference, ...]
    reason: str = ""  # why the topic is not comparable; "" if it was compared

    @property
    def equal(self) -> bool:
        """True if both sides are the same where both have records."""
        return self.aligned and self.counts.equal and not self.reason

    @property
    def gone_source(self) -> int:
        """Number of target records that can't be compared, since the source no longer has them."""
        return sum(each.records for each in self.outside if each.side is self.ranges.target)

    @property
    def gone_target(self) -> int:
        """Number of source records that can't be compared: the target no longer has them, or `start` left them out."""
        return sum(each.records for each in self.outside if each.side is self.ranges.source)

    def as_dict(self, shown: int) -> dict[str, Any]:
        """The result as it is printed with --json, with at most `shown` differences."""
        numbers = ("compared", "gone_source", "gone_target", "in_flight", "unseen", "aligned", "equal")
        return {
            "topic": self.ranges.source.topic,
            "partition": self.ranges.source.partition,
            "remote_topic": self.ranges.target.topic,
            "position": self.ranges.position,
            **asdict(self.counts),
            **{name: getattr(self, name) for name in numbers},
            "reason": self.reason or None,
            "not_comparable": [
                {
                    "cluster": each.side.cluster,
                    "topic": each.side.topic,
                    "partition": each.side.partition,
                    "first_offset": each.first,
                    "last_offset": each.last,
                    "records": each.records,
                }
                for each in self.outside
            ],
            "differences": [each._asdict() for each in self.differences[:shown]],
        }


def not_compared(ranges: PartitionRanges, reason: str) -> ComparisonResult:
    """The result of a partition whose topic is not comparable."""
    return ComparisonResult(ranges, Counts(), 0, 0, 0, False, (), (), reason)


class Comparison:
    """Compares one partition: its chunks at once, then the entries of the stretches `differing`, then `result`.

    At most `most` records are compared one by one; `detailed` says how many.
    """

    def __init__(self, ranges: PartitionRanges, source: Sequence[Chunk], target: Sequence[Chunk], most: int) -> None:
        self.ranges = ranges
        self._source, self._target = source, target
        self._in_flight = self._unseen = 0
        self._aligned = True
        self._outside: list[Outside] = []
        self._differences: list[Difference] = []
        self._left: list[Unmatched] = []
        floating = ranges.source_may_lack or ranges.target_may_lack
        here, there = _digests(ranges.source, source), _digests(ranges.target, target)
        fixed = [(x, y) for x, y in _pairs(ranges, source, target) if here[x] == there[y]]
        found = list(gaps(here, there, fixed, floating, ranges.ends_meet))
        differ = {index for gap in found for index in range(gap.a_from, gap.a_to)}
        same = [chunk for index, chunk in enumerate(source) if index not in differ]
        self._compared = records(same)
        self._newest = (
            same[-1].last if same else -1
        )  # offset of the last source record that is known to be on the target
        self._ends_meet = ranges.ends_meet or bool(same)
        pairs: list[Pair] = [(source[gap.a_from : gap.a_to], target[gap.b_from : gap.b_to]) for gap in found]
        self._hidden = Hidden((), ())
        self._floating = floating and bool(found) and (found[0].a_from, found[0].b_from) == (0, 0)
        if self._floating:
            pairs[0], copies = self._without_hidden(*pairs[0])
            pairs += copies
        near, self._beyond = self._within_limits(pairs, most)
        self.detailed = sum(records(here) + records(there) for here, there in near)
        sides = (ranges.source, ranges.target)
        self.differing = [_stretch(side, chunks) for pair in near for side, chunks in zip(sides, pair, strict=True)]

    def compare_entries(self, entries: list[list[RecordDigest]]) -> None:
        """Find the records that only one side has. `entries` are those of the stretches `differing`, in their order."""
        found: list[Unmatched] = []
        pairs = list(zip(entries[::2], entries[1::2], strict=True))
        if self._floating:
            pairs[0] = self._common(*pairs[0])
        for source, target in pairs:
            here = list(unmatched(source, target, beginning.pairs(self.ranges, source, target)))
            only = {entry.offset for each in here for entry in each.source}
            same = [entry.offset for entry in source if entry.offset not in only]
            self._compared += len(same)
            self._newest = max([self._newest, *same[-1:]])
            found += here
        self._differences, self._left = reordered(found)

    @property
    def wanted(self) -> Iterable[bytes]:
        """Digests of target records without a counterpart. If the source has them anywhere, they are duplicates."""
        return {entry.digest for each in self._left for entry in each.target}

    def result(self, originals: list[list[RecordDigest]]) -> ComparisonResult:
        """The result. `originals` has the `wanted` records that the source has."""
        upstream = {entry.digest: entry.offset for some in originals for entry in some}
        judged = [*self._differences, *judge(self._left, upstream)]
        differences = [each for each in judged if not self._is_in_flight(each)]
        kinds = Counter(difference.kind for difference in differences) + self._beyond
        return ComparisonResult(
            ranges=self.ranges,
            counts=replace(Counts(records(self._source), records(self._target)), **kinds),
            compared=self._compared,
            in_flight=self._in_flight + len(judged) - len(differences),
            unseen=self._unseen,
            aligned=self._aligned,
            outside=tuple(self._outside),
            differences=tuple(differences),
        )

    def _is_in_flight(self, difference: Difference) -> bool:
        """True for a lost record that may still arrive: none does after a later one has arrived."""
        offset = difference.upstream
        return difference.kind == "lost" and offset is not None and offset >= max(self.ranges.position, self._newest)

    def _without_hidden(self, source: Sequence[Chunk], target: Sequence[Chunk]) -> tuple[Pair, list[Pair]]:
        """The first difference without its hidden chunks; hidden chunks that are copies of others have to be read."""
        here, there = beginning.hidden_chunks(self.ranges, source, target, self._ends_meet)
        known = {chunk.digest for chunk in self._source if chunk.records >= COPY_MIN} if there else set()
        runs = [(is_copy, list(run)) for is_copy, run in groupby(target[:there], lambda chunk: chunk.digest in known)]
        self._hidden = Hidden(source[:here], [chunk for is_copy, run in runs if not is_copy for chunk in run])
        return (source[here:], target[there:]), [((), run) for is_copy, run in runs if is_copy]

    def _within_limits(self, pairs: Sequence[Pair], most: int) -> tuple[list[Pair], Counter[str]]:
        """The differences to compare record by record, and for the rest counts by the numbers of records."""
        near: list[Pair] = []
        beyond, total = Counter[str](), 0
        for number, (source, target) in enumerate(pairs):
            here, there = records(source), records(target)
            total += here + there
            if total <= most:
                near.append((source, target))
                continue
            self._unseen += here + there
            surplus = max(0, here - there)
            in_flight = min(surplus, records(c for c in source if c.last >= max(self.ranges.position, self._newest)))
            self._in_flight += in_flight
            beyond.update(altered=min(here, there), lost=surplus - in_flight, extra=max(0, there - here))
            if number == 0 and self._floating:
                self._floating = False
                self._leave_out((), ())
        return near, +beyond

    def _common(
        self, source: list[RecordDigest], target: list[RecordDigest]
    ) -> tuple[list[RecordDigest], list[RecordDigest]]:
        """The entries of the first difference that both logs have; those before are left out."""
        begins = beginning.locate(self.ranges, source, target, self._hidden, self._ends_meet)
        if begins is None:
            return self._unaligned(source, target)
        kind = "extra" if self._hidden.target else "lost"
        self._beyond += Counter({kind: begins.foreign})
        self._leave_out(source[: begins.source], target[: begins.target])
        return source[begins.source :], target[begins.target :]

    def _unaligned(
        self, source: list[RecordDigest], target: list[RecordDigest]
    ) -> tuple[list[RecordDigest], list[RecordDigest]]:
        """Compare nothing, since nothing says what belongs together. Only records in flight are known."""
        copied = [entry for entry in source if entry.offset < self.ranges.position]
        self._leave_out(copied, target)
        self._aligned = not (copied and target)
        return source[len(copied) :], []

    def _leave_out(self, source: Sequence[RecordDigest], target: Sequence[RecordDigest]) -> None:
        self._outside += beginning.outside(self.ranges.source, self._hidden.source, source)
        self._outside += beginning.outside(self.ranges.target, self._hidden.target, target)


def _digests(side: Side, chunks: Sequence[Chunk]) -> list[bytes]:
    """The digests of chunks. The first chunk of a log that was cut may be incomplete, so it must equal no other."""
    found = [chunk.digest for chunk in chunks]
    return [side.cluster.encode(), *found[1:]] if side.start > 0 and found else found


def _pairs(ranges: PartitionRanges, source: Sequence[Chunk], target: Sequence[Chunk]) -> list[tuple[int, int]]:
    """The indexes of chunks that hold the two records of one offset sync."""
    found: list[tuple[int, int]] = []
    for sync in ranges.syncs:
        here, there = (
            bisect_right(chunks, offset, key=lambda chunk: chunk.start) - 1
            for chunks, offset in zip((source, target), sync, strict=True)
        )
        both = here >= 0 <= there and sync[0] <= source[here].last and sync[1] <= target[there].last
        if both and (not found or (here > found[-1][0] and there > found[-1][1])):
            found.append((here, there))
    return found


def _stretch(side: Side, chunks: Sequence[Chunk]) -> Stretch:
    start, end = (chunks[0].start, chunks[-1].last + 1) if chunks else (side.start, side.start)
    return Stretch(side.cluster, side.topic, side.partition, start, end, end, first=True)
