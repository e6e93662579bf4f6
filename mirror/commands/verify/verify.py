"""`mirror verify`: compares source and target record by record, up to the committed positions.

Both sides are read in chunks, and the chunks' digests are compared: a record's digest decides whether it ends a chunk
(see digests.py). Only where chunks differ are records compared one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from mirror.commands.verify.digests import Digester
from mirror.commands.verify.partition_comparison import Comparison, ComparisonResult, not_compared
from mirror.commands.verify.ranges import PartitionRanges
from mirror.errors import NotComparable

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


class _NotComparable(NamedTuple):
    """Why an item of a topic gives no result."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Jobs:
    """Runs jobs, and remembers the topics that are not comparable. Those get no results from then on."""

    runner: Runner
    report: Progress
    reasons: dict[str, str] = field(default_factory=dict)  # by source topic

    def map(self, what: str, function: Callable[[A], B], items: Sequence[tuple[str, Sequence[A]]]) -> list[list[B]]:
        """Run `function` over all items in one job. Each list of items has its topic; the results are grouped alike."""
        flat = [item for _, some in items for item in some]
        told = partial(_told, function)
        results = iter(self.runner.map(told, flat, lambda done: self.report(what, done, len(flat))))
        found: list[list[B]] = []
        for topic, some in items:
            group = [next(results) for _ in some]
            found.append([each for each in group if not isinstance(each, _NotComparable)])
            for each in group:
                if isinstance(each, _NotComparable):
                    self.reasons.setdefault(topic, each.reason)
        return [[] if topic in self.reasons else group for (topic, _), group in zip(items, found, strict=True)]


def _told(function: Callable[[A], B], item: A) -> B | _NotComparable:
    try:
        return function(item)
    except NotComparable as error:
        return _NotComparable(str(error))


def verify(
    everything: Sequence[PartitionRanges], digester: Digester, runner: Runner, report: Progress
) -> list[ComparisonResult]:
    """Compare partitions within their ranges, in three jobs. Raises MirrorError if records can't be read.

    If one partition of a topic is not comparable, none is, and their results say why.
    """
    jobs = _Jobs(runner, report)
    sides = [(ranges.source.topic, side) for ranges in everything for side in (ranges.source, ranges.target)]
    total = sum(side.end - side.start for _, side in sides)
    most = min(STRETCH_MAX, max(STRETCH_MIN, total // (runner.slots * TASKS_PER_SLOT)))
    split = [(topic, list(side.split(most))) for topic, side in sides]
    chunks = [[chunk for some in each for chunk in some] for each in jobs.map("reading", digester.chunks, split)]
    comparisons = [
        (ranges.source.topic, Comparison(ranges, source, target))
        for ranges, source, target in zip(everything, chunks[::2], chunks[1::2], strict=True)
    ]
    near = [(topic, [] if topic in jobs.reasons else each.differing) for topic, each in comparisons]
    for (topic, each), entries in zip(comparisons, jobs.map("comparing", digester.entries, near), strict=True):
        if topic not in jobs.reasons:
            each.compare_entries(entries)
    wanted = frozenset(digest for _, each in comparisons for digest in each.wanted)
    where = [
        (topic, some if each.wanted else []) for (topic, each), (_, some) in zip(comparisons, split[::2], strict=True)
    ]
    originals = jobs.map("searching", partial(digester.entries_with, wanted), where)
    return [
        not_compared(ranges, jobs.reasons[topic]) if topic in jobs.reasons else each.result(some)
        for ranges, (topic, each), some in zip(everything, comparisons, originals, strict=True)
    ]
