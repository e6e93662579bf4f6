"""A dry run: finds out what a run would create, change and copy. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from confluent_kafka.admin import OffsetSpec

from mirror.commands.topic_changes import acl_changes, config_changes
from mirror.control.decisions import doubt, explain, is_accepted, remote_topic
from mirror.control.newest_plan import newest_plan
from mirror.control.next_plan import merge_initial_partitions
from mirror.control.orders import Orders, is_paused
from mirror.control.other_flows import OtherFlows
from mirror.control.plan import Plan
from mirror.control.reported_positions import reported_positions
from mirror.kafka import clients
from mirror.kafka.cluster import ClusterAdmin
from mirror.kafka.topic_creation import ANY_TIME
from mirror.model import Partition, Position, Topic
from mirror.naming import ReplicationPolicy
from mirror.service.topic_monitor import Changes, TopicMonitor
from mirror.service_settings import Suspicion
from mirror.settings import Flow
from mirror.target.position_reader import PositionReader
from mirror.target.remote_records import with_records
from mirror.target.timestamps import KEEP
from mirror.task.known_positions import StartPoint
from mirror.task.start_offsets import find_starts
from mirror.template import HEARTBEATS
from mirror.topic_selection import LeftOut
from mirror.topic_transform import transform_of
from mirror.topics.acl_sync import AclStatus
from mirror.topics.config_sync import TopicConfig
from mirror.unmatched_entries import groups_match_nothing, matches_nothing


@dataclass(frozen=True, slots=True)
class PartitionDryRun:
    """Where the copying of a partition would continue, or start."""

    topic: str
    partition: int
    remote_topic: str
    committed: bool  # True if there is a position; else `start` follows from the flow's `start`
    start: int | None  # upstream offset; None while the source does not give one
    end: int | None  # the source's last stable offset
    records: int | None  # from start to end, markers and aborted records included
    lost: int  # offsets from `start` on that the source no longer has
    recreated: bool  # the position belongs to a topic of this name that was deleted: see the flow's on_data_loss
    paused: bool
    blocked: str  # why the partition would be blocked; "" if it would not
    transform: str | None = None  # the dotted path of its topic's transform


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a run of one flow would do."""

    flow: str
    create: Mapping[str, tuple[int, Mapping[str, str]]]  # remote topics with partition count and configuration
    grow: Mapping[str, tuple[int, int]]  # remote topics with the partition counts they have and need
    configs: tuple[TopicConfig, ...]  # remote topics whose configuration would be altered, or can't be kept in step
    acls: tuple[AclStatus, ...]  # of the source's topics that the target lacks, or does not get as they are
    internal: tuple[str, ...]  # mirror's own topics to create
    on_source: tuple[str, ...]  # topics to create on the source: those of heartbeats and the canary
    partitions: tuple[PartitionDryRun, ...]
    replacing: tuple[str, ...]  # remote topics that replace timestamps: nothing is copied to them
    left_out: LeftOut
    unnamed: LeftOut  # topics whose remote topic can't have its name: they are not copied
    refusals: tuple[str, ...]  # other flows that are in the way: nothing is done while they are
    warnings: tuple[str, ...]  # likely mistakes, silent flows that would be in the way, and what is not known

    @property
    def records(self) -> int:
        """Number of records that would be copied now."""
        return sum(partition.records or 0 for partition in self.partitions if not partition.blocked)

    @property
    def blocked(self) -> tuple[PartitionDryRun, ...]:
        """Partitions that would be blocked."""
        return tuple(partition for partition in self.partitions if partition.blocked)


def dry_run(flow: Flow, suspicions: Sequence[Suspicion] = ()) -> DryRun:
    """Find out what a run would do. `suspicions` are what looks like a mistake in the flow's configuration.

    Raises ClusterAway, and PartitionError if the target refuses to give positions.
    """
    plan, orders = newest_plan(flow)
    changes = TopicMonitor(flow).changes(plan)
    policy = ReplicationPolicy.of(flow)
    others = OtherFlows(flow).look({name: policy.remote_topic(name) for name in changes.mirrored}, plan)
    source = ClusterAdmin(flow.source)
    topics = merge_initial_partitions(_topics(flow, changes, source, plan), plan, flow.topic_settings)
    wanted = {Partition(name, n): topic for name, topic in topics.items() for n in range(topic.partitions)}
    reported = _reported(flow, changes, wanted)
    with closing(PositionReader(flow.target, flow.group, flow.control_topic)) as positions:
        starts = find_starts(flow, positions, clients.admin(flow.source), wanted, lambda: reported)
    partitions = _partitions(flow, source, changes, orders, topics, wanted, starts)
    lost_topics = {topic.remote for name, topic in topics.items() if topic.remote_lost and _fails(flow, name)}
    certain = _certain(flow, topics, partitions)
    acls, acls_unknown = acl_changes(flow, certain)
    return DryRun(
        flow.name,
        {n: (count, {**own, **KEEP, **ANY_TIME}) for n, (count, own) in changes.create.items() if n not in lost_topics},
        {name: (changes.existing[name], count) for name, count in changes.grow.items()},
        () if others.configs_kept_by else config_changes(flow, certain, changes.existing),
        acls,
        tuple(changes.internal),
        _on_source(flow, source),
        tuple(partitions),
        tuple(changes.replacing),
        changes.left_out,
        changes.unnamed,
        tuple(map(str, others.refusals)),
        (*map(str, suspicions), *_matches_nothing(flow, source), *map(str, others.warnings), *acls_unknown),
    )


def _on_source(flow: Flow, source: ClusterAdmin) -> tuple[str, ...]:
    """What the flow writes to the source, and is not there yet."""
    wanted = {HEARTBEATS: flow.heartbeats.enabled, flow.canary_topic: flow.canary.enabled}
    if not any(wanted.values()):
        return ()
    existing = source.partitions()
    return tuple(name for name, is_wanted in wanted.items() if is_wanted and name not in existing)


def _fails(flow: Flow, topic: str) -> bool:
    """True if lost records stop the partitions of the topic."""
    return flow.of_topic(topic).on_data_loss == "fail"


def _certain(flow: Flow, topics: Mapping[str, Topic], partitions: Iterable[PartitionDryRun]) -> dict[str, Topic]:
    """The topics whose remote topics are certainly their copies, or are to be created."""
    doubtful = {p.topic for p in partitions if p.blocked or (p.recreated and _fails(flow, p.topic))}
    return {name: topic for name, topic in topics.items() if name not in doubtful and not topic.remote_lost}


def _matches_nothing(flow: Flow, source: ClusterAdmin) -> list[str]:
    found = [*matches_nothing(flow, source.partitions())]
    if flow.makes_rounds:
        found += groups_match_nothing(flow.groups, source.groups())
    return [f"{said}; {remedy}" for said, remedy in found]


def _partitions(
    flow: Flow,
    source: ClusterAdmin,
    changes: Changes,
    orders: Orders,
    topics: Iterable[str],
    wanted: Mapping[Partition, Topic],
    starts: Mapping[Partition, StartPoint],
) -> list[PartitionDryRun]:
    """The dry runs of all partitions, which would start at `starts`. Raises ClusterAway."""
    ends = source.offsets(dict.fromkeys(wanted, OffsetSpec.latest()))
    firsts = source.offsets(dict.fromkeys(wanted, OffsetSpec.earliest()))
    blocked = _blocked(flow, changes, wanted, starts)
    transforms = {name: transform_of(flow, name) for name in topics}
    return [
        _partition(
            partition,
            topic,
            starts.get(partition),
            firsts.get(partition, 0),
            ends.get(partition),
            is_paused(orders, partition),
            blocked.get(partition, ""),
            transforms[partition.topic],
        )
        for partition, topic in wanted.items()
    ]


def _partition(
    partition: Partition,
    topic: Topic,
    at: StartPoint | None,
    earliest: int,
    end: int | None,
    paused: bool,
    blocked: str,
    transform: str | None,
) -> PartitionDryRun:
    """The dry run of one partition that would start `at`; the source has offsets from `earliest` to `end`."""
    start = at.offset if at else None
    # The position of a deleted topic says nothing about the new topic of that name.
    recreated = at is not None and at.hint is not None and not at.hint.belongs_to(topic.topic_id)
    first = max(0 if recreated else start or 0, earliest)
    return PartitionDryRun(
        topic=partition.topic,
        partition=partition.partition,
        remote_topic=topic.remote,
        committed=at is not None and at.known,
        start=start,
        end=end,
        records=max(0, end - first) if at and end is not None else None,
        lost=first - start if at and at.known and not recreated and start is not None else 0,
        recreated=recreated,
        paused=paused,
        blocked=blocked,
        transform=transform,
    )


def _topics(flow: Flow, changes: Changes, source: ClusterAdmin, plan: Plan | None) -> dict[str, Topic]:
    """The mirrored topics, each with the remote topic of the last plan, or else the one that exists now."""
    remote_topic = ReplicationPolicy.of(flow).remote_topic
    before = plan.known if plan else {}
    remote_ids = ClusterAdmin(flow.target).topic_ids(
        sorted({remote_topic(name) for name in changes.mirrored} & changes.existing.keys())
    )
    topics = {}
    for name, topic_id in sorted(source.topic_ids(sorted(changes.mirrored)).items()):
        remote, count = remote_topic(name), changes.mirrored[name]
        now, known = remote_ids.get(remote, ""), before.get(name)
        remote_id = known.remote_id if known and known.remote == remote and known.remote_id else now
        topics[name] = Topic(remote, topic_id, count, count, remote_id, remote_lost=remote_id != now)
    return topics


def _reported(flow: Flow, changes: Changes, wanted: Mapping[Partition, Topic]) -> dict[Partition, Position]:
    return {} if flow.status_topic in changes.internal else reported_positions(flow, wanted, len(wanted))


def _blocked(
    flow: Flow, changes: Changes, wanted: Mapping[Partition, Topic], starts: Mapping[Partition, StartPoint]
) -> dict[Partition, str]:
    """The partitions that would be blocked, with the reason of each."""
    newest = {p: start.newest(wanted[p].topic_id) for p, start in starts.items()}
    new = {p for p, start in starts.items() if start.hint is None and newest[p] is None}
    existing = {(wanted[p].remote, p.partition) for p in new if p.partition < changes.existing.get(wanted[p].remote, 0)}
    filled = set() if flow.active_active else with_records(flow, existing)  # with the mark, others write there, too
    found = {}
    for partition, start in starts.items():
        topic = wanted[partition]
        here = (topic.remote, partition.partition)
        incident = doubt(start.hint, newest[partition], topic, partial(filled.__contains__, here))
        if topic.remote_lost:
            incident = remote_topic(topic, topic.remote_id)
        if incident is not None and not is_accepted(incident, flow.of_topic(partition.topic)):
            found[partition] = explain(incident, start.hint, topic, flow.group)
    return found
