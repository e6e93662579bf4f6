"""`mirror verify`: compares source and target record by record, up to the committed positions.

Both sides are summed up chunk by chunk, where the records themselves say where a chunk ends (see scan.py). Only where
chunks differ the records are looked at one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol, TypeVar

from mirror.commands.verify.digests import Scanner
from mirror.commands.verify.partition_comparison import Comparison, Result
from mirror.commands.verify.ranges import Bounds

A = TypeVar("A")
B = TypeVar("B")
Tell = Callable[[str, int, int], None]  # what is done now, how much of it is done, and of how much

STRETCH_MIN, STRETCH_MAX = 50_000, 1_000_000  # offsets read by one task
TASKS_PER_SLOT = 4


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


def verify(everything: Sequence[Bounds], scanner: Scanner, runner: Runner, tell: Tell) -> list[Result]:
    """Compare partitions, each within its bounds, in three jobs. Raises MirrorError when records can't be read."""
    sides = [side for bounds in everything for side in (bounds.source, bounds.target)]
    total = sum(side.end - side.start for side in sides)
    most = min(STRETCH_MAX, max(STRETCH_MIN, total // (runner.slots * TASKS_PER_SLOT)))
    split = [list(side.split(most)) for side in sides]
    found = _map(runner, "reading", tell, scanner.chunks, split)
    chunks = [[chunk for some in each for chunk in some] for each in found]
    pairs = zip(everything, chunks[::2], chunks[1::2], strict=True)
    comparisons = [Comparison(bounds, source, target) for bounds, source, target in pairs]
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
