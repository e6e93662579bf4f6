"""Group sync: committed offsets of the source's consumer groups, translated and committed on the target."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from mirror.errors import ClusterAway, PartitionError
from mirror.groups.translation import Unknown
from mirror.groups.translator import Translation, Translator
from mirror.kafka.clients import is_away, position_reader
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from mirror.naming import ReplicationPolicy, matcher
from mirror.settings import Cluster, Flow

REQUEST_TIMEOUT = 10.0  # seconds
HAS_MEMBERS = "the group has members on the target, or the target does not tell"
WOULD_GO_BACK = "the target's offset is higher"
AHEAD = "ahead of the copy: committed at its end"


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset, with the metadata that a consumer gave it."""

    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """How one group stands in one partition, after a round."""

    group: str
    partition: Partition  # of the source
    upstream: int  # its offset on the source
    lag: int | None  # records on the source that it has not read; None: not known
    downstream: int | None  # its offset on the target; None: none
    exact: bool  # True if `downstream` is the translation of `upstream`
    reason: str  # why it is not; "" if it is


@dataclass(frozen=True, slots=True)
class Choice:
    """What is to be committed for a group in one partition."""

    offset: int | None  # None: nothing
    exact: bool = False
    reason: str = ""


def choose(translation: Translation, end: Translation, before: int | None, active: bool) -> Choice:
    """What to commit. Pure. `end` is the end of the copy, `before` the group's offset on the target.

    `active`: the group has members on the target, or perhaps has some.
    """
    ahead = translation.reason == Unknown.NOT_COPIED.value and end.translated is not None
    wanted = end.translated if ahead else translation.translated
    if wanted is None:
        return Choice(None, reason=translation.reason)
    if before is not None and wanted < before:
        return Choice(None, reason=f"{WOULD_GO_BACK}: {before} instead of {wanted}")
    if active and before != wanted:
        return Choice(None, reason=HAS_MEMBERS)
    return Choice(None if active else wanted, not ahead, AHEAD if ahead else "")


class GroupSync:
    """Makes rounds over all groups of a flow. Only the flow leader has one."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._policy = ReplicationPolicy.of(flow)
        self._include, self._exclude = matcher(flow.groups.include), matcher(flow.groups.exclude)
        self._source, self._target = ClusterAdmin(flow.source), ClusterAdmin(flow.target)
        self._translator = Translator(flow)
        self._written: dict[tuple[str, Partition], float] = {}  # monotonic: when it was committed last

    def close(self) -> None:
        """End the clients."""
        self._translator.close()

    def round(self, renew_interval: float) -> list[GroupOffset]:
        """Translate and commit the offsets of all groups.

        An offset that stays the same is committed again after `renew_interval` seconds, before a broker forgets it.
        Raises ClusterAway or PartitionError.
        """
        names = [name for name in self._source.groups() if self._include(name) and not self._exclude(name)]
        counts = self._source.partitions()
        mirrored = {
            Partition(name, n): (name, n)
            for name, count in counts.items()
            if self._policy.is_mirrored(name)
            for n in range(count)
        }
        # Before the positions: a group is rarely ahead of a copy that is looked at later.
        offsets = {name: offsets_of(self._flow.source, name, mirrored) for name in names}
        used = sorted({partition for found in offsets.values() for partition in found})
        if not used:
            return []
        self._translator.refresh(used)
        ends = self._source.offsets(dict.fromkeys(used, OffsetSpec.latest()))
        inactive = self._target.inactive_groups(name for name, found in offsets.items() if found)
        return [
            each
            for name, found in offsets.items()
            if found
            for each in self._sync(name, found, ends, name not in inactive, renew_interval)
        ]

    def _sync(
        self,
        group: str,
        offsets: Mapping[Partition, Committed],
        ends: Mapping[Partition, int],
        active: bool,
        renew_interval: float,
    ) -> list[GroupOffset]:
        """One group. What the target refuses is the reason of all its partitions, and ends nothing else."""
        remote = {p: (self._policy.remote_topic(p.topic), p.partition) for p in offsets}
        found: list[GroupOffset] = []
        wanted: dict[Partition, Committed] = {}
        try:
            before = offsets_of(self._flow.target, group, remote)
            for partition, at in sorted(offsets.items()):
                known = before.get(partition)
                choice = self._choice(partition, at.offset, None if known is None else known.offset, active)
                if choice.offset is not None:
                    wanted[partition] = Committed(choice.offset, at.metadata)
                there = wanted.get(partition) or known
                lag = max(0, ends[partition] - at.offset) if partition in ends else None
                downstream = None if there is None else there.offset
                found.append(GroupOffset(group, partition, at.offset, lag, downstream, choice.exact, choice.reason))
            due = {p: at for p, at in wanted.items() if self._is_due(group, p, before.get(p), at, renew_interval)}
            if due:
                positions = [TopicPartition(*remote[p], at.offset, at.metadata) for p, at in due.items()]
                commit(self._flow.target, group, positions)
                self._written.update(((group, partition), time.monotonic()) for partition in due)
            return found
        except PartitionError as error:
            return [GroupOffset(group, p, at.offset, None, None, False, str(error)) for p, at in offsets.items()]

    def _choice(self, partition: Partition, upstream: int, before: int | None, active: bool) -> Choice:
        found = self._translator.to_downstream(partition, upstream)
        end = self._translator.end(partition) if found.reason == Unknown.NOT_COPIED.value else found
        return choose(found, end, before, active)

    def _is_due(
        self, group: str, partition: Partition, before: Committed | None, wanted: Committed, renew_interval: float
    ) -> bool:
        """True if the offset has changed, or would expire on the target one day."""
        written = self._written.get((group, partition))
        return before != wanted or written is None or time.monotonic() - written > renew_interval


def offsets_of(cluster: Cluster, group: str, names: Mapping[Partition, tuple[str, int]]) -> dict[Partition, Committed]:
    """The committed offsets of a group; `names` has the topic partitions of this cluster by source partition.

    Raises ClusterAway or PartitionError.
    """
    if not names:
        return {}
    with closing(position_reader(cluster, group, "read_committed")) as reader:
        found = _asked(cluster, group, reader, [TopicPartition(*name) for name in names.values()])
    at = {(f.topic, f.partition): f for f in found if f.error is None and f.offset >= 0}
    return {p: Committed(at[name].offset, at[name].metadata or "") for p, name in names.items() if name in at}


def _asked(cluster: Cluster, group: str, reader: Consumer, asked: list[TopicPartition]) -> Sequence[TopicPartition]:
    try:
        return list(reader.committed(asked, REQUEST_TIMEOUT))
    except KafkaException as error:
        cause = error.args[0]
    text = f"no offsets of group {group}: {cause.str()}"
    raise ClusterAway(cluster.alias, text) if is_away(cause) else PartitionError(text)


def commit(cluster: Cluster, group: str, offsets: list[TopicPartition]) -> None:
    """Commit offsets of a group without members; a broker refuses it if there are some.

    Raises ClusterAway or PartitionError.
    """
    with closing(position_reader(cluster, group, "read_uncommitted")) as writer:
        try:
            done = writer.commit(offsets=offsets, asynchronous=False)
            failed = [each.error for each in done if each.error is not None]
        except KafkaException as error:
            failed = [error.args[0]]
    if failed:
        text = f"the offsets of group {group} can't be committed: {failed[0].str()}"
        raise ClusterAway(cluster.alias, text) if is_away(failed[0]) else PartitionError(text)
