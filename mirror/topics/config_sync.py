"""Keeps the configurations of remote topics in step with those of their source topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from confluent_kafka import KafkaError
from confluent_kafka.admin import OffsetSpec

from mirror.groups.selected import selected
from mirror.kafka.cluster import NAMES, Refusals, chunks
from mirror.kafka.topic_configs import TopicConfigAdmin
from mirror.model import Partition, Topic
from mirror.settings import Flow
from mirror.topics.config_rules import Change, Comparison, Rules, compare

DENIED = (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED)


class ConfigOutcome(StrEnum):
    """How a remote topic's configuration stands after it was compared."""

    IN_STEP = "in_step"  # nothing differs
    ALTERED = "altered"  # it differed, and was altered
    DIFFERENT = "different"  # it differs: the target refuses it or does not know a key, or it was only compared
    HIDDEN = "hidden"  # a cluster does not give one of the two configurations


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """How the configuration of one remote topic stands."""

    topic: str  # on the source
    remote: str
    outcome: ConfigOutcome
    changes: tuple[Change, ...] = ()  # made if `altered`, else to be made
    reason: str = ""  # why it is different or hidden; of an altered one, what the target can't take


class ConfigSync:
    """Compares configurations, and alters those of remote topics. Every method may raise ClusterAway."""

    def __init__(self, flow: Flow) -> None:
        self._source, self._target = TopicConfigAdmin(flow.source), TopicConfigAdmin(flow.target)
        self._flow = flow
        self._rules = Rules.of(flow)

    def existing(self) -> dict[str, Topic]:
        """The mirrored topics whose remote topic exists. Only `remote` is filled in: ids and numbers are empty."""
        there = self._target.partitions()
        remotes = selected(self._flow, self._source.partitions()).remotes
        return {name: Topic(remote, "", 0, 0) for name, remote in remotes.items() if remote in there}

    def empty(self, topics: Iterable[Topic]) -> set[str]:
        """The names of those remote topics that have never had a record: all of their partitions end at offset 0."""
        partitions = {Partition(topic.remote, n) for topic in topics for n in range(topic.partitions)}
        ends = self._target.offsets(dict.fromkeys(partitions, OffsetSpec.latest()), stable=False)
        return {p.topic for p in partitions} - {p.topic for p in partitions if ends.get(p) != 0}

    def compare(self, topics: Mapping[str, Topic]) -> Iterator[list[TopicConfig]]:
        """How each topic stands, some topics at a time. Changes nothing.

        Topics that are gone meanwhile are left out, and those that have another id than `topics` say.
        """
        for some in chunks(sorted(topics), NAMES):
            ours, ours_hidden = self._source.configs(some)
            theirs, theirs_hidden = self._target.configs([topics[name].remote for name in some])
            hidden = {name: self._hidden(self._source.alias, error) for name, error in ours_hidden.items()}
            others = self._others({name: topics[name].topic_id for name in some if topics[name].topic_id})
            found = []
            for name in some:
                remote = topics[name].remote
                reason = hidden.get(name) or self._hidden(self._target.alias, theirs_hidden.get(remote))
                if reason:
                    found.append(TopicConfig(name, remote, ConfigOutcome.HIDDEN, reason=reason))
                elif name in ours and remote in theirs and name not in others:
                    found.append(self._compared(name, remote, compare(ours[name], theirs[remote], self._rules)))
            yield found

    def _others(self, ids: Mapping[str, str]) -> set[str]:
        """The topics that do not have these ids any more.

        Call it after the configurations were read. A topic that still has its id then had it while they were read.
        """
        now, _ = self._source.ids_now(ids) if ids else ({}, {})
        return {name for name, topic_id in ids.items() if now.get(name) != topic_id}

    def round(
        self, topics: Mapping[str, Topic], on_progress: Callable[[], bool] = lambda: True
    ) -> Iterator[TopicConfig]:
        """Compare and alter, some topics at a time. After each part it calls `on_progress`, and ends on False."""
        for found in self.compare(topics):
            wanted = {each.remote: {c.key: c.now for c in each.changes} for each in found if each.changes}
            refused = self._target.alter(wanted) if wanted else {}
            gone = {name for name, error in refused.items() if error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART}
            yield from (self._altered(each, refused) for each in found if each.remote not in gone)
            if not on_progress():
                return

    def _compared(self, name: str, remote: str, found: Comparison) -> TopicConfig:
        reason = f"{self._target.alias} does not know {', '.join(found.unknown)}" if found.unknown else ""
        different = found.changes or reason
        outcome = ConfigOutcome.DIFFERENT if different else ConfigOutcome.IN_STEP
        return TopicConfig(name, remote, outcome, found.changes, reason)

    def _altered(self, each: TopicConfig, refused: Refusals) -> TopicConfig:
        if not each.changes:
            return each
        error = refused.get(each.remote)
        if error is None:
            return replace(each, outcome=ConfigOutcome.ALTERED)
        remedy = "; allow AlterConfigs" if error.code() in DENIED else ""
        return replace(each, reason=f"{self._target.alias} refuses the change: {error.str()}{remedy}")

    @staticmethod
    def _hidden(alias: str, error: KafkaError | None) -> str:
        if error is None or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return ""
        remedy = "; allow DescribeConfigs" if error.code() in DENIED else ""
        return f"{alias} does not give the configuration: {error.str()}{remedy}"
