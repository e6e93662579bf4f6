"""Group sync: committed offsets of the source's consumer groups, translated and committed on the target."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from mirror.errors import ClusterAway, PartitionError
from mirror.groups.translation import Unknown
from mirror.groups.translator import Translation, Translator
from mirror.kafka.clients import is_away, position_reader
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from mirror.naming import INTERNAL, ReplicationPolicy, matcher
from mirror.settings import Cluster, Flow

log = logging.getLogger(__name__)

REQUEST_TIMEOUT = 10.0  # seconds
NOT_MIRRORED = "the topic is not mirrored"
HAS_MEMBERS = "the group has members on the target, or the target does not tell"
WOULD_GO_BACK = "the target's offset is higher"
AHEAD = "ahead of the copy: the end of the copy stands for it"


class Outcome(StrEnum):
    """How a group stands in one partition."""

    EXACT = "exact"  # its offset is translated, and stands on the target if groups are synced
    AHEAD = "ahead"  # the copy is not there yet; the end of the copy stands for its offset
    UNTRANSLATED = "untranslated"  # its offset can't be translated
    ACTIVE = "active"  # the group has members on the target, and is left alone
    BACKWARDS = "backwards"  # the offset on the target is higher, and stays
    DENIED = "denied"  # a cluster refuses to give or to take the offset


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
    upstream: Committed  # its offset on the source
    lag: int | None  # records on the source that it has not read; None: not known
    downstream: int | None  # its translated offset, or for `ahead` the end of the copy; None: unknown
    committed: int | None  # its offset on the target; None: none, or groups are not synced
    outcome: Outcome
    reason: str  # why the outcome is not "exact"; "" if it is


@dataclass(frozen=True, slots=True)
class Choice:
    """The translated offset, and whether it may be committed."""

    downstream: int | None
    outcome: Outcome
    reason: str = ""

    @property
    def may_be_committed(self) -> bool:
        """True if nothing on the target speaks against it."""
        return self.outcome in (Outcome.EXACT, Outcome.AHEAD)


def choose(translation: Translation, end: Translation, before: int | None, active: bool) -> Choice:
    """What becomes of a translated offset. Pure.

    `end` is the end of the copy, `before` the group's offset on the target. `active`: the group has members there, or
    perhaps has some.
    """
    ahead = translation.reason == Unknown.NOT_COPIED.value and end.translated is not None
    wanted = end.translated if ahead else translation.translated
    if wanted is None:
        return Choice(None, Outcome.UNTRANSLATED, translation.reason)
    if before is not None and wanted < before:
        return Choice(wanted, Outcome.BACKWARDS, f"{WOULD_GO_BACK}: {before} instead of {wanted}")
    if active and before != wanted:
        return Choice(wanted, Outcome.ACTIVE, HAS_MEMBERS)
    return Choice(wanted, Outcome.AHEAD, AHEAD) if ahead else Choice(wanted, Outcome.EXACT)


@dataclass(frozen=True, slots=True)
class _Round:
    """What a round knows of the clusters."""

    ends: Mapping[Partition, int]  # of the source's partitions
    inactive: Collection[str]  # groups without members on the target
    renew_interval: float


class GroupSync:
    """Makes rounds over all groups of a flow. Only the flow leader has one."""

    def __init__(self, flow: Flow, commits: bool = True) -> None:
        """Without `commits` nothing is written; otherwise `groups.sync` says whether offsets are committed."""
        self._flow = flow
        self._commits = commits and flow.groups.sync
        self._policy = ReplicationPolicy.of(flow)
        self._include, self._exclude = matcher(flow.groups.include), matcher(flow.groups.exclude)
        self._source, self._target = ClusterAdmin(flow.source), ClusterAdmin(flow.target)
        self._translator = Translator(flow)
        self._written: dict[tuple[str, Partition], float] = {}  # monotonic: when it was committed last
        self._refused: set[str] = set()  # groups whose offsets the source does not give

    def close(self) -> None:
        """End the clients."""
        self._translator.close()

    def round(self, renew_interval: float) -> list[GroupOffset]:
        """Translate the offsets of all groups, and commit them.

        An offset that stays the same is committed again after `renew_interval` seconds, before a broker forgets it.
        Raises ClusterAway or PartitionError.
        """
        # Before the positions: a group is rarely ahead of a copy that is looked at later.
        offsets = self._offsets()
        used = sorted({partition for some in offsets.values() for partition in some})
        mirrored = {partition for partition in used if self._policy.is_mirrored(partition.topic)}
        if not used:
            return []
        ends = self._source.offsets(dict.fromkeys(used, OffsetSpec.latest()))
        if mirrored:
            self._translator.refresh(sorted(mirrored))
        inactive = self._target.inactive_groups(offsets) if self._flow.groups.sync and mirrored else set()
        about = _Round(ends, inactive, renew_interval)
        found: list[GroupOffset] = []
        for name, some in offsets.items():
            found += self._sync(name, {p: at for p, at in some.items() if p in mirrored}, about)
            others = {p: at for p, at in some.items() if p not in mirrored}
            found += _untranslated(name, others, about, Outcome.UNTRANSLATED, NOT_MIRRORED)
        return found

    def _offsets(self) -> dict[str, dict[Partition, Committed]]:
        """The committed offsets on the source of each group that takes part. Raises ClusterAway."""
        names = [name for name in self._source.groups() if self._include(name) and not self._exclude(name)]
        partitions = {
            Partition(name, n): (name, n)
            for name, count in self._source.partitions().items()
            if not INTERNAL.fullmatch(name)
            for n in range(count)
        }
        found: dict[str, dict[Partition, Committed]] = {}
        for name in names:
            try:
                found[name] = offsets_of(self._flow.source, name, partitions)
            except PartitionError as error:
                if name not in self._refused:
                    log.warning("a group is left out", extra={"flow": self._flow.name, "reason": str(error)})
                self._refused.add(name)
            else:
                self._refused.discard(name)
        return found

    def _sync(self, group: str, offsets: Mapping[Partition, Committed], about: _Round) -> list[GroupOffset]:
        """One group. What the target refuses is the reason of all its partitions, and ends nothing else."""
        remote = {p: (self._policy.remote_topic(p.topic), p.partition) for p in offsets}
        syncs = self._flow.groups.sync
        active = syncs and group not in about.inactive
        found: list[GroupOffset] = []
        wanted: dict[Partition, Committed] = {}
        try:
            before = offsets_of(self._flow.target, group, remote) if syncs else {}
            for partition, at in sorted(offsets.items()):
                there = before.get(partition)
                choice = self._choice(partition, at.offset, None if there is None else there.offset, active)
                if self._commits and not active and choice.may_be_committed and choice.downstream is not None:
                    there = wanted[partition] = Committed(choice.downstream, at.metadata)
                lag, committed = _lag(about.ends, partition, at), None if there is None else there.offset
                result = (choice.downstream, committed, choice.outcome, choice.reason)
                found.append(GroupOffset(group, partition, at, lag, *result))
            due = {p: at for p, at in wanted.items() if self._is_due(group, p, before.get(p), at, about.renew_interval)}
            if due:
                positions = [TopicPartition(*remote[p], at.offset, at.metadata) for p, at in due.items()]
                commit(self._flow.target, group, positions)
                self._written.update(((group, partition), time.monotonic()) for partition in due)
            return found
        except PartitionError as error:
            return _untranslated(group, offsets, about, Outcome.DENIED, str(error))

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


def _lag(ends: Mapping[Partition, int], partition: Partition, at: Committed) -> int | None:
    return max(0, ends[partition] - at.offset) if partition in ends else None


def _untranslated(
    group: str, offsets: Mapping[Partition, Committed], about: _Round, outcome: Outcome, reason: str
) -> list[GroupOffset]:
    return [
        GroupOffset(group, p, at, _lag(about.ends, p, at), None, None, outcome, reason) for p, at in offsets.items()
    ]


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
