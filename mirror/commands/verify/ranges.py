"""Selects what `mirror verify` compares: for each partition the offset ranges of both sides that belong together."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka.admin import OffsetSpec

from mirror.commands.verify import surviving_syncs
from mirror.commands.verify.digests import Stretch
from mirror.errors import ConfigError, MirrorError, PositionUnstable
from mirror.groups.selected import selected
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from mirror.naming import ReplicationPolicy
from mirror.settings import Flow
from mirror.target.position_reader import PositionReader
from mirror.text import duration, plural

STABLE_WITHIN = 60.0  # seconds in which open transactions on the target have to end
POSITION_WITHIN = 5.0  # seconds to catch a busy partition between two transactions


@dataclass(frozen=True, slots=True)
class Side:
    """The offset range of one partition on the cluster with this alias: from `start` up to, but without, `end`."""

    cluster: str
    topic: str
    partition: int
    start: int
    end: int

    def split(self, most: int) -> Iterator[Stretch]:
        """The range as stretches of at most `most` offsets."""
        for start in range(self.start, self.end, most):
            end = min(start + most, self.end)
            yield Stretch(self.cluster, self.topic, self.partition, start, end, self.end, start == self.start)


@dataclass(frozen=True, slots=True)
class PartitionRanges:
    """The offset ranges of one partition that are compared.

    Every source record before `position` has to be on the target. Later ones, up to `source.end`, may be there: all
    records before `target.end` came from them. If `ends_meet`, both ranges end at the same record.
    """

    source: Side
    target: Side
    position: int
    whole: bool  # True if the flow copies all that the source ever had; False if it started later
    syncs: tuple[tuple[int, int], ...] = ()  # upstream and downstream offsets of the same records, both ascending
    ends_meet: bool = False

    @property
    def source_may_lack(self) -> bool:
        """True if the target's log may begin with records that the source no longer has."""
        return self.source.start > 0

    @property
    def target_may_lack(self) -> bool:
        """True if the source's log may begin with records that the target no longer has, or never had to have."""
        return self.target.start > 0 or not self.whole


@dataclass(frozen=True, slots=True)
class Selection:
    """What of a flow is compared, and what is not.

    - compacted: topics. A record that one side has compacted away looks like a lost one;
    - unmarked: topics whose older copies lack the header of active_active, so that they look like records of others;
    - uncopied: partitions that have records on the source, but no committed position or no partition on the target.
    """

    compared: Sequence[PartitionRanges]
    compacted: Sequence[str]
    uncopied: Sequence[Partition]
    unmarked: Sequence[str] = ()


def select(flow: Flow, topics: Collection[str], unmarked: Collection[str] = ()) -> Selection:
    """Select the partitions of these topics, or of all that the flow mirrors, with their offset ranges.

    `unmarked` are remote topics that can't be compared, because older copies lack the header of active_active.
    Raises ConfigError for a topic that the flow does not mirror, ClusterAway, and MirrorError, also when a cluster
    gives no offsets of a partition.
    """
    source, target = ClusterAdmin(flow.source), ClusterAdmin(flow.target)
    ours, remote = _remote(flow, topics, source, target)
    compacted = _compacted(source, {p.topic for p in ours})
    older = sorted({p.topic for p, r in remote.items() if r.topic in unmarked} - {*compacted})
    ours = [p for p in ours if p.topic not in (*compacted, *older)]
    remote = {p: r for p, r in remote.items() if p.topic not in (*compacted, *older)}
    syncs = surviving_syncs.read(flow, _starts(source, target, remote)) if remote else {}
    with closing(PositionReader(flow.target, flow.group, flow.control_topic)) as positions:
        # The order of these requests matters. Each offset sync that was read is before the first position, all records
        # before that position are before the target's ends, and all records before those ends are before the last
        # position.
        hints = positions.hints((r.topic, r.partition) for r in remote.values())
        first = {p: hint.offset for p, r in remote.items() if (hint := hints[r.topic, r.partition]) is not None}
        remote = {p: remote[p] for p in first}
        downstream = _stable_ends(target, list(remote.values()))
        stable = _offsets(source, remote, OffsetSpec.latest())
        last = {p: _position(positions, r, stable[p]) for p, r in remote.items()}
    upstream = _offsets(source, remote, OffsetSpec.earliest())
    starts = _offsets(target, remote.values(), OffsetSpec.earliest())
    found = [
        PartitionRanges(
            Side(flow.source.alias, *p, upstream[p], max(upstream[p], min(last[p], stable[p]))),
            Side(flow.target.alias, *remote[p], starts[remote[p]], downstream[remote[p]]),
            first[p],
            flow.of_topic(p.topic).start == "earliest",
            tuple((u, d) for u, d in syncs.get(p, ()) if u < first[p] and d < downstream[remote[p]]),
            flow.exactly_once and first[p] == last[p],  # without transactions records come before their position
        )
        for p in sorted(last)
    ]
    uncopied = [p for p in ours if p not in remote]
    begin, end = (_offsets(source, uncopied, spec) for spec in (OffsetSpec.earliest(), OffsetSpec.latest()))
    return Selection(found, compacted, [p for p in uncopied if begin[p] < end[p]], older)


def _starts(
    source: ClusterAdmin, target: ClusterAdmin, remote: Mapping[Partition, Partition]
) -> dict[Partition, tuple[int, int]]:
    """The first offset on the source and on the target of each partition."""
    here = _offsets(source, remote, OffsetSpec.earliest())
    there = _offsets(target, remote.values(), OffsetSpec.earliest())
    return {p: (here[p], there[r]) for p, r in remote.items()}


def _offsets(cluster: ClusterAdmin, partitions: Iterable[Partition], spec: OffsetSpec) -> dict[Partition, int]:
    """The offset of each partition. Raises MirrorError if a cluster gives none of one."""
    wanted = list(partitions)
    found = cluster.offsets(dict.fromkeys(wanted, spec))
    for partition in wanted:
        if partition not in found:
            raise MirrorError(
                f"{cluster.alias} gives no offsets of {partition}: check its leader, and that mirror may read it"
            )
    return found


def _remote(
    flow: Flow, topics: Collection[str], source: ClusterAdmin, target: ClusterAdmin
) -> tuple[list[Partition], dict[Partition, Partition]]:
    """The source's partitions, and the remote partition of each that exists on both sides."""
    policy, here = ReplicationPolicy.of(flow), source.partitions()
    remotes = selected(flow, here).remotes
    unknown = [topic for topic in topics if topic not in remotes and (topic in here or not policy.is_mirrored(topic))]
    if unknown:
        raise ConfigError([f"flow {flow.name} does not mirror topic {topic}: see its topics" for topic in unknown])
    missing = [topic for topic in topics if topic not in here]
    if missing:
        raise ConfigError([f"there is no topic {topic} on {flow.source.alias}" for topic in missing])
    # The canary is nobody's data, and compacted, so it would count as not compared.
    ours = {topic: here[topic] for topic in topics or remotes.keys() - {flow.canary_topic}}
    theirs = target.partitions()
    partitions = [Partition(topic, number) for topic, count in sorted(ours.items()) for number in range(count)]
    remote = {p: Partition(remotes[p.topic], p.partition) for p in partitions}
    return partitions, {p: r for p, r in remote.items() if r.partition < theirs.get(r.topic, 0)}


def _compacted(source: ClusterAdmin, topics: Collection[str]) -> list[str]:
    configs, refused = source.topic_configs(sorted(topics), own=False)
    if refused:
        topic, error = min(refused.items())
        reason = f"{error.str()}: whether they are compacted is not known; allow DescribeConfigs"
        raise MirrorError(
            f"{plural(len(refused), 'topic')} of {source.alias} can't be compared, e.g. {topic}: {reason}"
        )
    return [topic for topic, config in configs.items() if "compact" in config.get("cleanup.policy", "")]


def _stable_ends(target: ClusterAdmin, partitions: list[Partition]) -> dict[Partition, int]:
    """The last stable offsets, once they have passed the records that are on the target now.

    Waiting is necessary because each partition gets its transaction markers by itself: a position may be visible a
    moment before the records of its transaction.
    """
    high = target.offsets(dict.fromkeys(partitions, OffsetSpec.latest()), stable=False)
    deadline = time.monotonic() + STABLE_WITHIN
    while True:
        stable = _offsets(target, partitions, OffsetSpec.latest())
        open_ = [p for p in partitions if p in high and stable[p] < high[p]]
        if not open_:
            return stable
        if time.monotonic() > deadline:
            reason = f"a transaction on the target has been open for {duration(STABLE_WITHIN)}"
            raise MirrorError(f"{open_[0]} can't be compared: {reason}; wait until it has ended")
        time.sleep(0.1)


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
