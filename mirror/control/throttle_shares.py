"""How much of each throttle one task has, so that all tasks together stay below it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mirror.model import Partition
from mirror.settings import TopicSettings

OF_FLOW = ""  # the name of the flow's throttle; those of topics have the topic's name
LEAST = 0.1  # a task keeps at least this part of what it would have by its number of partitions
ROOM = 1.25  # a task that is not throttled keeps this many times what it copies
STEADY = 0.1  # a share that changes by less than this part of the throttle is no reason for another plan

Parts = tuple[float, ...]  # of a throttle, by slice; together at most 1


@dataclass(frozen=True, slots=True)
class Load:
    """What the partitions of a flow copy now, as far as known."""

    rates: Mapping[Partition, float] = field(default_factory=dict)  # bytes per second
    throttled: Collection[Partition] = ()  # partitions that would copy more without a throttle


@dataclass(frozen=True, slots=True)
class Share:
    """One task's part of a throttle."""

    limit: int  # the throttle, bytes per second
    rate: float  # the task's part of it, bytes per second; 0 if the throttle is for none of its partitions


def throttles(of_flow: int | None, topic_settings: Mapping[str, TopicSettings]) -> dict[str, int]:
    """The throttles of a flow and of its topics, bytes per second, by name."""
    own = {topic: entry.throttle for topic, entry in topic_settings.items()}
    return {name: limit for name, limit in {OF_FLOW: of_flow, **own}.items() if limit is not None}


def shares(
    limits: Mapping[str, int], slices: Sequence[Iterable[Partition]], parts: Mapping[str, Parts], index: int
) -> dict[str, Share]:
    """The shares of the task of slice `index`, by the name of the throttle; empty without throttles.

    A throttle without `parts` is divided by the number of partitions.
    """
    if not limits:
        return {}
    counted = _sums(slices, _one)
    known = {name: each for name, each in parts.items() if len(each) == len(slices)}
    return {
        name: Share(limit, limit * known.get(name, _by_count(counted.get(name, {}), len(slices)))[index])
        for name, limit in limits.items()
    }


def divided(
    limits: Mapping[str, int], slices: Sequence[Iterable[Partition]], load: Load, before: Mapping[str, Parts]
) -> dict[str, Parts]:
    """How to divide the throttles among several slices: a task lends what it does not use to those that are throttled.

    A task that is not throttled keeps what it copies and a quarter of that more; the throttled ones share the rest in
    proportion to their partitions. Parts that differ little from those `before` stay, so that not each look makes
    another plan. A throttle that is divided by the number of partitions is left out: there may be thousands.
    """
    if len(slices) < 2:
        return {}
    counts, rates = _sums(slices, _one), _sums(slices, lambda each: load.rates.get(each, 0.0))
    throttled = _sums(slices, lambda each: float(each in load.throttled))
    found = {}
    for name, limit in limits.items():
        equal = _by_count(counts.get(name, {}), len(slices))
        wants = [
            _wanted(part, throttled[name][index] > 0, rates[name][index] / limit) if part else 0.0
            for index, part in enumerate(equal)
        ]
        parts, known = _filled(equal, wants), before.get(name, equal)
        kept = known if _is_near(known, parts, equal) else parts
        if kept != equal:
            found[name] = kept
    return found


def _wanted(equal: float, is_throttled: bool, used: float) -> float:
    return 1.0 if is_throttled else max(LEAST * equal, ROOM * used)


def _filled(equal: Parts, wants: Sequence[float]) -> Parts:
    """Give each slice what it wants, but no more than its part of what the slices leave that want less.

    Parts are in proportion to `equal`. What is left in the end is divided among all in the same way.
    """
    found = [0.0] * len(equal)
    left, hungry = 1.0, {index for index, part in enumerate(equal) if part > 0}
    while hungry:
        each = left / sum(equal[index] for index in hungry)
        sated = {index for index in hungry if wants[index] <= each * equal[index]}
        if not sated:
            for index in hungry:
                found[index] = each * equal[index]
            return tuple(found)
        for index in sated:
            found[index] = wants[index]
        left -= sum(wants[index] for index in sated)
        hungry -= sated
    return tuple(part + left * more for part, more in zip(found, equal, strict=True))


def _is_near(known: Parts, parts: Parts, equal: Parts) -> bool:
    if len(known) != len(parts):
        return False
    kept = all(before >= LEAST * part and (part > 0) is (before > 0) for before, part in zip(known, equal, strict=True))
    return kept and all(abs(before - now) <= STEADY for before, now in zip(known, parts, strict=True))


def _by_count(counts: Mapping[int, float], slices: int) -> Parts:
    """In proportion to the partitions of each slice; all 0 if there are none."""
    everything = sum(counts.values())
    return tuple(counts.get(index, 0) / everything if everything else 0.0 for index in range(slices))


def _sums(slices: Sequence[Iterable[Partition]], amount: Callable[[Partition], float]) -> dict[str, dict[int, float]]:
    """The sum of what each partition amounts to, by the name of a throttle that may be for it, and by slice."""
    found: dict[str, dict[int, float]] = {}
    for index, each in enumerate(slices):
        for partition in each:
            added = amount(partition)
            for name in (OF_FLOW, partition.topic):
                by_slice = found.setdefault(name, {})
                by_slice[index] = by_slice.get(index, 0.0) + added
    return found


def _one(_: Partition) -> float:
    return 1.0
