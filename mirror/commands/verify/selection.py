"""Selects what `mirror verify` compares of a flow, and finds the offset ranges of each partition."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from confluent_kafka.admin import OffsetSpec

from mirror.commands.verify import surviving_syncs
from mirror.commands.verify.ranges import PartitionRanges, Side
from mirror.errors import ConfigError, MirrorError, PositionUnstable
from mirror.groups.selected import selected
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from mirror.naming import ReplicationPolicy
from mirror.settings import Flow
from mirror.target.position_reader import PositionReader
from mirror.text import duration, plural

log = logging.getLogger(__name__)

STABLE_WITHIN = 60.0  # seconds in which open transactions on the target have to end
POSITION_WITHIN = 5.0  # seconds to catch a busy partition between two transactions


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a flow is compared, and what is not.

    - compacted: topics. A record that one side has compacted away looks like a lost one;
    - uncopied: partitions that have records on the source, but no committed position or no partition on the target.
      Their range on the target is empty;
    - unmarked: topics whose older copies lack the header of active_active, so that they look like records of others;
    - surplus: remote partitions that have records, while the source's topic has no such partition.
    """

    compared: Sequence[PartitionRanges]
    compacted: Sequence[str]
    uncopied: Sequence[PartitionRanges]
    unmarked: Sequence[str] = ()
    surplus: Sequence[Partition] = ()


@dataclass(frozen=True, slots=True)
class _Partitions:
    """The partitions of the source's topics, each with its remote partition, which need not exist."""

    remote: Mapping[Partition, Partition]
    existing: Mapping[str, int]  # the number of partitions of each topic on the target

    def of(self, topics: Collection[str]) -> _Partitions:
        """Those of these source topics."""
        return _Partitions({p: r for p, r in self.remote.items() if p.topic in topics}, self.existing)

    @property
    def remote_topics(self) -> dict[str, str]:
        """The remote topic of each source topic."""
        return {p.topic: r.topic for p, r in self.remote.items()}

    @property
    def on_both_sides(self) -> dict[Partition, Partition]:
        """The remote partitions that exist, by source partition."""
        return {p: r for p, r in self.remote.items() if r.partition < self.existing.get(r.topic, 0)}

    @property
    def on_target_alone(self) -> list[Partition]:
        """The partitions of remote topics that the source's topics do not have."""
        expected = set(self.remote.values())
        topics = sorted({remote.topic for remote in expected})
        there = [Partition(topic, number) for topic in topics for number in range(self.existing.get(topic, 0))]
        return [partition for partition in there if partition not in expected]


@dataclass(frozen=True, slots=True)
class _Offsets:
    """Asks for offsets. A partition of which a cluster gives none gets a reason, and is not asked for again."""

    reasons: dict[Partition, str] = field(default_factory=dict)  # by source partition

    def of(self, cluster: ClusterAdmin, where: Mapping[Partition, Partition], spec: OffsetSpec) -> dict[Partition, int]:
        """The offsets of partitions of this cluster, by source partition."""
        asked = {p: at for p, at in where.items() if p not in self.reasons}
        found = cluster.offsets(dict.fromkeys(asked.values(), spec))
        for partition, at in asked.items():
            if at not in found:
                reason = "check its leader, and that mirror may read it"
                self.reasons[partition] = f"{at} can't be compared: {cluster.alias} gives no offsets of it: {reason}"
        return {p: found[at] for p, at in asked.items() if at in found}


def select(flow: Flow, topics: Collection[str], unmarked: Collection[str] = ()) -> Selection:
    """Select the partitions of these topics, or of all that the flow mirrors, with their offset ranges.

    `unmarked` are remote topics that can't be compared, because older copies lack the header of active_active.
    Raises ConfigError for a topic that the flow does not mirror, ClusterAway, and MirrorError. If a cluster gives no
    offsets of a partition, or a transaction on it does not end, its ranges have the reason.
    """
    source, target = ClusterAdmin(flow.source), ClusterAdmin(flow.target)
    every = _partitions(flow, topics, source, target)
    compacted = _compacted(flow, source, target, every)
    older = sorted({topic for topic, remote in every.remote_topics.items() if remote in unmarked} - {*compacted})
    ours = every.of(every.remote_topics.keys() - {*compacted, *older})
    offsets = _Offsets()
    found = _found(flow, source, target, ours.on_both_sides, offsets)
    positioned = {ranges.place for ranges in found} | offsets.reasons.keys()
    uncopied = _uncopied(flow, source, {p: r for p, r in ours.remote.items() if p not in positioned}, offsets)
    unknown = [_without_ranges(flow, p, ours.remote[p], reason) for p, reason in offsets.reasons.items()]
    compared = sorted([*found, *unknown], key=lambda ranges: ranges.place)
    # With active_active, programs write to the target's topic, too, and may be the first to use more partitions.
    surplus = [] if flow.active_active else _with_records(target, ours.on_target_alone)
    return Selection(compared, compacted, uncopied, older, surplus)


def _found(
    flow: Flow,
    source: ClusterAdmin,
    target: ClusterAdmin,
    remote: Mapping[Partition, Partition],
    offsets: _Offsets,
) -> list[PartitionRanges]:
    """The ranges of those partitions that have a position. Those for which it fails are added to the reasons."""
    begin, end = OffsetSpec.earliest(), OffsetSpec.latest()
    here, there = offsets.of(source, {p: p for p in remote}, begin), offsets.of(target, remote, begin)
    starts = {p: (here[p], there[p]) for p in there if p in here}
    syncs = surviving_syncs.read(flow, starts) if starts else {}
    with closing(PositionReader(flow.target, flow.group, flow.control_topic)) as positions:
        # The order of these requests matters. Each offset sync that was read is before the first position, all records
        # before that position are before the target's ends, and all records before those ends are before the last
        # position.
        hints = positions.hints((remote[p].topic, remote[p].partition) for p in starts)
        first = {p: hint.offset for p in starts if (hint := hints[remote[p].topic, remote[p].partition]) is not None}
        downstream = _stable_ends(target, {p: remote[p] for p in first}, offsets)
        stable = offsets.of(source, {p: p for p in downstream}, end)
        last = {p: _position(positions, remote[p], stable[p]) for p in stable}
    upstream = offsets.of(source, {p: p for p in last}, begin)
    starting = offsets.of(target, {p: remote[p] for p in upstream}, begin)
    return [
        PartitionRanges(
            Side(flow.source.alias, *p, upstream[p], max(upstream[p], min(last[p], stable[p]))),
            Side(flow.target.alias, *remote[p], starting[p], downstream[p]),
            first[p],
            flow.of_topic(p.topic).start == "earliest",
            tuple((u, d) for u, d in syncs.get(p, ()) if u < first[p] and d < downstream[p]),
            flow.exactly_once and first[p] == last[p],  # without transactions records come before their position
        )
        for p in starting
    ]


def _uncopied(
    flow: Flow, source: ClusterAdmin, remote: Mapping[Partition, Partition], offsets: _Offsets
) -> list[PartitionRanges]:
    """The ranges of those partitions that have records on the source, as if the target had none."""
    here = {p: p for p in remote}
    begin, end = offsets.of(source, here, OffsetSpec.earliest()), offsets.of(source, here, OffsetSpec.latest())
    return [
        PartitionRanges(
            Side(flow.source.alias, *p, begin[p], end[p]), Side(flow.target.alias, *remote[p], 0, 0), end[p], True
        )
        for p in sorted(end)
        if begin[p] < end[p]
    ]


def _without_ranges(flow: Flow, partition: Partition, remote: Partition, reason: str) -> PartitionRanges:
    sides = Side(flow.source.alias, *partition, 0, 0), Side(flow.target.alias, *remote, 0, 0)
    return PartitionRanges(*sides, 0, True, reason=reason)


def _with_records(cluster: ClusterAdmin, partitions: Iterable[Partition]) -> list[Partition]:
    """Those that have records, or of which the cluster does not say that they have none."""
    asked = list(partitions)
    begin, end = (cluster.offsets(dict.fromkeys(asked, s)) for s in (OffsetSpec.earliest(), OffsetSpec.latest()))
    return [p for p in asked if begin.get(p, 0) < end.get(p, 1)]


def _partitions(flow: Flow, topics: Collection[str], source: ClusterAdmin, target: ClusterAdmin) -> _Partitions:
    # Asked first, so that no partition that is new on both sides seems to be on the target alone.
    theirs = target.partitions()
    policy, here = ReplicationPolicy.of(flow), source.partitions()
    remotes = selected(flow, here).remotes
    unknown = [topic for topic in topics if topic not in remotes and (topic in here or not policy.is_mirrored(topic))]
    if unknown:
        raise ConfigError([f"flow {flow.name} does not mirror topic {topic}: see its topics" for topic in unknown])
    missing = [topic for topic in topics if topic not in here]
    if missing:
        raise ConfigError([f"there is no topic {topic} on {flow.source.alias}" for topic in missing])
    # The canary is nobody's data, and compacted, so it would count as not compared.
    ours = sorted(topics or remotes.keys() - {flow.canary_topic})
    remote = {Partition(t, number): Partition(remotes[t], number) for t in ours for number in range(here[t])}
    return _Partitions(remote, theirs)


def _compacted(flow: Flow, source: ClusterAdmin, target: ClusterAdmin, partitions: _Partitions) -> list[str]:
    """The source topics that are compacted on one side at least."""
    remotes = partitions.remote_topics
    here, refused = source.topic_configs(sorted(remotes), own=False)
    if refused:
        topic, error = min(refused.items())
        reason = f"{error.str()}: whether they are compacted is not known; allow DescribeConfigs"
        raise MirrorError(
            f"{plural(len(refused), 'topic')} of {source.alias} can't be compared, e.g. {topic}: {reason}"
        )
    wanted = sorted(remote for remote in remotes.values() if remote in partitions.existing)
    there, unknown = target.topic_configs(wanted, own=False)
    if unknown:
        topic, error = min(unknown.items())
        log.warning(
            "whether remote topics are compacted is not known: what compaction removes from them counts as lost",
            extra={"flow": flow.name, "topic": topic, "topics": len(unknown), "reason": error.str()},
        )
    found = {topic: (here.get(topic, {}), there.get(remote, {})) for topic, remote in sorted(remotes.items())}
    return [t for t, both in found.items() if any("compact" in config.get("cleanup.policy", "") for config in both)]


def _stable_ends(
    target: ClusterAdmin, remote: Mapping[Partition, Partition], offsets: _Offsets
) -> dict[Partition, int]:
    """The last stable offsets, by source partition, once they have passed the records that are on the target now.

    Waiting is necessary because each partition gets its transaction markers by itself: a position may be visible a
    moment before the records of its transaction. A partition on which a transaction stays open gets a reason.
    """
    high = target.offsets(dict.fromkeys(remote.values(), OffsetSpec.latest()), stable=False)
    deadline = time.monotonic() + STABLE_WITHIN
    while True:
        stable = offsets.of(target, remote, OffsetSpec.latest())
        pending = [p for p, end in stable.items() if end < high.get(remote[p], 0)]
        if not pending or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    reason = f"a transaction on the target has been open for {duration(STABLE_WITHIN)}"
    for p in pending:
        offsets.reasons[p] = f"{remote[p]} can't be compared: {reason}; wait until it has ended"
    return {p: end for p, end in stable.items() if p not in pending}


def _position(positions: PositionReader, remote: Partition, stable_end: int) -> int:
    """The position while no transaction is pending; the source's end if that takes too long: any upper bound does."""
    deadline = time.monotonic() + POSITION_WITHIN
    while time.monotonic() < deadline:
        try:
            found = positions.stable(*remote)
            return found.offset if found else stable_end
        except PositionUnstable:
            time.sleep(0.02)
    return stable_end
