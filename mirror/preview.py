"""`mirror plan`: what a run would create, change and copy. Changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby

from confluent_kafka.admin import OffsetSpec

from mirror import clients
from mirror.assignment import find_starts
from mirror.cluster import ClusterAdmin
from mirror.control import ControlReader
from mirror.orders import Orders, is_paused
from mirror.plan import Partition, Plan, Topic, merge_initial
from mirror.policy import ReplicationPolicy
from mirror.positions import Positions
from mirror.settings import Flow
from mirror.tables import Cell, figure, table
from mirror.topics import ANY_TIME, Changes, TopicMonitor


@dataclass(frozen=True, slots=True)
class PartitionPreview:
    """Where the copying of a partition would go on, or begin."""

    topic: str
    partition: int
    remote_topic: str
    committed: bool  # is there a position, or is it the flow's `start`?
    start: int | None  # upstream offset; None: the source gives none now
    end: int | None  # the source's last stable offset
    records: int | None  # from start to end, markers and aborted records included
    lost: int  # offsets from start on that the source has no more
    recreated: bool  # the position belongs to a topic of this name that was deleted: see the flow's on_data_loss
    paused: bool


@dataclass(frozen=True, slots=True)
class Preview:
    """What a run of one flow would do."""

    flow: str
    create: Mapping[str, tuple[int, Mapping[str, str]]]  # remote topics with partitions and configuration
    grow: Mapping[str, tuple[int, int]]  # remote topics with the partitions they have and shall have
    internal: tuple[str, ...]  # mirror's own topics to create
    partitions: tuple[PartitionPreview, ...]

    @property
    def records(self) -> int:
        """All that would be copied now."""
        return sum(partition.records or 0 for partition in self.partitions)


def preview(flow: Flow) -> Preview:
    """What a run would do. Raises ClusterAway, PartitionError if the target refuses to tell positions."""
    changes = TopicMonitor(flow).changes()
    plan, orders = _control(flow, changes)
    policy = ReplicationPolicy.of(flow)
    source = ClusterAdmin(flow.source)
    ids = source.topic_ids(sorted(changes.mirrored))
    found = {
        name: Topic(policy.remote_topic(name), topic_id, changes.mirrored[name], changes.mirrored[name])
        for name, topic_id in sorted(ids.items())
    }
    topics = merge_initial(found, plan)
    wanted = {Partition(name, n): topic for name, topic in topics.items() for n in range(topic.partitions)}
    with closing(Positions(flow.target, flow.group, flow.control_topic)) as positions:
        starts = find_starts(flow, positions, clients.admin(flow.source), wanted)
    ends = source.offsets(dict.fromkeys(wanted, OffsetSpec.latest()))
    firsts = source.offsets(dict.fromkeys(wanted, OffsetSpec.earliest()))
    partitions = []
    for partition, topic in wanted.items():
        at, end = starts.get(partition), ends.get(partition)
        start = at.offset if at else None
        # Of a topic that was deleted the position says nothing about the one of its name.
        first = max(0 if at and at.foreign else start or 0, firsts.get(partition, 0))
        records = max(0, end - first) if at and end is not None else None
        lost = first - start if at and at.known and not at.foreign and start is not None else 0
        flags = (bool(at and at.foreign), is_paused(orders, partition))
        known = bool(at and at.known)
        partitions.append(PartitionPreview(*partition, topic.remote, known, start, end, records, lost, *flags))
    return Preview(
        flow.name,
        {name: (count, {**own, **ANY_TIME}) for name, (count, own) in changes.create.items()},
        {name: (changes.existing[name], count) for name, count in changes.grow.items()},
        tuple(changes.internal),
        tuple(partitions),
    )


def _control(flow: Flow, changes: Changes) -> tuple[Plan | None, Orders]:
    if flow.control_topic in changes.internal:
        return None, {}
    with closing(ControlReader(flow)) as control:
        control.read_to_end()
        return control.plan, control.orders


def shown(found: Preview) -> str:
    """For people."""
    lines = [found.flow, ""]
    for name in found.internal:
        lines.append(f"  create {name}, 1 partition, compacted")
    for name, (count, config) in found.create.items():
        own = ", ".join(f"{key}={value}" for key, value in sorted(config.items()) if key not in ANY_TIME)
        lines.append(f"  create {name}, {_counted(count, 'partition')}" + (f", {own}" if own else ""))
    for name, (before, after) in found.grow.items():
        lines.append(f"  add partitions to {name}: {before} -> {after}")
    if len(lines) == 2:
        lines.append("  nothing to create or change on the target")
    rows: list[list[Cell]] = []
    for topic, group in groupby(found.partitions, lambda partition: partition.topic):
        some = list(group)
        committed = sum(p.committed for p in some)
        paused = sum(p.paused for p in some)
        records = sum(p.records or 0 for p in some)
        rows.append([topic, some[0].remote_topic, len(some), committed, paused, records, sum(p.lost for p in some)])
    headers = ("topic", "remote topic", "partitions", "with position", "paused", "to copy", "lost")
    for name in sorted({p.topic for p in found.partitions if p.recreated}):
        lines.append(f"  {name} was deleted and created again: its partitions fail or begin anew, see on_data_loss")
    lines += ["", table(headers, rows), "", f"{figure(found.records)} records to copy (offsets, markers included)"]
    return "\n".join(lines)


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'s' * (number != 1)}"
