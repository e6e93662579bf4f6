"""Group sync: committed offsets of the source's consumer groups, translated and committed on the target."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from confluent_kafka.admin import OffsetSpec

from mirror.errors import ClusterAway, PartitionError
from mirror.groups.group_choice import Choice, GroupOutcome, choose
from mirror.groups.group_commits import TooLate
from mirror.groups.group_offsets import Committed
from mirror.groups.patience import Patience
from mirror.groups.position_groups import POSITIONS_THERE, is_position
from mirror.groups.selected import not_mirrored, unmirrored
from mirror.groups.shared_translator import SharedTranslator
from mirror.groups.source_groups import SourceGroups
from mirror.groups.target_offsets import Stands, TargetOffsets
from mirror.groups.translated import Translation
from mirror.groups.translation import Unknown
from mirror.groups.translator import Translator
from mirror.kafka.cluster import ClusterAdmin, GroupStates
from mirror.model import Partition
from mirror.settings import Flow

FRESH = 2.0  # seconds in which a commit may follow on a look at the target: others commit there, too
WITHOUT_METADATA = "committed without its metadata, which is too long for the target"


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """How one group stands in one partition, after a round."""

    group: str
    partition: Partition  # of the source
    upstream: Committed  # its offset on the source
    lag: int | None  # records on the source that it has not read; None: not known
    downstream: int | None  # its translated offset, or for `ahead` the end of the copy; None: unknown
    committed: int | None  # its offset on the target; None: none, or groups are not synced
    outcome: GroupOutcome
    reason: str  # why the outcome is not "exact", or that the metadata is left out; else ""
    remote_id: str = ""  # the id of the remote topic that `downstream` is an offset of; "": not known


@dataclass(frozen=True, slots=True)
class _Round:
    """What a round knows of both clusters."""

    ends: Mapping[Partition, int]  # of the source's partitions
    active: Collection[str]  # groups that have members on the target, as far as it is known
    patience: Patience  # with the target's coordinators


class GroupSync:
    """Makes rounds over all groups of a flow, in the flow leader and for `mirror status --groups`."""

    def __init__(self, flow: Flow, commits: bool = True) -> None:
        """Without `commits` nothing is written; otherwise `groups.sync` says whether offsets are committed."""
        self._flow = flow
        self._commits = commits and flow.groups.sync
        self._source, self._target = ClusterAdmin(flow.source), ClusterAdmin(flow.target)
        self._translator = SharedTranslator(flow) if flow.active_active else Translator(flow)
        self._groups = SourceGroups(flow, self._source)
        self._there = TargetOffsets(flow, self._target, self._translator)

    @property
    def refused(self) -> Mapping[str, str]:
        """The groups whose offsets the source did not give in the last round, and why."""
        return self._groups.refused

    @property
    def left_out(self) -> Mapping[str, str]:
        """The groups that are no consumer groups, and why they are not synced."""
        return self._groups.left_out

    def close(self) -> None:
        """End the clients."""
        self._translator.close()
        self._there.close()

    def round(self, renew_interval: float) -> list[GroupOffset]:
        """Translate the offsets of all groups, and commit them.

        An offset that stays the same is committed again after `renew_interval` seconds, before a broker removes it. So
        is one that mirror leaves as it is on the target.
        Raises ClusterAway, PartitionError, or FlowError if the plan can't be read, or if a user's own policy does not
        answer.
        """
        # The groups' offsets are read first and the positions later. So a group is rarely ahead of the copy.
        offsets = self._groups.offsets()
        used = sorted({partition for some in offsets.values() for partition in some})
        if not used:
            return []
        others = unmirrored(self._flow, {partition.topic for partition in used})
        mirrored = {partition for partition in used if partition.topic not in others}
        ends = self._source.offsets(dict.fromkeys(used, OffsetSpec.latest()))
        if mirrored:
            self._translator.refresh(sorted(mirrored))
        states = self._target.group_states() if self._flow.groups.sync and mirrored else GroupStates()
        found: list[GroupOffset] = []
        synced = [name for name, some in offsets.items() if self._flow.groups.sync and not mirrored.isdisjoint(some)]
        with self._there.round(synced, states, renew_interval):
            about = _Round(ends, states.active, Patience())
            for name, some in offsets.items():
                found += self._sync(name, {p: at for p, at in some.items() if p in mirrored}, about)
                for topic, of_topic in sorted(_by_topic(some, others).items()):
                    reason = not_mirrored(others[topic])
                    found += _untranslated(name, of_topic, about, GroupOutcome.UNTRANSLATED, reason)
            about.patience.end()
        if not self.refused:  # otherwise groups are missing that still exist
            self._there.forget_others({(each.group, each.partition) for each in found})
        return found

    def _sync(self, group: str, offsets: Mapping[Partition, Committed], about: _Round) -> list[GroupOffset]:
        """Sync one group. If a cluster refuses or does not answer, all partitions of the group are DENIED."""
        if not offsets:
            return []
        try:
            try:
                found = self._synced(group, offsets, about)
            except TooLate:  # a coordinator moves, or we stood still: now the target is read again
                found = self._synced(group, offsets, about)
            about.patience.note(None)
            return found
        except (ClusterAway, PartitionError) as error:
            about.patience.note(error)
            return _untranslated(group, offsets, about, GroupOutcome.DENIED, str(error))

    def _synced(self, group: str, offsets: Mapping[Partition, Committed], about: _Round) -> list[GroupOffset]:
        translated = {partition: self._translated(partition, at.offset) for partition, at in sorted(offsets.items())}
        about.patience.begin()
        # Read last, so that little time is left in which somebody else could commit a higher offset.
        until = time.monotonic() + FRESH
        before, failed = self._before(group, offsets, about)
        if any(is_position(at.metadata) for at in before.values()):
            failed |= dict.fromkeys(offsets, POSITIONS_THERE)
        chosen = _chosen(translated, before, group in about.active)
        stands = self._commit(group, offsets, chosen, before, failed, about, until)
        failed |= {**stands.failed, **{p: stands.gone[p.topic] for p in chosen if p.topic in stands.gone}}
        if stands.has_members:
            chosen = _chosen(translated, before, active=True)
        found = []
        for partition, choice in chosen.items():
            at, there = offsets[partition], stands.offsets.get(partition, before.get(partition))
            lag, committed = _lag(about.ends, partition, at), None if there is None else there.offset
            is_bare = partition in stands.offsets and stands.offsets[partition].metadata != at.metadata
            outcome, reason = choice.outcome, choice.reason or (WITHOUT_METADATA if is_bare else "")
            if partition in failed:
                outcome, reason = GroupOutcome.DENIED, failed[partition]
            # A checkpoint with an offset of the old topic would pass over records of the new one.
            downstream = None if partition.topic in stands.gone else choice.downstream
            remote_id = self._translator.remote_id(partition)
            found.append(GroupOffset(group, partition, at, lag, downstream, committed, outcome, reason, remote_id))
        return found

    def _translated(self, partition: Partition, upstream: int) -> tuple[Translation, Translation]:
        """The offset's translation, and that of what stands for it: of an offset ahead of the copy, the copy's end."""
        found = self._translator.to_downstream(partition, upstream)
        ahead = found.reason == Unknown.NOT_COPIED.value
        return found, self._translator.end(partition) if ahead else found

    def _before(
        self, group: str, partitions: Iterable[Partition], about: _Round
    ) -> tuple[dict[Partition, Committed], dict[Partition, str]]:
        """The group's offsets on the target, and why those of some partitions are not known."""
        if not self._flow.groups.sync:
            return {}, {}
        return self._there.read(group, partitions, about.patience.timeout)

    def _commit(
        self,
        group: str,
        offsets: Mapping[Partition, Committed],
        chosen: Mapping[Partition, Choice],
        before: Mapping[Partition, Committed],
        failed: Mapping[Partition, str],
        about: _Round,
        until: float,
    ) -> Stands:
        """Commit on the target the offsets that may be committed, are due and have not `failed`."""
        if not self._commits or group in about.active:
            return Stands({}, {}, False)
        wanted: dict[Partition, Committed] = {}
        for partition, choice in chosen.items():
            if partition in failed:
                continue
            if choice.may_be_committed and choice.downstream is not None:
                wanted[partition] = Committed(choice.downstream, offsets[partition].metadata)
            elif choice.keeps and partition in before and self._there.gives_metadata:
                wanted[partition] = before[partition]
        return self._there.commit(group, wanted, before, until, about.patience.timeout)


def _chosen(
    translated: Mapping[Partition, tuple[Translation, Translation]],
    before: Mapping[Partition, Committed],
    active: bool,
) -> dict[Partition, Choice]:
    offsets = {partition: there.offset for partition, there in before.items()}
    return {p: choose(found, end, offsets.get(p), active) for p, (found, end) in translated.items()}


def _by_topic(offsets: Mapping[Partition, Committed], topics: Collection[str]) -> dict[str, dict[Partition, Committed]]:
    """A group's offsets in these topics: a group may have thousands of them, so they are gone through once."""
    found: dict[str, dict[Partition, Committed]] = {}
    for partition, at in offsets.items():
        if partition.topic in topics:
            found.setdefault(partition.topic, {})[partition] = at
    return found


def _lag(ends: Mapping[Partition, int], partition: Partition, at: Committed) -> int | None:
    return max(0, ends[partition] - at.offset) if partition in ends else None


def _untranslated(
    group: str, offsets: Mapping[Partition, Committed], about: _Round, outcome: GroupOutcome, reason: str
) -> list[GroupOffset]:
    return [
        GroupOffset(group, p, at, _lag(about.ends, p, at), None, None, outcome, reason) for p, at in offsets.items()
    ]
