"""How the partitions of a flow are dealt to slices. Pure, but for what a Dealer remembers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from mirror.model import Partition, Topic

Slice = frozenset[Partition]


@dataclass(frozen=True, slots=True)
class Capacity:
    """What Spark can run for a flow now."""

    slots: int  # the flow's share of the tasks that can run at once
    vacant: frozenset[int] = frozenset()  # the slices that have no task, since no slot is free for one
    gives_way: bool = False  # True if the flow has more than its share, while another flow has nothing


def slice_count(slots: int, tasks_max: int | None, partitions: int, current: int) -> int:
    """How many slices to run on `slots` free cores.

    A change of the count ends the Spark epoch and interrupts every partition. So while there are no more cores than
    before, the `current` count (0 if none runs) is kept unless it could at least double.
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
    vacant: Collection[int] = (),
) -> tuple[Slice, ...]:
    """Assign `partitions` to `count` slices. A partition stays in its slice (KIP-429); new ones go to the lightest.

    `weight` has the bytes per second of partitions where known. If the count has changed, all partitions are assigned
    anew, the heaviest first. `vacant` slices, which are not all, get no new ones.
    """
    wanted = set(partitions)
    slices: list[set[Partition]] = [set() for _ in range(count)]
    if len(previous) == count:
        slices = [set(s & wanted) for s in previous]
    load = _load(weight)
    loads = [sum(map(load, s)) for s in slices]
    able = [index for index in range(count) if index not in vacant]
    for partition in sorted(wanted.difference(*slices), key=lambda p: (-load(p), p)):
        lightest = min(able, key=lambda i: (loads[i], i))
        slices[lightest].add(partition)
        loads[lightest] += load(partition)
    return tuple(map(frozenset, slices))


def _load(weight: Mapping[Partition, float]) -> Callable[[Partition], float]:
    """What a partition counts. A new one counts as the average of the busy ones. Idle ones count a tenth of that.

    So idle ones are spread, too: they may wake.
    """
    busy = [rate for rate in weight.values() if rate > 0]
    average = sum(busy) / len(busy) if busy else 1.0
    return lambda partition: max(weight.get(partition, average), average / 10)


def _none_empty(slices: tuple[Slice, ...], weight: Mapping[Partition, float]) -> tuple[Slice, ...]:
    """Let a slice without partitions, as when its topics were deleted, take one from the slice with the most to do.

    A slice with only one keeps it. Without this, the task of the empty slice would do nothing until topics come.
    """
    if all(slices):
        return slices
    load, dealt = _load(weight), list(map(set, slices))
    for empty in (each for each in dealt if not each):
        most = max(dealt, key=lambda each: (len(each) > 1, sum(map(load, each))))
        if len(most) > 1:
            heaviest = max(most, key=lambda partition: (load(partition), partition))
            most.remove(heaviest)
            empty.add(heaviest)
    return tuple(map(frozenset, dealt))


def lend(
    homes: tuple[Slice, ...], vacant: Collection[int], previous: tuple[Slice, ...], weight: Mapping[Partition, float]
) -> tuple[Slice, ...]:
    """Give the partitions of `vacant` slices to the others. No other partition moves.

    A partition stays with the slice that has it in the `previous` plan. If all slices are vacant, nothing moves.
    """
    if not vacant or len(vacant) >= len(homes) or len(previous) != len(homes):
        return homes
    lent = frozenset[Partition]().union(*(homes[index] for index in vacant))
    kept = tuple(
        frozenset() if index in vacant else home | (had & lent)
        for index, (home, had) in enumerate(zip(homes, previous, strict=True))
    )
    return assign(frozenset().union(*homes), len(homes), kept, weight, vacant)


class Dealer:
    """Deals a flow's partitions to slices. It remembers which slice has each partition when all slices have tasks."""

    def __init__(self) -> None:
        self._slots = 0  # the most that there have been since the number of slices was chosen
        self._tasks_max: int | None = None  # at the last deal
        self._homes: tuple[Slice, ...] = ()
        self.restarts = 0  # how often all tasks had to end: see Plan

    def deal(
        self,
        topics: Mapping[str, Topic],
        capacity: Capacity,
        tasks_max: int | None,
        previous: tuple[Slice, ...],
        runs: bool,
        weight: Mapping[Partition, float],
    ) -> tuple[Slice, ...]:
        """The slices of the next plan. `runs` says whether our own tasks run by the `previous` one.

        Fewer slots do not change the number of slices: that would interrupt the tasks that still run.
        """
        if not runs:  # what an earlier service had lent must not stay so
            self._homes = previous if all(previous) else ()
        keeps = runs and capacity.slots <= self._slots and not capacity.gives_way
        if not keeps:
            self._slots = capacity.slots
        partitions = [Partition(name, number) for name, topic in topics.items() for number in range(topic.partitions)]
        weight = {each: weight[each] for each in partitions if each in weight}  # without those of topics that are gone
        counts_anew = not keeps or tasks_max != self._tasks_max  # somebody wants another number, and means it
        self._tasks_max = tasks_max
        count = slice_count(self._slots, tasks_max, len(partitions), 0 if counts_anew else len(self._homes))
        self.restarts += not runs or count != len(self._homes)
        self._homes = _none_empty(assign(partitions, count, self._homes, weight), weight)
        return lend(self._homes, capacity.vacant, previous, weight) if runs else self._homes
