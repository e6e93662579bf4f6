"""`mirror verify`: compares source and target record by record, up to the committed positions.

Both sides are read in chunks, and the chunks' digests are compared: a record's digest decides whether it ends a chunk
(see digests.py). Only where chunks differ are records compared one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from mirror.commands.verify.digests import Digester
from mirror.commands.verify.partition_comparison import Comparison, ComparisonResult
from mirror.commands.verify.ranges import PartitionRanges

A = TypeVar("A")
B = TypeVar("B")
Progress = Callable[[str, int, int], None]  # gets the name of the present job, its finished items, and all its items

STRETCH_MIN, STRETCH_MAX = 50_000, 1_000_000  # offsets read by one task
TASKS_PER_SLOT = 4


class Runner(Protocol):
    """Runs a function over many items."""

    @property
    def slots(self) -> int:
        """How many items can run at once."""

    def map(self, function: Callable[[A], B], items: Sequence[A], progress: Callable[[int], None]) -> list[B]:
        """The results of `function`, in the order of the items. `progress` gets the number of finished ones.

        Raises MirrorError.
        """


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
    """Compare partitions within their ranges, in three jobs. Raises MirrorError if records can't be read."""
    sides = [side for ranges in everything for side in (ranges.source, ranges.target)]
    total = sum(side.end - side.start for side in sides)
    most = min(STRETCH_MAX, max(STRETCH_MIN, total // (runner.slots * TASKS_PER_SLOT)))
    split = [list(side.split(most)) for side in sides]
    found = _map(runner, "reading", report, digester.chunks, split)
    chunks = [[chunk for some in each for chunk in some] for each in found]
    pairs = zip(everything, chunks[::2], chunks[1::2], strict=True)
    comparisons = [Comparison(ranges, source, target) for ranges, source, target in pairs]
    for comparison, entries in zip(
        comparisons,
        _map(runner, "comparing", report, digester.entries, [each.differing for each in comparisons]),
        strict=True,
    ):
        comparison.compare_entries(entries)
    wanted = frozenset(digest for comparison in comparisons for digest in comparison.wanted)
    where = [some if each.wanted else [] for each, some in zip(comparisons, split[::2], strict=True)]
    originals = _map(runner, "searching", report, partial(digester.entries_with, wanted), where)
    return [each.result(some) for each, some in zip(comparisons, originals, strict=True)]


def _map(
    runner: Runner, what: str, report: Progress, function: Callable[[A], B], items: Sequence[Sequence[A]]
) -> list[list[B]]:
    """Run `function` over all items in one job. The results are grouped like the items."""
    flat = [item for some in items for item in some]
    results = iter(runner.map(function, flat, lambda done: report(what, done, len(flat))))
    return [[next(results) for _ in some] for some in items]
