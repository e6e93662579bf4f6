"""The plan: which slice copies which partitions. Pure; the control topic carries it.

Which topics it has is decided before: service/topic_monitor.py finds them.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

from mirror import decode
from mirror.control.slices import Slice
from mirror.control.task_settings import TaskSettings
from mirror.control.throttle_shares import OF_FLOW, Parts
from mirror.errors import ForeignPlan
from mirror.model import Partition, Topic

RENEW_INTERVAL = 24 * 3600.0  # seconds, at most, between two commits of a position; used if the target reports none
Topics = Mapping[str, Topic]
Origins = Mapping[str, tuple[str, ...]]  # by remote topic: ids of the clusters its records come from, over any route


@dataclass(frozen=True, slots=True)
class Lineage:
    """The clusters between which a flow copies, and where its records come from. Empty if not known.

    conflicts.py uses it to find replication cycles.
    """

    clusters: tuple[str, ...] = ()  # ids of source and target
    origins: Origins = field(default_factory=dict)
    configs_from: tuple[str, ...] = ()  # ids of the clusters whose topic configurations it brings; see kept_configs.py

    def of(self, remotes: Collection[str]) -> Lineage:
        """The part of the lineage that is about these remote topics."""
        origins = {remote: ids for remote, ids in self.origins.items() if remote in remotes}
        return Lineage(self.clusters, origins, self.configs_from)

    def covers(self, other: Lineage) -> bool:
        """True if this lineage has every origin that `other` has."""
        known = self.origins
        return all(remote in known and set(ids) <= set(known[remote]) for remote, ids in other.origins.items())


class WrongPlan(decode.DecodeError):
    """Each value of a plan is well-formed, but together they make no plan: no mirror has written this one."""


def unreadable(flow: str, topic: str, error: Exception) -> ForeignPlan:
    """The error for a plan on `topic` that can't be decoded, which says what a person can do."""
    if isinstance(error, WrongPlan):
        return ForeignPlan(
            f"flow {flow}: no mirror wrote the plan on {topic} ({error!r}), and the plan before it is not known: write "
            "that one there again, or delete the topic, with which orders and decisions are lost"
        )
    return ForeignPlan(
        f"flow {flow}: another version of mirror wrote the plan on {topic}, and it can't be decoded ({error!r}): run "
        "the version that wrote it, or a newer one"
    )


@dataclass(frozen=True, slots=True)
class Plan:
    """What the flow leader wants the tasks to do. A newer plan has a higher generation, whoever leads.

    `retired` has the topics that left the plan while their remote topics still exist. They may come back, so their
    positions are kept from expiring. `renew_interval` is the time in seconds after which each position is committed
    again. `restarts` grows each time that all tasks have to end, so that Spark starts one for each slice. A task that
    began with another number ends, even if it has not seen the plans in between. `unmarked` has the remote topics, with
    their ids, whose first records were copied without the header that `active_active` gives them.
    """

    service_id: str  # of the flow leader
    generation: int
    topics: Topics
    slices: tuple[Slice, ...]
    stop: bool = False
    restarts: int = 0
    retired: Topics = field(default_factory=dict)
    renew_interval: float = RENEW_INTERVAL
    clusters: tuple[str, ...] = ()  # ids of source and target; empty if not known
    origins: Origins = field(default_factory=dict)
    task_settings: TaskSettings | None = None  # None in a plan of an older mirror
    throttle_parts: Mapping[str, Parts] = field(default_factory=dict)  # how throttles are divided, by their names
    active_active: bool = False  # the mark: records get a header that keeps them from coming back
    unmarked: Mapping[str, str] = field(default_factory=dict)
    group: str = ""  # that holds the positions; only with the mark, since the flow in the other direction reads it
    configs_from: tuple[str, ...] = ()  # those of `Lineage`; only with the mark

    def encode(self) -> bytes:
        """The record value, compact JSON: a plan of 10,000 partitions has about 50 kB."""
        return json.dumps(
            {
                "leader": self.service_id,
                "generation": self.generation,
                "stop": self.stop,
                "restarts": self.restarts,
                "topics": {name: astuple(topic) for name, topic in self.topics.items()},
                "retired": {name: astuple(topic) for name, topic in self.retired.items()},
                "renew_interval": self.renew_interval,
                "slices": [_by_topic(s) for s in self.slices],
                "clusters": self.clusters,
                "origins": self.origins,
                **({"task_settings": self.task_settings.as_json()} if self.task_settings else {}),
                **({"throttle_parts": self.throttle_parts} if self.throttle_parts else {}),
                **self._mark(),
            },
            separators=(",", ":"),
        ).encode()

    def _mark(self) -> dict[str, Any]:
        names = ("active_active", "unmarked", "group", "configs_from")
        return {name: getattr(self, name) for name in names} if self.active_active else {}

    @staticmethod
    def decode(value: bytes) -> Plan:
        """Decode a value that `encode` made. Fields that a newer mirror has added are ignored.

        Raises DecodeError, and WrongPlan if each value can be decoded, but the plan contradicts itself.
        """
        found = decode.fields(decode.parsed(value, PLAN_MAX), _REQUIRED, _ADDED_LATER)
        plan = Plan(service_id=found.pop("leader"), **found)
        dealt = [partition for each in plan.slices for partition in each]
        if any(partition.topic not in plan.topics for partition in dealt):
            raise WrongPlan("a slice has a topic that the plan does not have")
        if len(dealt) > len(set(dealt)):  # two tasks would fence each other, and the next plan would keep both slices
            raise WrongPlan("a partition is in two slices")
        if len(plan.clusters) not in (0, 2):
            raise WrongPlan("clusters are not two")
        if sum(topic.partitions for topic in plan.known.values()) > PARTITIONS_MAX:
            raise WrongPlan(f"it has more than {PARTITIONS_MAX:,} partitions")
        return plan

    @property
    def known(self) -> dict[str, Topic]:
        """All topics of the plan, including the retired ones."""
        return {**self.retired, **self.topics}

    @property
    def holders(self) -> dict[str, str]:
        """By remote topic: the source topic whose copy it is."""
        return {topic.remote: name for name, topic in self.known.items()}

    @property
    def lineage(self) -> Lineage:
        """What the plan says to other flows."""
        return Lineage(self.clusters, self.origins)

    def stopped(self) -> Plan:
        """A copy of this plan that says stop."""
        return replace(self, stop=True)


PLAN_MAX = 2**26  # bytes; far more than a record on mirror's own topics may have (INTERNAL_MAX)
# More than a cluster can have, or a record can deal to slices. A plan says a count in a few digits, and whoever renews
# the positions of retired topics holds each partition in memory.
PARTITIONS_MAX = 2_000_000
_TOPIC: Sequence[decode.Check[Any]] = [
    decode.topic_name,
    decode.name,
    decode.partition_number,
    decode.partition_number,
]
_TOPIC_ADDED_LATER: Sequence[decode.Check[Any]] = [decode.name, decode.flag, decode.flag, decode.integer()]
_SLICE = decode.keyed(decode.topic_name, decode.listed(decode.partition_number))


def _topic(raw: Any) -> Topic:
    return Topic(*decode.elements(raw, _TOPIC, _TOPIC_ADDED_LATER))


def _slice(raw: Any) -> Slice:
    return frozenset(Partition(name, number) for name, numbers in _SLICE(raw).items() for number in numbers)


def _ids(raw: Any) -> tuple[str, ...]:
    return tuple(decode.listed(decode.name)(raw))


def _throttle_name(raw: Any) -> str:
    return OF_FLOW if raw == OF_FLOW else decode.topic_name(raw)


def _parts(raw: Any) -> Parts:
    return tuple(decode.listed(decode.number(0.0, 1.0))(raw))


_REQUIRED: Mapping[str, decode.Check[Any]] = {
    "leader": decode.name,
    "generation": decode.integer(),
    "topics": decode.keyed(decode.topic_name, _topic),
    "slices": lambda raw: tuple(decode.listed(_slice)(raw)),
}
_ADDED_LATER: Mapping[str, decode.Check[Any]] = {
    "stop": decode.flag,
    "restarts": decode.integer(),
    "retired": decode.keyed(decode.topic_name, _topic),
    "renew_interval": decode.number(0.1, 10 * 365 * 86_400.0),
    "clusters": _ids,
    "origins": decode.keyed(decode.topic_name, _ids),
    "task_settings": TaskSettings.decoded,
    "throttle_parts": decode.keyed(_throttle_name, _parts),
    "active_active": decode.flag,
    "unmarked": decode.keyed(decode.topic_name, decode.name),
    "group": decode.text,
    "configs_from": _ids,
}


def _by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    grouped: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        grouped.setdefault(topic, []).append(number)
    return grouped
