"""`mirror verify`: compares source and target record by record, up to the committed positions.

Both sides are summed up chunk by chunk, where the records themselves say where a chunk ends (see scan.py). Only where
chunks differ the records are looked at one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Protocol, TypeVar

from mirror.bounds import Bounds, Side
from mirror.compare import Counts, Difference, Gap, Unmatched, gaps, judge, reordered, unmatched
from mirror.scan import Chunk, Entry, Scanner, Stretch

A = TypeVar("A")
B = TypeVar("B")
Tell = Callable[[str, int, int], None]  # what is done now, how much of it is done, and of how much

STRETCH_MIN, STRETCH_MAX = 50_000, 1_000_000  # offsets read by one task
TASKS_PER_SLOT = 4
DETAIL_MAX = 500_000  # records of a partition that are looked at one by one; of more only the number is told


class Runner(Protocol):
    """What runs a function over many items."""

    @property
    def slots(self) -> int:
        """How many at once."""

    def map(self, function: Callable[[A], B], items: Sequence[A], progress: Callable[[int], None]) -> list[B]:
        """`function` of each item, in their order; tells how many are done. Raises MirrorError."""


class InProcess:
    """A Runner for little."""

    slots = 1

    def map(self, function: Callable[[A], B], items: Sequence[A], progress: Callable[[int], None]) -> list[B]:
        """One after the other."""
        results = []
        for item in items:
            results.append(function(item))
            progress(len(results))
        return results


@dataclass(frozen=True, slots=True)
class Result:
    """What was found in one partition."""

    bounds: Bounds
    counts: Counts
    compared: int  # records that are the same on both sides
    gone_source: int  # records at the target's beginning that the source has no more: retention
    gone_target: int  # records at the source's beginning that the target has no more, or that `start` left out
    in_flight: int  # records not yet copied when the comparison began
    unseen: int  # of those that differ, records that were too many to be looked at one by one
    differences: tuple[Difference, ...]

    def as_dict(self, shown: int) -> dict[str, Any]:
        """For JSON, with at most so many differences."""
        numbers = ("compared", "gone_source", "gone_target", "in_flight", "unseen")
        return {
            "topic": self.bounds.source.topic,
            "partition": self.bounds.source.partition,
            "remote_topic": self.bounds.target.topic,
            "position": self.bounds.position,
            "equal": self.counts.equal,
            **asdict(self.counts),
            **{name: getattr(self, name) for name in numbers},
            "differences": [each._asdict() for each in self.differences[:shown]],
        }


def verify(everything: Sequence[Bounds], scanner: Scanner, runner: Runner, tell: Tell) -> list[Result]:
    """Compare partitions, each within its bounds, in three jobs. Raises MirrorError when records can't be read."""
    sides = [side for bounds in everything for side in (bounds.source, bounds.target)]
    total = sum(side.end - side.start for side in sides)
    most = min(STRETCH_MAX, max(STRETCH_MIN, total // (runner.slots * TASKS_PER_SLOT)))
    split = [list(side.split(most)) for side in sides]
    found = _map(runner, "reading", tell, scanner.chunks, split)
    chunks = [[chunk for some in each for chunk in some] for each in found]
    pairs = zip(everything, chunks[::2], chunks[1::2], strict=True)
    comparisons = [_Comparison(bounds, source, target) for bounds, source, target in pairs]
    for comparison, entries in zip(
        comparisons,
        _map(runner, "comparing", tell, scanner.entries, [each.closer for each in comparisons]),
        strict=True,
    ):
        comparison.look(entries)
    wanted = frozenset(digest for comparison in comparisons for digest in comparison.wanted)
    where = [some if each.wanted else [] for each, some in zip(comparisons, split[::2], strict=True)]
    originals = _map(runner, "searching", tell, partial(scanner.find, wanted), where)
    return [each.result(some) for each, some in zip(comparisons, originals, strict=True)]


def _map(
    runner: Runner, what: str, tell: Tell, function: Callable[[A], B], items: Sequence[Sequence[A]]
) -> list[list[B]]:
    """`function` of each item, in one job; the results are grouped as the items are."""
    flat = [item for some in items for item in some]
    results = iter(runner.map(function, flat, lambda done: tell(what, done, len(flat))))
    return [[next(results) for _ in some] for some in items]


Pair = tuple[list[Chunk], list[Chunk]]


class _Comparison:
    """Of one partition, whose chunks are known; then `look` at what is in the stretches `closer`."""

    def __init__(self, bounds: Bounds, source: list[Chunk], target: list[Chunk]) -> None:
        self._bounds = bounds
        self._source, self._target = source, target
        self._gone_source = self._gone_target = self._in_flight = self._unseen = 0
        found = list(gaps([c.digest for c in source], [c.digest for c in target]))
        self._at_start = bool(found) and (found[0].a_from, found[0].b_from) == (0, 0)
        self._compared = _records(source) - sum(_records(source[gap.a_from : gap.a_to]) for gap in found)
        near, self._beyond = self._within_limits([self._trimmed(gap) for gap in found])
        sides = (bounds.source, bounds.target)
        self.closer = [_stretch(side, chunks) for pair in near for side, chunks in zip(sides, pair, strict=True)]
        self._differences: list[Difference] = []
        self._left: list[Unmatched] = []

    def look(self, entries: list[list[Entry]]) -> None:
        """Find what is on one side only, without what may be."""
        found: list[Unmatched] = []
        for number, (source, target) in enumerate(zip(entries[::2], entries[1::2], strict=True)):
            here = list(unmatched(source, target))
            self._compared += len(source) - sum(len(each.source) for each in here)
            if number == 0 and self._at_start and here and _is_beginning(here[0], source, target):
                here[0] = self._without_gone(here[0])
            found += map(self._without_in_flight, here)
        self._differences, self._left = reordered([each for each in found if each.source or each.target])

    @property
    def wanted(self) -> Iterable[bytes]:
        """Digests of what the target has once too often: is it anywhere on the source?"""
        return {entry.digest for each in self._left for entry in each.target}

    def result(self, originals: list[list[Entry]]) -> Result:
        """Given where the `wanted` records are on the source."""
        upstream = {entry.digest: entry.offset for some in originals for entry in some}
        differences = [*self._differences, *judge(self._left, upstream)]
        kinds = Counter(difference.kind for difference in differences) + self._beyond
        return Result(
            bounds=self._bounds,
            counts=replace(Counts(_records(self._source), _records(self._target)), **kinds),
            compared=self._compared,
            gone_source=self._gone_source,
            gone_target=self._gone_target,
            in_flight=self._in_flight,
            unseen=self._unseen,
            differences=tuple(differences),
        )

    @property
    def _source_may_lack(self) -> bool:
        """May the target begin with records that the source does not have?"""
        return self._bounds.source.start > 0

    @property
    def _target_may_lack(self) -> bool:
        return self._bounds.target.start > 0 or not self._bounds.whole

    def _trimmed(self, gap: Gap) -> Pair:
        """The gap's chunks. Of a beginning that only one side has, what can't overlap is only counted."""
        source, target = self._source[gap.a_from : gap.a_to], self._target[gap.b_from : gap.b_to]
        if (gap.a_from, gap.b_from) == (0, 0):
            # The first chunk of who lacks something is the end of a chunk of the other, and the next ones are equal.
            if self._source_may_lack and (surplus := len(target) - len(source) - 1) > 0:
                self._gone_source += _records(target[:surplus])
                target = target[surplus:]
            elif self._target_may_lack and (surplus := len(source) - len(target) - 1) > 0:
                self._gone_target += _records(source[:surplus])
                source = source[surplus:]
        return source, target

    def _within_limits(self, pairs: list[Pair]) -> tuple[list[Pair], Counter[str]]:
        """What can be looked at record by record, and what the number of records says of the rest."""
        near: list[Pair] = []
        beyond, total = Counter[str](), 0
        for source, target in pairs:
            here, there = _records(source), _records(target)
            total += here + there
            if total <= DETAIL_MAX:
                near.append((source, target))
            else:
                self._unseen += here + there
                surplus = max(0, here - there)
                in_flight = min(surplus, _records(c for c in source if c.last >= self._bounds.position))
                self._in_flight += in_flight
                beyond.update(altered=min(here, there), lost=surplus - in_flight, extra=max(0, there - here))
        return near, +beyond

    def _without_gone(self, beginning: Unmatched) -> Unmatched:
        source, target = beginning
        if not self._compared and source and target:
            return beginning  # nothing in common at all: nothing says that these are not the same offsets
        if target and self._source_may_lack:
            self._gone_source += len(target)
            target = []
        if source and self._target_may_lack:
            self._gone_target += len(source)
            source = []
        return Unmatched(source, target)

    def _without_in_flight(self, each: Unmatched) -> Unmatched:
        source = [entry for entry in each.source if entry.offset < self._bounds.position]
        self._in_flight += len(each.source) - len(source)
        return Unmatched(source, each.target)


def _records(chunks: Iterable[Chunk]) -> int:
    return sum(chunk.records for chunk in chunks)


def _stretch(side: Side, chunks: list[Chunk]) -> Stretch:
    start, end = (chunks[0].start, chunks[-1].last + 1) if chunks else (side.start, side.start)
    return Stretch(side.cluster, side.topic, side.partition, start, end, end, first=True)


def _is_beginning(first: Unmatched, source: list[Entry], target: list[Entry]) -> bool:
    """Does the first difference come before anything that is the same?"""
    return all(some[:1] == whole[:1] for some, whole in zip(first, (source, target), strict=True) if some)
