"""How much of each throttle one task has, so that all tasks together stay below it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mirror.model import Partition
from mirror.settings import Flow

OF_FLOW = ""  # the name of the flow's throttle; those of topics have the topic's name


@dataclass(frozen=True, slots=True)
class Share:
    """One task's part of a throttle."""

    limit: int  # the throttle, bytes per second
    rate: float  # the task's part of it, bytes per second; 0: it has no partition that the throttle is for


def shares(flow: Flow, slices: Sequence[Iterable[Partition]], index: int) -> dict[str, Share]:
    """The shares of the task of slice `index`, by the name of the throttle; empty without throttles.

    A task has as large a part of a throttle as it has of the partitions that the throttle is for. So the parts add up
    to the throttle.
    """
    limits = throttles(flow)
    if not limits:
        return {}
    counts = [_counts(each) for each in slices]
    found = {}
    for name, limit in limits.items():
        everything = sum(each.get(name, 0) for each in counts)
        found[name] = Share(limit, limit * counts[index].get(name, 0) / everything if everything else 0.0)
    return found


def throttles(flow: Flow) -> dict[str, int]:
    """The throttles that a flow has, bytes per second, by name."""
    own = {topic: entry.throttle for topic, entry in flow.topic_settings.items()}
    return {name: limit for name, limit in {OF_FLOW: flow.throttle, **own}.items() if limit is not None}


def _counts(partitions: Iterable[Partition]) -> Mapping[str, int]:
    """How many partitions each throttle is for, if there is one."""
    found = {OF_FLOW: 0}
    for partition in partitions:
        found[OF_FLOW] += 1
        found[partition.topic] = found.get(partition.topic, 0) + 1
    return found
