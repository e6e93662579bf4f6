"""The offsets of a round's groups on the target: read right before a commit, and committed where that is due."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field

from confluent_kafka import KafkaException

from mirror.errors import ClusterAway
from mirror.groups.group_choice import is_due
from mirror.groups.group_commits import GroupCommits, in_parts
from mirror.groups.group_offsets import Committed, GroupOffsets
from mirror.groups.shared_translator import SharedTranslator
from mirror.groups.translator import Translator
from mirror.kafka.cluster import ClusterAdmin, GroupStates
from mirror.model import Partition
from mirror.settings import Flow
from mirror.target.position_renewal import RETENTION, SHARE


@dataclass(frozen=True, slots=True)
class _Round:
    reader: GroupOffsets
    renew_interval: float  # seconds


@dataclass(frozen=True, slots=True)
class Stands:
    """A group's offsets on the target after a commit, why others are not there, and whether it has members there.

    `gone` are the source topics whose remote topic is another one by now, or none, each with the reason.
    """

    offsets: Mapping[Partition, Committed]
    failed: Mapping[Partition, str]
    has_members: bool
    gone: Mapping[str, str] = field(default_factory=dict)


class TargetOffsets:
    """Reads and commits offsets by source partition. It remembers when it has committed each one."""

    def __init__(self, flow: Flow, target: ClusterAdmin, translator: Translator | SharedTranslator) -> None:
        self._cluster = flow.target
        self._target = target
        self._translator = translator
        self._commits = GroupCommits(flow.target)
        self._round: _Round | None = None
        self._written: dict[tuple[str, Partition], float] = {}  # monotonic: when it was committed last

    def close(self) -> None:
        """End the client."""
        self._commits.close()

    @contextmanager
    def round(self, groups: Collection[str], states: GroupStates, renew_interval: float) -> Iterator[None]:
        """Read and commit offsets of some of these groups within it. Raises ClusterAway.

        An offset that stays the same is committed again after `renew_interval` seconds.
        """
        emptied = [name for name in groups if states.may_be_emptied(name)]
        keep = dict.fromkeys(emptied, self._retention(renew_interval)) if emptied else {}
        with closing(GroupOffsets(self._cluster)) as reader, self._commits.round(groups, keep):
            reader.find_coordinators(groups)
            self._round = _Round(reader, renew_interval)
            try:
                yield
            finally:
                self._round = None

    def forget_others(self, known: Collection[tuple[str, Partition]]) -> None:
        """Forget what is none of these groups' partitions, so that the memory is bounded."""
        self._written = {key: at for key, at in self._written.items() if key in known}

    def read(
        self, group: str, partitions: Iterable[Partition], timeout: float
    ) -> tuple[dict[Partition, Committed], dict[Partition, str]]:
        """A group's offsets, and why those of some partitions are not known. Raises ClusterAway, PartitionError.

        An offset that a transaction has committed counts only when the transaction's marker is in the coordinator's
        log. Until then it is not known: a commit of ours before that marker would undo it.
        """
        assert self._round is not None, "it reads within a round"
        return self._round.reader.of(group, self._remotes(partitions), timeout, stable=True)

    @property
    def gives_metadata(self) -> bool:
        """True if what was read in this round has its metadata. Otherwise it can't be committed again as it is."""
        return self._round is not None and self._round.reader.gives_metadata

    def commit(
        self,
        group: str,
        wanted: Mapping[Partition, Committed],
        before: Mapping[Partition, Committed],
        until: float,
        timeout: float,
    ) -> Stands:
        """Commit those of the wanted offsets that are due, until this time on the monotonic clock.

        `before` is what the target has. Raises ClusterAway, with TooLate, or PartitionError.
        """
        assert self._round is not None, "it commits within a round"
        now = time.monotonic()
        ages = {p: now - self._written[group, p] for p in wanted if (group, p) in self._written}
        due = {p: at for p, at in wanted.items() if is_due(before.get(p), at, ages.get(p), self._round.renew_interval)}
        gone = self._gone({p.topic for p in due}, wanted)
        due = {p: at for p, at in due.items() if p.topic not in gone}
        done, failed = self._committed(group, due, until, timeout)
        stands = {p: at for p, at in wanted.items() if p not in due and p.topic not in gone} | done
        return Stands(stands, failed, any(p not in done and p not in failed for p in due), gone)

    def _committed(
        self, group: str, due: Mapping[Partition, Committed], until: float, timeout: float
    ) -> tuple[dict[Partition, Committed], dict[Partition, str]]:
        """Commit offsets of a group. Returns those that were committed, and why others were refused.

        The rest was not committed because the group has members. If a part fails, those before it stand all the same:
        the next attempt need not commit them again, and so gets further.
        """
        sources = {where: partition for partition, where in self._remotes(due).items()}
        done: dict[Partition, Committed] = {}
        failed: dict[Partition, str] = {}
        for part in in_parts(group, {where: due[partition] for where, partition in sources.items()}):
            now = time.monotonic()
            answer = self._commits.commit(group, part, until, timeout)
            if answer is None:
                break
            taken, refused = answer
            done |= {sources[where]: at for where, at in taken.items()}
            failed |= {sources[where]: reason for where, reason in refused.items()}
            self._written.update(((group, sources[where]), now) for where in taken)
        return done, failed

    def _retention(self, renew_interval: float) -> float:
        """For how many seconds the target keeps offsets; a guess if it does not say so. Raises ClusterAway."""
        least = SHARE * renew_interval
        try:
            return max(least, 60 * float(self._target.broker_config(self._target.brokers()[0])[RETENTION]))
        except ClusterAway:
            raise
        except (KafkaException, KeyError, ValueError, IndexError):
            return least

    def _remotes(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[str, int]]:
        """The remote partition of each source partition."""
        return {each: (self._translator.remote(each.topic), each.partition) for each in partitions}

    def _gone(self, topics: Collection[str], partitions: Iterable[Partition]) -> dict[str, str]:
        """Those source topics whose remote topic was created again, or deleted: a round may last for seconds.

        Each with the reason. It is asked right before a commit. An offset of the old topic would pass over records of
        the new one, and never go back. The partitions tell which remote topics they are of.
        """
        names = {topic: self._translator.remote(topic) for topic in topics}
        now = self._target.ids_now(names.values())[0] if names else {}
        # Without a position a partition tells no id, which is "" then.
        before = [(each.topic, self._translator.remote_id(each)) for each in partitions if each.topic in names]
        gone = {topic for topic, known in before if known and known != now.get(names[topic], "")}
        reason = "is gone, or another topic has its name since the group round began"
        return {topic: f"{names[topic]} {reason}" for topic in gone}
