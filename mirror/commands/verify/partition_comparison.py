"""One partition compared: from the sums of its chunks to what differs. Pure; verify.py does the reading between."""

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
from mirror.commands.verify.digests import Chunk, Entry, Stretch
from mirror.commands.verify.ranges import Bounds, Side

DETAIL_MAX = 500_000  # records of a partition that are looked at one by one; of more only the number is told
COPY_MIN = 100  # records in a row that don't come twice by chance

Pair = tuple[Sequence[Chunk], Sequence[Chunk]]


@dataclass(frozen=True, slots=True)
class Result:
    """What was found in one partition."""

    bounds: Bounds
    counts: Counts
    compared: int  # records that are the same on both sides
    in_flight: int  # records not yet copied when the comparison began
    unseen: int  # of those that differ, records that were too many to be looked at one by one
    aligned: bool  # False: nothing says which records of one side belong to which of the other one
    outside: tuple[Outside, ...]  # what can't be compared, because only one of the logs still has it
    differences: tuple[Difference, ...]

    @property
    def equal(self) -> bool:
        """Is the target what the source is, where both have something?"""
        return self.aligned and self.counts.equal

    @property
    def gone_source(self) -> int:
        """Records of the target's log that can't be compared: the source has them no more."""
        return sum(each.records for each in self.outside if each.side is self.bounds.target)

    @property
    def gone_target(self) -> int:
        """Records of the source's log that can't be compared: the target has them no more, or `start` left them out."""
        return sum(each.records for each in self.outside if each.side is self.bounds.source)

    def as_dict(self, shown: int) -> dict[str, Any]:
        """For JSON, with at most so many differences."""
        numbers = ("compared", "gone_source", "gone_target", "in_flight", "unseen", "aligned", "equal")
        return {
            "topic": self.bounds.source.topic,
            "partition": self.bounds.source.partition,
            "remote_topic": self.bounds.target.topic,
            "position": self.bounds.position,
            **asdict(self.counts),
            **{name: getattr(self, name) for name in numbers},
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


class Comparison:
    """Of one partition, whose chunks are known; then `look` at what is in the stretches `closer`."""

    def __init__(self, bounds: Bounds, source: Sequence[Chunk], target: Sequence[Chunk]) -> None:
        self._bounds = bounds
        self._source, self._target = source, target
        self._in_flight = self._unseen = 0
        self._aligned = True
        self._outside: list[Outside] = []
        self._differences: list[Difference] = []
        self._left: list[Unmatched] = []
        floating = bounds.source_may_lack or bounds.target_may_lack
        here, there = _digests(bounds.source, source), _digests(bounds.target, target)
        fixed = [(x, y) for x, y in _pairs(bounds, source, target) if here[x] == there[y]]
        found = list(gaps(here, there, fixed, floating, bounds.settled))
        differ = {index for gap in found for index in range(gap.a_from, gap.a_to)}
        same = [chunk for index, chunk in enumerate(source) if index not in differ]
        self._compared = records(same)
        self._newest = same[-1].last if same else -1  # the last source record that is known to be on the target
        self._ends_meet = bounds.settled or bool(same)
        pairs: list[Pair] = [(source[gap.a_from : gap.a_to], target[gap.b_from : gap.b_to]) for gap in found]
        self._hidden = Hidden((), ())
        self._floating = floating and bool(found) and (found[0].a_from, found[0].b_from) == (0, 0)
        if self._floating:
            pairs[0], copies = self._without_hidden(*pairs[0])
            pairs += copies
        near, self._beyond = self._within_limits(pairs)
        sides = (bounds.source, bounds.target)
        self.closer = [_stretch(side, chunks) for pair in near for side, chunks in zip(sides, pair, strict=True)]

    def look(self, entries: list[list[Entry]]) -> None:
        """Find what is on one side only, without what may be."""
        found: list[Unmatched] = []
        pairs = list(zip(entries[::2], entries[1::2], strict=True))
        if self._floating:
            pairs[0] = self._common(*pairs[0])
        for source, target in pairs:
            here = list(unmatched(source, target, beginning.pairs(self._bounds, source, target)))
            only = {entry.offset for each in here for entry in each.source}
            same = [entry.offset for entry in source if entry.offset not in only]
            self._compared += len(same)
            self._newest = max([self._newest, *same[-1:]])
            found += here
        self._differences, self._left = reordered(found)

    @property
    def wanted(self) -> Iterable[bytes]:
        """Digests of what the target has once too often: is it anywhere on the source?"""
        return {entry.digest for each in self._left for entry in each.target}

    def result(self, originals: list[list[Entry]]) -> Result:
        """Given where the `wanted` records are on the source."""
        upstream = {entry.digest: entry.offset for some in originals for entry in some}
        judged = [*self._differences, *judge(self._left, upstream)]
        differences = [each for each in judged if not self._may_come(each)]
        kinds = Counter(difference.kind for difference in differences) + self._beyond
        return Result(
            bounds=self._bounds,
            counts=replace(Counts(records(self._source), records(self._target)), **kinds),
            compared=self._compared,
            in_flight=self._in_flight + len(judged) - len(differences),
            unseen=self._unseen,
            aligned=self._aligned,
            outside=tuple(self._outside),
            differences=tuple(differences),
        )

    def _may_come(self, difference: Difference) -> bool:
        """Is it a record that is on its way? None is once a later one has arrived."""
        offset = difference.upstream
        return difference.kind == "lost" and offset is not None and offset >= max(self._bounds.position, self._newest)

    def _without_hidden(self, source: Sequence[Chunk], target: Sequence[Chunk]) -> tuple[Pair, list[Pair]]:
        """The beginning without what the other side has nothing for; but what of that is a copy has to be looked at."""
        here, there = beginning.spare(self._bounds, source, target, self._ends_meet)
        known = {chunk.digest for chunk in self._source if chunk.records >= COPY_MIN} if there else set()
        runs = [(is_copy, list(run)) for is_copy, run in groupby(target[:there], lambda chunk: chunk.digest in known)]
        self._hidden = Hidden(source[:here], [chunk for is_copy, run in runs if not is_copy for chunk in run])
        return (source[here:], target[there:]), [((), run) for is_copy, run in runs if is_copy]

    def _within_limits(self, pairs: Sequence[Pair]) -> tuple[list[Pair], Counter[str]]:
        """What can be looked at record by record, and what the number of records says of the rest."""
        near: list[Pair] = []
        beyond, total = Counter[str](), 0
        for number, (source, target) in enumerate(pairs):
            here, there = records(source), records(target)
            total += here + there
            if total <= DETAIL_MAX:
                near.append((source, target))
                continue
            self._unseen += here + there
            surplus = max(0, here - there)
            in_flight = min(surplus, records(c for c in source if c.last >= max(self._bounds.position, self._newest)))
            self._in_flight += in_flight
            beyond.update(altered=min(here, there), lost=surplus - in_flight, extra=max(0, there - here))
            if number == 0 and self._floating:
                self._floating = False
                self._leave_out((), ())
        return near, +beyond

    def _common(self, source: list[Entry], target: list[Entry]) -> tuple[list[Entry], list[Entry]]:
        """The entries of the first difference from where both logs have them; what comes before is left out."""
        begins = beginning.find(self._bounds, source, target, self._hidden, self._ends_meet)
        if begins is None:
            return self._unaligned(source, target)
        kind = "extra" if self._hidden.target else "lost"
        self._beyond += Counter({kind: begins.foreign})
        self._leave_out(source[: begins.source], target[: begins.target])
        return source[begins.source :], target[begins.target :]

    def _unaligned(self, source: list[Entry], target: list[Entry]) -> tuple[list[Entry], list[Entry]]:
        """Nothing belongs together: compare nothing. Only what is on its way is known."""
        copied = [entry for entry in source if entry.offset < self._bounds.position]
        self._leave_out(copied, target)
        self._aligned = not (copied and target)
        return source[len(copied) :], []

    def _leave_out(self, source: Sequence[Entry], target: Sequence[Entry]) -> None:
        self._outside += beginning.outside(self._bounds.source, self._hidden.source, source)
        self._outside += beginning.outside(self._bounds.target, self._hidden.target, target)


def _digests(side: Side, chunks: Sequence[Chunk]) -> list[bytes]:
    """Of chunks. The first one of a log that was cut is the rest of a chunk, which may look like another whole one."""
    found = [chunk.digest for chunk in chunks]
    return [side.cluster.encode(), *found[1:]] if side.start > 0 and found else found


def _pairs(bounds: Bounds, source: Sequence[Chunk], target: Sequence[Chunk]) -> list[tuple[int, int]]:
    """Indexes of equal chunks that belong together, by the offset syncs."""
    found: list[tuple[int, int]] = []
    for sync in bounds.syncs:
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
