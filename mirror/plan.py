"""The plan: which slice copies which partitions. Pure; it travels as JSON on the control topic."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple


class Partition(NamedTuple):
    """A source topic partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class Topic:
    """A source topic that is mirrored, and its remote topic.

    `initial` counts the partitions that were there when the flow first ran: they begin at the flow's `start`.
    Those that come later begin at the earliest offset, whatever `start` says: nobody has seen their records.
    """

    remote: str
    topic_id: str  # KIP-516: tells a deleted and recreated topic from the first one
    partitions: int
    initial: int


Slice = frozenset[Partition]


@dataclass(frozen=True, slots=True)
class Plan:
    """What the leader wants. A newer plan has a higher generation, whoever leads."""

    leader: str
    generation: int
    topics: Mapping[str, Topic]
    slices: tuple[Slice, ...]
    stop: bool = False

    def encode(self) -> bytes:
        """JSON, compact: a plan of 10,000 partitions is about 50 kB."""
        return json.dumps(
            {
                "leader": self.leader,
                "generation": self.generation,
                "stop": self.stop,
                "topics": {name: [t.remote, t.topic_id, t.partitions, t.initial] for name, t in self.topics.items()},
                "slices": [_by_topic(s) for s in self.slices],
            },
            separators=(",", ":"),
        ).encode()

    @staticmethod
    def decode(value: bytes) -> Plan:
        """The plan that `encode` wrote, without what a newer mirror has added. Raises whatever fits if it is none."""
        raw = json.loads(value)
        return Plan(
            leader=raw["leader"],
            generation=int(raw["generation"]),
            topics={name: _topic(*fields) for name, fields in raw["topics"].items()},
            slices=tuple(
                frozenset(Partition(name, int(p)) for name, numbers in s.items() for p in numbers)
                for s in raw["slices"]
            ),
            stop=bool(raw.get("stop", False)),
        )

    def stopped(self) -> Plan:
        """The same plan with the order to finish."""
        return replace(self, stop=True)


def _topic(remote: str, topic_id: str, partitions: int, initial: int, *_added_later: object) -> Topic:
    return Topic(remote, topic_id, int(partitions), int(initial))


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        grouped.setdefault(topic, []).append(number)
    return grouped


def merge_initial(topics: Mapping[str, Topic], previous: Plan | None) -> dict[str, Topic]:
    """`topics` with `initial` carried over from the last plan; a flow's first plan takes them as they are.

    Not to a remote topic of another name, which has nothing yet: at `start: latest` it would begin with a gap.
    """
    if previous is None:
        return dict(topics)

    def initial(name: str, topic: Topic) -> int:
        before = previous.topics.get(name)
        same = before and (before.topic_id, before.remote) == (topic.topic_id, topic.remote)
        return before.initial if before and same else 0

    return {name: replace(topic, initial=initial(name, topic)) for name, topic in topics.items()}


def slice_count(slots: int, tasks_max: int | None, partitions: int, current: int) -> int:
    """How many slices to run on `slots` free cores.

    An epoch ends when the count changes, which pauses every partition. So with the same cores a running count
    (`current`, else 0) is kept unless it could at least double.
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
    """Deal `partitions` to `count` slices: who has one keeps it (KIP-429's idea), new ones go to the lightest.

    `weight` is bytes per second where known; a partition always weighs something, so that idle ones spread too.
    With another count than before, all are dealt anew, heaviest first.
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
