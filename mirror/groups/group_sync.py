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
from mirror.groups.group_commits import GroupCommits, TooLate
from mirror.groups.group_offsets import Committed, GroupOffsets
from mirror.groups.patience import Patience
from mirror.groups.translated import Translation
from mirror.groups.translation import Unknown
from mirror.groups.translator import Translator
from mirror.kafka.cluster import ClusterAdmin
from mirror.model import Partition
from mirror.naming import INTERNAL, ReplicationPolicy, matcher
from mirror.settings import Flow
from mirror.unmatched_entries import groups_match_nothing, warning

log = logging.getLogger(__name__)

FRESH = 2.0  # seconds in which a commit may follow on a look at the target: others commit there, too
NOT_MIRRORED = "the topic is not mirrored"
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


@dataclass(frozen=True, slots=True)
class _Round:
    """What a round knows of both clusters."""

    ends: Mapping[Partition, int]  # of the source's partitions
    active: Collection[str]  # groups that have members on the target, as far as it is known
    there: GroupOffsets  # of the target
    renew_interval: float
    patience: Patience  # with the target's coordinators


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
        self._names: Collection[str] = ()  # of the groups that took part in the last round
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
        with closing(GroupOffsets(self._flow.target)) as there, self._target_groups.round(synced):
            there.find_coordinators(synced)
            about = _Round(ends, active, there, renew_interval, Patience())
            for name, some in offsets.items():
                found += self._sync(name, {p: at for p, at in some.items() if p in mirrored}, about)
                others = {p: at for p, at in some.items() if p not in mirrored}
                found += _untranslated(name, others, about, GroupOutcome.UNTRANSLATED, NOT_MIRRORED)
            about.patience.end()
        if not self.refused:  # otherwise groups are missing that still exist
            current = {(each.group, each.partition) for each in found}
            self._written = {key: at for key, at in self._written.items() if key in current}
        return found

    def _offsets(self) -> dict[str, dict[Partition, Committed]]:
        """The committed offsets on the source of each group that takes part. Raises ClusterAway."""
        listed, are_listed = self._source.listed_groups()
        if are_listed:
            self._log_entries(listed)
        # A broker that does not tell its groups hides them. So those that were known before are asked for all the same.
        names = self._names = taking_part(self._flow, listed if are_listed else {*listed, *self._names})
        partitions = {
            Partition(name, n): (name, n)
            for name, count in self._source.partitions().items()
            if not INTERNAL.fullmatch(name)
            for n in range(count)
        }
        found: dict[str, dict[Partition, Committed]] = {}
        refused: dict[str, str] = {}
        with closing(GroupOffsets(self._flow.source)) as here:
            here.find_coordinators(names)
            others, are_all = here.others()
            patience = Patience()
            for name in names:
                try:
                    found[name], failed = here.of(name, partitions, patience.timeout)
                    refused.update((name, reason) for reason in list(failed.values())[:1])
                    patience.note(None)
                except (ClusterAway, PartitionError) as error:
                    patience.note(error)
                    refused[name] = str(error)
            patience.end()
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
            if reason := warning(groups_match_nothing(self._flow.groups, groups)):
                log.warning("entries match no group", extra={"flow": self._flow.name, "reason": reason})

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
        # Read last, so that little time is left in which somebody else could commit a higher offset.
        until = time.monotonic() + FRESH
        before, failed = self._before(group, offsets, about)
        chosen = _chosen(translated, before, group in about.active)
        due = self._commit(group, offsets, chosen, before, failed, about, until)
        if due is None:
            chosen, due = _chosen(translated, before, active=True), {}
        found = []
        for partition, choice in chosen.items():
            at, there = offsets[partition], due.get(partition, before.get(partition))
            lag, committed = _lag(about.ends, partition, at), None if there is None else there.offset
            is_bare = partition in due and due[partition].metadata != at.metadata
            outcome, reason = choice.outcome, choice.reason or (WITHOUT_METADATA if is_bare else "")
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
        return about.there.of(group, self._remotes(partitions), about.patience.timeout)

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
        until: float,
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
            there, timeout = {remote[p]: at for p, at in due.items()}, about.patience.timeout
            answer = self._target_groups.commit(group, there, until, timeout)
            if answer is None:
                return None
            taken, refused = answer
            failed |= {p: refused[remote[p]] for p in due if remote[p] in refused}
            done = {p: taken[remote[p]] for p in due if remote[p] in taken}
            self._written.update(((group, partition), now) for partition in done)
            wanted = {p: at for p, at in wanted.items() if p not in failed} | done
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
