"""`mirror verify`: compares source and target record by record, up to the committed positions.

Both sides are read in chunks, and the chunks' digests are compared: a record's digest decides whether it ends a chunk
(see digests.py). Only where chunks differ are records compared one by one. Partitions are compared in groups, so that
memory holds the chunks of one group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from mirror.commands.verify.digests import Chunk, Digester, RecordDigest
from mirror.commands.verify.jobs import ROUNDS, Jobs, Log, Runner, log_of
from mirror.commands.verify.partition_comparison import Comparison, ComparisonResult, not_compared
from mirror.commands.verify.ranges import PartitionRanges, Side
from mirror.kafka import cluster
from mirror.model import Partition

A = TypeVar("A")
B = TypeVar("B")
Progress = Callable[[int, int], None]  # gets the number of offsets that were read, and of all

STRETCH_MIN, STRETCH_MAX = 50_000, 1_000_000  # offsets read by one task
TASKS_PER_SLOT = 4
GROUP_OFFSETS = 250_000_000  # most offsets of a group, but for a larger partition; a chunk has 1,024 records or so
GROUP_PARTITIONS = 100  # most partitions of a group
# Most records of a group that are compared one by one, less what was found to differ before; more are only counted.
DETAIL_MAX = 500_000
# But each partition may have so many: ranges begin and end within chunks, so that a right copy has some there.
DETAIL_MIN = 20_000


class InProcess:
    """A Runner for small amounts, in this thread."""

    slots = 1

    def map(self, function: Callable[[A], B], items: Sequence[A], progress: Callable[[int], None]) -> list[B]:
        """Run one item after the other."""
        results = []
        for item in items:
            results.append(function(item))
            progress(len(results))
        return results


def verify(
    everything: Sequence[PartitionRanges], digester: Digester, runner: Runner, report: Progress
) -> list[ComparisonResult]:
    """Compare partitions within their ranges. Raises MirrorError if the runner fails.

    A partition that can't be read is not compared, and its result says why. If one partition of a topic is not
    comparable, none is.
    """
    jobs = Jobs(runner, digester)
    results: list[ComparisonResult] = []
    total, before = sum(map(_offsets, everything)), 0
    for group in cluster.chunks(everything, GROUP_OFFSETS, _size):
        left = DETAIL_MAX - sum(len(result.differences) for result in results)
        size = sum(map(_offsets, group))
        results += _Group(group, jobs, partial(_report, report, before, size, total)).results(left)
        before += size
    return [not_compared(each.ranges, why) if (why := jobs.reason(each.ranges)) else each for each in results]


def _report(report: Progress, before: int, size: int, total: int, share: float) -> None:
    report(before + int(size * share), total)


def _offsets(ranges: PartitionRanges) -> int:
    return sum(max(0, side.end - side.start) for side in (ranges.source, ranges.target))


def _size(ranges: PartitionRanges) -> int:
    """What the partition takes of a group's offsets."""
    return max(_offsets(ranges), GROUP_OFFSETS // GROUP_PARTITIONS)


class _Group:
    """Compares some partitions in three jobs. `report` gets the share of the offsets that were read."""

    def __init__(self, group: Sequence[PartitionRanges], jobs: Jobs, report: Callable[[float], None]) -> None:
        self._group, self._jobs, self._report = group, jobs, report
        shares = jobs.runner.slots * TASKS_PER_SLOT
        self._most = min(STRETCH_MAX, max(STRETCH_MIN, sum(map(_offsets, group)) // shares))

    def results(self, detail: int) -> list[ComparisonResult]:
        """The results, in the order of the partitions. About `detail` records are compared one by one."""
        chunks = self._read()
        compared: dict[Partition, Comparison] = {}
        pending = self._group
        for _ in range(ROUNDS):
            made = self._comparisons(pending, chunks, detail)
            pending = self._compare_entries(made)
            compared |= {each.ranges.place: each for each in made}
            if not pending:
                break
        for ranges in pending:
            self._jobs.give_up(ranges.source if log_of(ranges.source) in self._jobs.starts else ranges.target)
        known = [each for each in compared.values() if not self._jobs.reason(each.ranges)]
        originals = self._originals(known)
        found = {each.ranges.place: each.result(originals[log_of(each.ranges.source)]) for each in known}
        reasons = [self._jobs.reason(ranges) for ranges in self._group]
        return [
            not_compared(ranges, reason) if reason else found[ranges.place]
            for ranges, reason in zip(self._group, reasons, strict=True)
        ]

    def _read(self) -> dict[Log, list[Chunk]]:
        """The chunks of each log, ascending."""
        readable = [ranges for ranges in self._group if not self._jobs.reason(ranges)]
        sides = [side for ranges in readable for side in (ranges.source, ranges.target)]
        stretches = [stretch for side in sides for stretch in side.split(self._most)]
        found: defaultdict[Log, list[Chunk]] = defaultdict(list)

        def report(done: int) -> None:
            self._report(min(1.0, done / len(stretches)))

        for stretch, some in self._jobs.map_to_the_end(self._jobs.digester.chunks, stretches, report):
            found[log_of(stretch)] += some
        for log in found.keys() & self._jobs.starts.keys():  # what was read again comes last, and may be there twice
            found[log] = sorted({chunk.start: chunk for chunk in found[log]}.values())
        return found

    def _comparisons(
        self, partitions: Iterable[PartitionRanges], chunks: Mapping[Log, list[Chunk]], detail: int
    ) -> list[Comparison]:
        """A comparison of the chunks of each partition that can be compared."""
        made = []
        for ranges in partitions:
            if self._jobs.reason(ranges):
                continue
            source, here = self._now(ranges.source, chunks.get(log_of(ranges.source), []))
            target, there = self._now(ranges.target, chunks.get(log_of(ranges.target), []))
            made.append(Comparison(replace(ranges, source=source, target=target), here, there, max(detail, DETAIL_MIN)))
            detail -= made[-1].detailed
        return made

    def _now(self, side: Side, chunks: Sequence[Chunk]) -> tuple[Side, Sequence[Chunk]]:
        """The range and its chunks, without what the log has lost since the range was selected."""
        start = self._jobs.starts.get(log_of(side), side.start)
        if start <= side.start:
            return side, chunks
        left = [chunk for chunk in chunks if chunk.start >= start]
        return replace(side, start=left[0].start if left else start), left

    def _compare_entries(self, comparisons: Sequence[Comparison]) -> list[PartitionRanges]:
        """Compare records where chunks differ. Returns the partitions whose logs were shortened meanwhile."""
        stretches = [stretch for each in comparisons for stretch in each.differing]
        found = iter(self._jobs.map(self._jobs.digester.entries, stretches, lambda _: self._report(1.0)))
        shortened = []
        for each in comparisons:
            entries = [some for _ in each.differing if (some := next(found)) is not None]
            if len(entries) == len(each.differing):
                each.compare_entries(entries)
            elif not self._jobs.reason(each.ranges):
                shortened.append(each.ranges)
        return shortened

    def _originals(self, comparisons: Sequence[Comparison]) -> Mapping[Log, list[list[RecordDigest]]]:
        """The source's records that the target may have twice, by log."""
        doubtful = [each for each in comparisons if each.wanted]
        wanted = frozenset(digest for each in doubtful for digest in each.wanted)
        stretches = [stretch for each in doubtful for stretch in each.ranges.source.split(self._most)]
        found: defaultdict[Log, list[list[RecordDigest]]] = defaultdict(list)
        search = partial(self._jobs.digester.entries_with, wanted)
        for stretch, some in self._jobs.map_to_the_end(search, stretches, lambda _: self._report(1.0)):
            found[log_of(stretch)].append(some)
        return found
