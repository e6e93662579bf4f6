"""Group sync: committed offsets of the source's consumer groups, translated and committed on the target."""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass

from confluent_kafka.admin import OffsetSpec

from mirror.errors import ClusterAway, PartitionError
from mirror.groups.flow_back import SharedTranslator
from mirror.groups.group_choice import Choice, GroupOutcome, choose, is_due
from mirror.groups.group_commits import GroupCommits
from mirror.groups.group_offsets import Committed, GroupOffsets
from mirror.groups.translated import Translation
from mirror.groups.translation import Unknown
from mirror.groups.translator import Translator
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from mirror.naming import INTERNAL, ReplicationPolicy, groups_match_nothing, matcher, warning
from mirror.settings import Flow

log = logging.getLogger(__name__)

AWAY_MAX = 3  # groups without an answer in one part of a round; after more of them, the cluster counts as away
NOT_MIRRORED = "the topic is not mirrored"


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
    reason: str  # why the outcome is not "exact"; "" if it is


@dataclass(frozen=True, slots=True)
class _Round:
    """What a round knows of both clusters."""

    ends: Mapping[Partition, int]  # of the source's partitions
    active: Collection[str]  # groups that have members on the target, as far as it is known
    there: GroupOffsets  # of the target
    renew_interval: float


def taking_part(flow: Flow, groups: Iterable[str]) -> list[str]:
    """The consumer groups of the source that take part in the flow's rounds, sorted."""
    include, exclude = matcher(flow.groups.include), matcher(flow.groups.exclude)
    return sorted(name for name in groups if include(name) and not exclude(name))


class GroupSync:
    """Makes rounds over all groups of a flow, in the flow leader and for `mirror status --groups`."""

    def __init__(self, flow: Flow, commits: bool = True) -> None:
        """Without `commits` nothing is written; otherwise `groups.sync` says whether offsets are committed."""
        self._flow = flow
        self._commits = commits and flow.groups.sync
        self._policy = ReplicationPolicy.of(flow)
        self._source, self._target = ClusterAdmin(flow.source), ClusterAdmin(flow.target)
        self._translator = SharedTranslator(flow) if flow.active_active else Translator(flow)
        self._target_groups = GroupCommits(flow.target)
        self.refused: Mapping[str, str] = {}  # groups whose offsets the source did not give in the last round, and why
        self.left_out: Mapping[str, str] = {}  # groups of other types than consumer groups, and why they are not synced
        self._written: dict[tuple[str, Partition], float] = {}  # monotonic: when it was committed last
        self._away = 0  # groups without an answer in this part of the round: reading offsets, or syncing
        self._judged = False  # True once groups.include was compared with the source's groups

    def close(self) -> None:
        """End the clients."""
        self._translator.close()
        self._target_groups.close()

    def round(self, renew_interval: float) -> list[GroupOffset]:
        """Translate the offsets of all groups, and commit them.

        An offset that stays the same is committed again after `renew_interval` seconds, before a broker removes it.
        Raises ClusterAway or PartitionError.
        """
        # The groups' offsets are read first and the positions later. So a group is rarely ahead of the copy.
        offsets = self._offsets()
        used = sorted({partition for some in offsets.values() for partition in some})
        mirrored = {partition for partition in used if self._policy.is_mirrored(partition.topic)}
        if not used:
            return []
        ends = self._source.offsets(dict.fromkeys(used, OffsetSpec.latest()))
        if mirrored:
            self._translator.refresh(sorted(mirrored))
        active = self._target.active_groups() if self._flow.groups.sync and mirrored else set()
        found: list[GroupOffset] = []
        synced = [name for name, some in offsets.items() if self._flow.groups.sync and not mirrored.isdisjoint(some)]
        self._away = 0
        with closing(GroupOffsets(self._flow.target)) as there, self._target_groups.round(synced):
            there.find_coordinators(synced)
            about = _Round(ends, active, there, renew_interval)
            for name, some in offsets.items():
                found += self._sync(name, {p: at for p, at in some.items() if p in mirrored}, about)
                others = {p: at for p, at in some.items() if p not in mirrored}
                found += _untranslated(name, others, about, GroupOutcome.UNTRANSLATED, NOT_MIRRORED)
        if not self.refused:  # otherwise groups are missing that still exist
            current = {(each.group, each.partition) for each in found}
            self._written = {key: at for key, at in self._written.items() if key in current}
        return found

    def _offsets(self) -> dict[str, dict[Partition, Committed]]:
        """The committed offsets on the source of each group that takes part. Raises ClusterAway."""
        listed = self._source.groups()
        self._log_entries(listed)
        names = taking_part(self._flow, listed)
        partitions = {
            Partition(name, n): (name, n)
            for name, count in self._source.partitions().items()
            if not INTERNAL.fullmatch(name)
            for n in range(count)
        }
        found: dict[str, dict[Partition, Committed]] = {}
        refused: dict[str, str] = {}
        self._away = 0
        with closing(GroupOffsets(self._flow.source)) as here:
            here.find_coordinators(names)
            others, are_all = here.others()
            for name in names:
                try:
                    found[name], failed = here.of(name, partitions)
                    refused.update((name, reason) for reason in list(failed.values())[:1])
                except (ClusterAway, PartitionError) as error:
                    self._allow(error)
                    refused[name] = str(error)
        if not are_all:  # then what was said before still counts
            others = {name: reason for name, reason in self.left_out.items() if name not in names} | others
        left_out = {name: others[name] for name in taking_part(self._flow, others)}
        for name, reason in {**refused, **left_out}.items():
            if name not in self.refused and name not in self.left_out:
                log.warning("a group is left out", extra={"flow": self._flow.name, "group": name, "reason": reason})
        self.refused, self.left_out = refused, left_out
        return found

    def _log_entries(self, groups: Collection[str]) -> None:
        if not self._judged:
            self._judged = True
            if reason := warning(groups_match_nothing(self._flow.groups.include, groups)):
                log.warning("entries match no group", extra={"flow": self._flow.name, "reason": reason})

    def _allow(self, error: ClusterAway | PartitionError) -> None:
        """Raise the error if so many groups had no answer that the cluster must be away, and not just a coordinator."""
        self._away += isinstance(error, ClusterAway)
        if self._away > AWAY_MAX:
            raise error

    def _sync(self, group: str, offsets: Mapping[Partition, Committed], about: _Round) -> list[GroupOffset]:
        """Sync one group. If a cluster refuses or does not answer, all partitions of the group are DENIED."""
        translated = {partition: self._translated(partition, at.offset) for partition, at in sorted(offsets.items())}
        try:
            # Read last, so that little time is left in which somebody else could commit a higher offset.
            before, failed = self._before(group, offsets, about)
            chosen = _chosen(translated, before, group in about.active)
            due = self._commit(group, offsets, chosen, before, failed, about)
            if due is None:
                chosen, due = _chosen(translated, before, active=True), {}
        except (ClusterAway, PartitionError) as error:
            self._allow(error)
            return _untranslated(group, offsets, about, GroupOutcome.DENIED, str(error))
        found = []
        for partition, choice in chosen.items():
            at, there = offsets[partition], due.get(partition, before.get(partition))
            lag, committed = _lag(about.ends, partition, at), None if there is None else there.offset
            outcome, reason = choice.outcome, choice.reason
            if partition in failed:
                outcome, reason = GroupOutcome.DENIED, failed[partition]
            found.append(GroupOffset(group, partition, at, lag, choice.downstream, committed, outcome, reason))
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
        return about.there.of(group, self._remotes(partitions))

    def _remotes(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[str, int]]:
        """The remote partition of each source partition."""
        return {each: (self._translator.remote(each.topic), each.partition) for each in partitions}

    def _commit(
        self,
        group: str,
        offsets: Mapping[Partition, Committed],
        chosen: Mapping[Partition, Choice],
        before: Mapping[Partition, Committed],
        failed: dict[Partition, str],
        about: _Round,
    ) -> dict[Partition, Committed] | None:
        """Commit on the target the offsets that may be committed, are due and have not `failed`. Adds to `failed`.

        Returns those of `chosen` that the target has afterwards, {} if mirror may not commit. None if the broker
        refuses because the group has members.
        """
        if not self._commits or group in about.active:
            return {}
        wanted = {
            partition: Committed(choice.downstream, offsets[partition].metadata)
            for partition, choice in chosen.items()
            if choice.may_be_committed and choice.downstream is not None and partition not in failed
        }
        now = time.monotonic()
        ages = {p: now - self._written[group, p] for p in wanted if (group, p) in self._written}
        due = {p: at for p, at in wanted.items() if is_due(before.get(p), at, ages.get(p), about.renew_interval)}
        gone = self._gone(due)
        failed |= gone
        due, wanted = ({p: at for p, at in some.items() if p not in gone} for some in (due, wanted))
        if due:
            remote = self._remotes(due)
            if not self._target_groups.commit(group, {remote[p]: at for p, at in due.items()}):
                return None
            self._written.update(((group, partition), now) for partition in due)
        return wanted

    def _gone(self, partitions: Iterable[Partition]) -> dict[Partition, str]:
        """Those whose remote topic was created again, or deleted: a round may last for seconds. Each with the reason.

        It is asked right before a commit. An offset of the old topic would pass over records of the new one, and never
        go back.
        """
        known: dict[str, list[Partition]] = {}
        for each in partitions:
            known.setdefault(self._translator.remote(each.topic), []).append(each)
        now = self._target.ids_now(known)[0] if known else {}
        # Without a position a partition tells no id.
        gone = {
            name
            for name, some in known.items()
            if any(at and at != now.get(name, "") for at in map(self._translator.remote_id, some))
        }
        reason = "is gone, or another topic has its name since the group round began"
        return {each: f"{name} {reason}" for name in gone for each in known[name]}


def _chosen(
    translated: Mapping[Partition, tuple[Translation, Translation]],
    before: Mapping[Partition, Committed],
    active: bool,
) -> dict[Partition, Choice]:
    offsets = {partition: there.offset for partition, there in before.items()}
    return {p: choose(found, end, offsets.get(p), active) for p, (found, end) in translated.items()}


def _lag(ends: Mapping[Partition, int], partition: Partition, at: Committed) -> int | None:
    return max(0, ends[partition] - at.offset) if partition in ends else None


def _untranslated(
    group: str, offsets: Mapping[Partition, Committed], about: _Round, outcome: GroupOutcome, reason: str
) -> list[GroupOffset]:
    return [
        GroupOffset(group, p, at, _lag(about.ends, p, at), None, None, outcome, reason) for p, at in offsets.items()
    ]
