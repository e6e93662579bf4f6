"""Which topics the source has for a flow, and their remote topics on the target."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from confluent_kafka import KafkaError
from confluent_kafka.admin import NewPartitions, NewTopic

from mirror.clients import INTERNAL_MAX
from mirror.cluster import NAMES, ClusterAdmin, Refusals, portions
from mirror.errors import FlowError
from mirror.plan import Topic
from mirror.policy import ReplicationPolicy
from mirror.settings import Flow

log = logging.getLogger(__name__)

# MirrorMaker's config.properties.exclude, and what else belongs to a cluster rather than to its data.
EXCLUDED_CONFIGS = frozenset(
    {
        "follower.replication.throttled.replicas",
        "leader.replication.throttled.replicas",
        "message.downconversion.enable",
        "message.format.version",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.difference.max.ms",
        "message.timestamp.type",
        "min.insync.replicas",
        "unclean.leader.election.enable",
    }
)
# The limit is on a batch of records, and batches are not those of the source; Kafka's own default.
BATCH_BYTES = 1_048_588
EXCLUDED_PREFIXES = ("confluent.", "local.retention.", "remote.")

# What the source took, the target must not refuse for its age; Kafka 4 refuses what is an hour ahead (KIP-1030).
ANY_TIME = {"message.timestamp.before.max.ms": str(2**63 - 1), "message.timestamp.after.max.ms": str(2**63 - 1)}

# A report or plan must not wait for hours to be compacted away, or a new reader reads for long. A plan has every
# partition.
INTERNAL_CONFIG = {
    "cleanup.policy": "compact",
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "0.1",
    "max.message.bytes": str(INTERNAL_MAX),
}

# Most records that are refused are so because they are too large.
DEAD_LETTER_CONFIG = {"max.message.bytes": str(2**31 - 1)}

Wanted = Mapping[str, tuple[int, Mapping[str, str]]]  # remote topics with partitions and configuration


@dataclass(frozen=True, slots=True)
class Changes:
    """What the target lacks, and what is there."""

    mirrored: Mapping[str, int]  # topics of the source that the flow mirrors, with their partitions
    existing: Mapping[str, int]  # topics of the target, with theirs
    create: Wanted
    grow: Mapping[str, int]  # remote topics with the partitions they shall have
    internal: Sequence[str]  # mirror's own topics


class TopicMonitor:
    """Looks at both clusters of a flow. Raises ClusterAway when one does not answer."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._source = ClusterAdmin(flow.source)
        self._target = ClusterAdmin(flow.target)
        self._policy = ReplicationPolicy.of(flow)
        self.refused: Refusals = {}  # remote topics that could not be created or grown at the last look

    def ensure_internal_topics(self) -> None:
        """Make mirror's own topics where they are missing. Raises FlowError if refused."""
        factor, letters = self._flow.internal_replication_factor, self._flow.dead_letter_topic
        missing = [
            NewTopic(name, 1, factor, config=DEAD_LETTER_CONFIG if name == letters else INTERNAL_CONFIG)
            for name in self._missing_internal(self._target.partitions())
        ]
        for name, error in self._create(missing).items():
            raise FlowError(f"topic {name} can't be created on {self._flow.target.alias}: {error.str()}")

    def mirrored(self, goes_on: Callable[[], object] = lambda: None) -> dict[str, Topic]:
        """The source's topics that the flow mirrors, by name, with the partitions that stand ready on the target.

        Thousands of new ones take minutes: `goes_on` is called now and then.
        """
        partitions = self._make(*self._look(), goes_on)
        ids = self._source.topic_ids(sorted(partitions))
        return {
            name: Topic(self._policy.remote_topic(name), topic_id, partitions[name], partitions[name])
            for name, topic_id in sorted(ids.items())
        }

    def changes(self) -> Changes:
        """What has to be made on the target; makes nothing."""
        mirrored, existing = self._look()
        return Changes(
            mirrored=mirrored,
            existing=existing,
            create={name: wanted for some in self._lacking(mirrored, existing) for name, wanted in some.items()},
            grow=self._short(mirrored, existing),
            internal=self._missing_internal(existing),
        )

    def _look(self) -> tuple[dict[str, int], dict[str, int]]:
        """The source's topics that the flow mirrors and all of the target, with their partitions."""
        mirrored = {name: n for name, n in self._source.partitions().items() if self._policy.is_mirrored(name)}
        return mirrored, self._target.partitions()

    def _lacking(self, mirrored: Mapping[str, int], existing: Mapping[str, int]) -> Iterator[Wanted]:
        """What the target has to create, some at a time: what is made of it stays, should the source go away then."""
        remote = self._policy.remote_topic
        for some in portions((name for name in mirrored if remote(name) not in existing), NAMES):
            configs = self._configs(some)
            yield {remote(name): (mirrored[name], configs.get(name, {})) for name in some}

    def _short(self, mirrored: Mapping[str, int], existing: Mapping[str, int]) -> dict[str, int]:
        """Remote topics that have too few partitions, with the number they shall have."""
        remote = {self._policy.remote_topic(name): count for name, count in mirrored.items()}
        return {name: count for name, count in remote.items() if existing.get(name, count) < count}

    def _missing_internal(self, existing: Mapping[str, int]) -> list[str]:
        return [name for name in self._flow.own_topics if name not in existing]

    def _make(
        self, mirrored: Mapping[str, int], existing: Mapping[str, int], goes_on: Callable[[], object]
    ) -> dict[str, int]:
        """Create and grow remote topics; returns how many partitions of each topic can be copied."""
        refused: Refusals = {}
        for wanted in self._lacking(mirrored, existing):
            refused |= self._create_remote(wanted)
            goes_on()
        refused |= self._grow(NewPartitions(name, count) for name, count in self._short(mirrored, existing).items())
        self._tell(refused)
        remote = {name: self._policy.remote_topic(name) for name in mirrored}
        return {
            name: existing[remote[name]] if remote[name] in refused else count
            for name, count in mirrored.items()
            if remote[name] not in refused or remote[name] in existing
        }

    def _create_remote(self, wanted: Wanted) -> Refusals:
        """Create remote topics, given how many partitions and which configuration each has."""
        factor = self._flow.replication_factor
        refused = self._create(NewTopic(t, n, factor, config={**own, **ANY_TIME}) for t, (n, own) in wanted.items())
        # Brokers before Kafka 3.6 don't know ANY_TIME, and don't need it.
        older = [topic for topic, error in refused.items() if error.code() == KafkaError.INVALID_CONFIG]
        for topic in older:
            del refused[topic]
        return refused | self._create(NewTopic(t, wanted[t][0], factor, config=dict(wanted[t][1])) for t in older)

    def _configs(self, names: list[str]) -> dict[str, dict[str, str]]:
        configs, refused = self._source.topic_configs(names)
        for name, error in refused.items():
            log.warning(
                "topic configuration can't be read, the remote topic gets the target's defaults",
                extra={"flow": self._flow.name, "topic": name, "reason": error.str()},
            )
        return {name: {k: v for k, v in own.items() if _belongs_to_data(k, v)} for name, own in configs.items()}

    def _create(self, topics: Iterable[NewTopic]) -> Refusals:
        wanted = list(topics)
        for topic in wanted:
            if topic.topic not in self.refused:
                where = {"flow": self._flow.name, "topic": topic.topic, "partitions": topic.num_partitions}
                log.info("creating topic", extra=where)
        return self._target.create_topics(wanted)

    def _grow(self, topics: Iterable[NewPartitions]) -> Refusals:
        wanted = list(topics)
        for topic in wanted:
            if topic.topic not in self.refused:
                where = {"flow": self._flow.name, "topic": topic.topic, "partitions": topic.new_total_count}
                log.info("adding partitions", extra=where)
        return self._target.create_partitions(wanted)

    def _tell(self, refused: Refusals) -> None:
        """Once for each topic: what is refused is asked again at every look."""
        for name in refused.keys() - self.refused.keys():
            log.error(
                "the target refuses to create or grow the topic; partitions without a remote one are not mirrored",
                extra={"flow": self._flow.name, "topic": name, "reason": refused[name].str()},
            )
        self.refused = refused


def _belongs_to_data(key: str, value: str) -> bool:
    if key == "max.message.bytes":
        return int(value) >= BATCH_BYTES
    return key not in EXCLUDED_CONFIGS and not key.startswith(EXCLUDED_PREFIXES)
