"""The plan: which slice copies which partitions. Pure; it travels as JSON on the control topic."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from mirror import decode
from mirror.model import Partition, Topic

Slice = frozenset[Partition]
RENEW_INTERVAL = 24 * 3600.0  # seconds, where the target does not tell for how long it keeps positions

Origins = Mapping[str, tuple[str, ...]]  # ids of the clusters that each remote topic comes from, over any way


@dataclass(frozen=True, slots=True)
class Lineage:
    """Between which clusters a flow copies, and where its records come from: see circles.py. Empty: not known."""

    clusters: tuple[str, ...] = ()  # ids of source and target
    origins: Origins = field(default_factory=dict)

    def of(self, remotes: Collection[str]) -> Lineage:
        """The part about these remote topics."""
        return Lineage(self.clusters, {remote: ids for remote, ids in self.origins.items() if remote in remotes})

    def covers(self, other: Lineage) -> bool:
        """Does this say all that `other` says of where records come from?"""
        known = self.origins
        return all(remote in known and set(ids) <= set(known[remote]) for remote, ids in other.origins.items())


@dataclass(frozen=True, slots=True)
class Plan:
    """What the leader wants. A newer plan has a higher generation, whoever leads.

    `retired` has the topics that left the plan while their remote topics stay: their positions are kept alive, for
    they may come back. `renew_interval` is how often each position is committed again, in seconds.
    """

    leader: str
    generation: int
    topics: Mapping[str, Topic]
    slices: tuple[Slice, ...]
    stop: bool = False
    retired: Mapping[str, Topic] = field(default_factory=dict)
    renew_interval: float = RENEW_INTERVAL
    clusters: tuple[str, ...] = ()  # ids of source and target; none: not known
    origins: Origins = field(default_factory=dict)

    def encode(self) -> bytes:
        """JSON, compact: a plan of 10,000 partitions is about 50 kB."""
        return json.dumps(
            {
                "leader": self.leader,
                "generation": self.generation,
                "stop": self.stop,
                "topics": {name: astuple(topic) for name, topic in self.topics.items()},
                "retired": {name: astuple(topic) for name, topic in self.retired.items()},
                "renew_interval": self.renew_interval,
                "slices": [_by_topic(s) for s in self.slices],
                "clusters": self.clusters,
                "origins": self.origins,
            },
            separators=(",", ":"),
        ).encode()

    @staticmethod
    def decode(value: bytes) -> Plan:
        """The plan that `encode` wrote, without what a newer mirror has added. Raises Malformed."""
        plan = Plan(**decode.fields(decode.parsed(value, PLAN_MAX), _REQUIRED, _ADDED_LATER))
        if any(partition.topic not in plan.topics for each in plan.slices for partition in each):
            raise decode.Malformed("a slice has a topic that the plan does not have")
        return plan

    @property
    def known(self) -> dict[str, Topic]:
        """The topics that it has or remembers."""
        return {**self.retired, **self.topics}

    @property
    def lineage(self) -> Lineage:
        """What it says to other flows."""
        return Lineage(self.clusters, self.origins)

    def stopped(self) -> Plan:
        """The same plan with the order to finish."""
        return replace(self, stop=True)


PLAN_MAX = 2**26  # bytes; brokers take fewer
_TOPIC: Sequence[decode.Check[Any]] = [
    decode.topic_name,
    decode.name,
    decode.partition_number,
    decode.partition_number,
]
_TOPIC_ADDED_LATER: Sequence[decode.Check[Any]] = [decode.name, decode.flag]
_SLICE = decode.keyed(decode.topic_name, decode.listed(decode.partition_number))


def _topic(raw: Any) -> Topic:
    return Topic(*decode.elements(raw, _TOPIC, _TOPIC_ADDED_LATER))


def _slice(raw: Any) -> Slice:
    return frozenset(Partition(name, number) for name, numbers in _SLICE(raw).items() for number in numbers)


def _ids(raw: Any) -> tuple[str, ...]:
    return tuple(decode.listed(decode.name)(raw))


_REQUIRED: Mapping[str, decode.Check[Any]] = {
    "leader": decode.name,
    "generation": decode.integer(),
    "topics": decode.keyed(decode.topic_name, _topic),
    "slices": lambda raw: tuple(decode.listed(_slice)(raw)),
}
_ADDED_LATER: Mapping[str, decode.Check[Any]] = {
    "stop": decode.flag,
    "retired": decode.keyed(decode.topic_name, _topic),
    "renew_interval": decode.number(0.1, 10 * 365 * 86_400.0),
    "clusters": _ids,
    "origins": decode.keyed(decode.topic_name, _ids),
}


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


def retire(topics: Mapping[str, Topic], previous: Plan | None, remote_ids: Mapping[str, str]) -> dict[str, Topic]:
    """What `previous` had, or had retired, that `topics` has not, while its remote topic is still the same one.

    `remote_ids` has the ids of the target's topics by name.
    """
    before = previous.known if previous else {}
    return {
        name: topic
        for name, topic in before.items()
        if name not in topics and topic.remote_id and remote_ids.get(topic.remote) == topic.remote_id
    }


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
