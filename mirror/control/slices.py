"""How the partitions of a flow are dealt to slices. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from mirror.model import Partition

Slice = frozenset[Partition]


def slice_count(slots: int, tasks_max: int | None, partitions: int, current: int) -> int:
    """How many slices to run on `slots` free cores.

    A change of the count ends the Spark epoch and interrupts every partition. So while the cores stay the same, the
    `current` count (0 if none runs) is kept unless it could at least double.
    """
    most = max(1, min(slots, tasks_max or slots))
    wanted = min(most, max(partitions, 2))
    if current and current <= most and wanted < 2 * current:
        return current
    return wanted


def assign(
    partitions: Iterable[Partition],
    count: int,
    previous: tuple[Slice, ...],
    weight: Mapping[Partition, float],
) -> tuple[Slice, ...]:
    """Assign `partitions` to `count` slices. A partition stays in its slice (KIP-429); new ones go to the lightest.

    `weight` has the bytes per second of partitions where known. Every partition weighs something, so that idle ones are
    spread, too. If the count has changed, all partitions are assigned anew, the heaviest first.
    """
    wanted = set(partitions)
    slices: list[set[Partition]] = [set() for _ in range(count)]
    if len(previous) == count:
        slices = [set(s & wanted) for s in previous]
    known = [w for w in weight.values() if w > 0]
    floor = sum(known) / len(known) / 10 if known else 1.0

    def load(partition: Partition) -> float:
        return max(weight.get(partition, 0.0), floor)

    loads = [sum(map(load, s)) for s in slices]
    for partition in sorted(wanted.difference(*slices), key=lambda p: (-load(p), p)):
        lightest = min(range(count), key=lambda i: (loads[i], i))
        slices[lightest].add(partition)
        loads[lightest] += load(partition)
    return tuple(map(frozenset, slices))
